"""Schedules: a job that is submitted again and again, at the moments that a cron expression names."""

AFTER = "fork"
COMMANDS = {
    "schedule": (f"{__name__}.pages", "schedule", "Submit jobs again and again, by a cron expression."),
}
