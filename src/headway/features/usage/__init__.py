"""Usage: what jobs and nodes use at this moment, asked of agents while somebody watches."""

AFTER = "ps"
COMMANDS = {
    "top": (f"{__name__}.pages", "top", "Show what jobs and nodes use now: CPU, memory, GPU, steps per second.")
}
