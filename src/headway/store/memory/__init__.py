"""The store in memory: what the simulator runs on, and the plainest reading of the protocol."""
