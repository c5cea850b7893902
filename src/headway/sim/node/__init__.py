"""A simulated machine: its processes (agent, keeper), its disk and files, and how its ranks save."""
