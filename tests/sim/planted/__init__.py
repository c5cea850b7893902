"""Bugs to plant: each breaks one rule of the product, to prove that the judge can tell."""
