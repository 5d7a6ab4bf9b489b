"""Plants with known dynamics, controllers for them, and datasets collected from them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nopg.envs._agents import StepTest, UniformAgent
from nopg.envs._cart_pole import CartPole
from nopg.envs._closed_loop import ControlLaw
from nopg.envs._collect import collect, collect_grid, collect_uniform
from nopg.envs._demonstrations import synthetic_demonstrations
from nopg.envs._environment import Environment
from nopg.envs._frame_skip import FrameSkip
from nopg.envs._lqr import LQR
from nopg.envs._mountain_car import MountainCar
from nopg.envs._pendulum import Pendulum
from nopg.envs._simulate import Trajectories, simulate
from nopg.envs._two_tanks import TwoTanks, level_controller

if TYPE_CHECKING:
    from nopg.envs._gymnasium import GymnasiumEnvironment, register

__all__ = [
    "LQR",
    "CartPole",
    "ControlLaw",
    "Environment",
    "FrameSkip",
    "GymnasiumEnvironment",
    "MountainCar",
    "Pendulum",
    "StepTest",
    "Trajectories",
    "TwoTanks",
    "UniformAgent",
    "collect",
    "collect_grid",
    "collect_uniform",
    "level_controller",
    "register",
    "simulate",
    "synthetic_demonstrations",
]


def __getattr__(name: str) -> Any:
    """Import the names that need the extra `gymnasium` on first use."""
    if name not in {"GymnasiumEnvironment", "register"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}._gymnasium"), name)
