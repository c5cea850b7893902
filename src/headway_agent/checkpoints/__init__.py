"""Which files make a checkpoint, and when one is complete: names, habits of frameworks, rounds, standing still."""
