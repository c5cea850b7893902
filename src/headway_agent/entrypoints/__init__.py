"""What an engine starts on a host instead of the agent: a look at it, one node of an order, a release."""
