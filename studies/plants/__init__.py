"""The plants of calibration and of the engineers' benchmark, simulated many episodes at a time."""
