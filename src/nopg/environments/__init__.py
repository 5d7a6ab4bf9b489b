"""Tasks with known dynamics, as pure vectorised functions of states and actions."""

from typing import TYPE_CHECKING, Any

from nopg.environments._cart_pole import (
    LONG_POLE,
    SHORT_POLE,
    CartPole,
    CartPoleParameters,
    Pole,
    balancing_feedback,
)
from nopg.environments._environment import Environment
from nopg.environments._lqr import LQR, LQRParameters, UnstableGainError
from nopg.environments._mountain_car import MountainCar, MountainCarParameters
from nopg.environments._pendulum import PENDULUM_GRIDS, Pendulum, PendulumParameters
from nopg.environments._two_tanks import TwoTanks, TwoTanksParameters, level_controller

if TYPE_CHECKING:
    from nopg.environments._gymnasium import GymnasiumEnvironment, register

__all__ = [
    "LONG_POLE",
    "LQR",
    "PENDULUM_GRIDS",
    "SHORT_POLE",
    "CartPole",
    "CartPoleParameters",
    "Environment",
    "GymnasiumEnvironment",
    "LQRParameters",
    "MountainCar",
    "MountainCarParameters",
    "Pendulum",
    "PendulumParameters",
    "Pole",
    "TwoTanks",
    "TwoTanksParameters",
    "UnstableGainError",
    "balancing_feedback",
    "level_controller",
    "register",
]


def __getattr__(name: str) -> Any:
    """Import the adapter only when it is asked for: Gymnasium is an extra."""
    if name in ("GymnasiumEnvironment", "register"):
        from nopg.environments import _gymnasium

        return getattr(_gymnasium, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
