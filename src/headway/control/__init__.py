"""What connects the core with the world: commands change jobs, the cycle saves them, views show them."""
