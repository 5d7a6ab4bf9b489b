"""Plants with known dynamics, controllers to run in them, and logs collected from them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nopg.envs._agents import MixtureOfGaussians, RandomAgent, UniformAgent
from nopg.envs._cart_pole import CartPole, CartPoleParameters, Pole
from nopg.envs._collect import FrameSkip, collect, collect_grid, collect_uniform
from nopg.envs._environment import Environment
from nopg.envs._lqr import LQR, LQRParameters
from nopg.envs._mountain_car import MountainCar, MountainCarParameters
from nopg.envs._operator import synthetic_demonstrations
from nopg.envs._pendulum import PENDULUM_GRIDS, Pendulum, PendulumParameters
from nopg.envs._simulate import ControlLaw, Trajectories, simulate
from nopg.envs._step_test import StepTest
from nopg.envs._two_tanks import TwoTanks, TwoTanksParameters, level_controller

if TYPE_CHECKING:
    from nopg.envs._gymnasium import GymnasiumEnvironment, register

__all__ = [
    "LQR",
    "PENDULUM_GRIDS",
    "CartPole",
    "CartPoleParameters",
    "ControlLaw",
    "Environment",
    "FrameSkip",
    "GymnasiumEnvironment",
    "LQRParameters",
    "MixtureOfGaussians",
    "MountainCar",
    "MountainCarParameters",
    "Pendulum",
    "PendulumParameters",
    "Pole",
    "RandomAgent",
    "StepTest",
    "Trajectories",
    "TwoTanks",
    "TwoTanksParameters",
    "UniformAgent",
    "collect",
    "collect_grid",
    "collect_uniform",
    "level_controller",
    "register",
    "simulate",
    "synthetic_demonstrations",
]

_LAZY = {"GymnasiumEnvironment": "_gymnasium", "register": "_gymnasium"}


def __getattr__(name: str) -> Any:
    """Import what needs an extra only when it is asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
