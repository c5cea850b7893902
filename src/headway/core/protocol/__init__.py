"""The words of the agents' calls: how each is read, within which bounds, as typed data."""
