"""How fast Headway is, as ratios to what this machine can do at all. Run it with `make bench`."""
