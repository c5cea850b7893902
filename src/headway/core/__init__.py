"""The pure core: what a job is, what may happen to it, and what is decided about it.

Nothing in this package reads a clock, draws a random number or touches the world; import-linter checks it.
"""
