"""Secrets: values that jobs need and nobody should see; sealed here, or kept elsewhere and named by a reference."""

AFTER = "token"
COMMANDS = {
    "secret": (f"{__name__}.pages", "secret", "Keep values that jobs need and nobody should see."),
}
