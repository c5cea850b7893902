"""Public yardsticks for scheduling: logs that others recorded, replayed through the product's own plan."""
