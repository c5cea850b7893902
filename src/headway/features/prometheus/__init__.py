"""Prometheus: what the server knows of jobs, queues, nodes and itself, as figures that a monitoring system scrapes."""

AFTER = ""
COMMANDS: dict[str, tuple[str, str, str]] = {}
