"""HTTP to commands and views, and back. There are no rules in it."""
