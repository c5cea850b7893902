"""Visits: a shell, a command or a port where a job runs."""

AFTER = "diff"
COMMANDS = {
    "exec": (f"{__name__}.pages", "exec_", "Run a command where a job runs."),
    "ssh": (f"{__name__}.pages", "ssh", "Open a shell where a job runs."),
    "tunnel": (f"{__name__}.pages", "tunnel", "Bring a port of a job's node to this machine."),
}
