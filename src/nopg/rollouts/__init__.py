"""Running controllers in environments, and collecting datasets from them."""

from nopg.rollouts._collect import collect_grid, collect_uniform
from nopg.rollouts._simulate import ControlLaw, Trajectories, simulate

__all__ = ["ControlLaw", "Trajectories", "collect_grid", "collect_uniform", "simulate"]
