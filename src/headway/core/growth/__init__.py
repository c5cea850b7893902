"""Which nodes to get and which to give back, and how they are called."""
