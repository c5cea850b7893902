"""Visits of people to the place where a task runs: commands, shells, ports, and the frames that they travel in."""
