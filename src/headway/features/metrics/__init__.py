"""Metrics: the numbers that jobs log, or that are found for them; kept by the point, and shown as curves."""

AFTER = "logs"
COMMANDS = {"metrics": (f"{__name__}.pages", "metrics", "Show what a job has logged: numbers, and curves.")}
