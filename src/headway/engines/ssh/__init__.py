"""Nodes on machines that somebody can log in to by ssh."""
