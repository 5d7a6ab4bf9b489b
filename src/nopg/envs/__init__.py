"""Plants with known dynamics, and datasets collected from them.

`nopg.envs.gymnasium` has them as Gymnasium environments and needs the extra `gymnasium`.
"""

from nopg.envs._classic_control import LQR, CartPole, MountainCar, Pendulum
from nopg.envs._environment import Environment, check_environment
from nopg.envs._simulate import (
    ControlLaw,
    Trajectories,
    UniformAgent,
    collect,
    collect_grid,
    collect_uniform,
    simulate,
)
from nopg.envs._two_tanks import TwoTanks

__all__ = [
    "LQR",
    "CartPole",
    "ControlLaw",
    "Environment",
    "MountainCar",
    "Pendulum",
    "Trajectories",
    "TwoTanks",
    "UniformAgent",
    "check_environment",
    "collect",
    "collect_grid",
    "collect_uniform",
    "simulate",
]
