"""What the leader holds in memory: the working copy, one transaction on it, and what is derived from both."""
