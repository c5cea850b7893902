"""The machine under the agent: directories and locks, processes, control groups, and what was granted."""
