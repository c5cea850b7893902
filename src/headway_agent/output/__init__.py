"""The output of ranks: packed and shipped, masked, and read by the user's own rules."""
