"""Tests of the words between a node and its server."""
