"""Headway: a managed training service. This file knows the version and nothing else."""

__version__ = "0.1.0"
