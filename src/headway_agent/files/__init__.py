"""The files that tasks keep: heard of, watched, stored in parts, and put back."""
