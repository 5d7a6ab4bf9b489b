"""Tasks with known dynamics, as pure vectorised functions of states and actions."""

from nopg.environments._environment import Environment
from nopg.environments._pendulum import PENDULUM_GRIDS, Pendulum, PendulumParameters

__all__ = ["PENDULUM_GRIDS", "Environment", "Pendulum", "PendulumParameters"]
