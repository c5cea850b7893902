"""What must be there before a task is claimed: code, data, packages, secrets, and the machine's cache of them."""
