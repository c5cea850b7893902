"""Nodes on demand from a Slurm cluster: what is asked of it, and what it says."""
