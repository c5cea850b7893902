"""Tests of the agent and its keeper."""
