"""The plants of the engineers' benchmark, simulated many episodes at a time."""
