"""Swing-up and balance with positions in the log, and no velocities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import linalg

from nopg.envs import CartPole, ControlLaw, Environment, Pendulum, UniformAgent
from studies.calibration.plants.laws import Array, Behaviour, Law
from studies.logs.plant import LogPlant
from studies.paper_data import MixtureOfGaussians

__all__ = ["HIDDEN_CART_POLE", "HIDDEN_PENDULUM", "PositionsOnly", "numpy_law", "torch_generator"]

_PENDULUM, _CART_POLE = (
    Pendulum(),
    CartPole(rate=50.0, angle_limit=0.25, start_angle=0.1, max_voltage=5.0),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class PositionsOnly(LogPlant):
    """A plant of `nopg.envs` of which the log has positions; the reward is a column of the log.

    Attributes:
        env: The plant.
        positions: Number of measured columns, the first of its state.
    """

    env: Environment
    positions: int

    def start(self, count: int, rng: np.random.Generator) -> Array:
        """Return states (count, d_s) in which the task starts."""
        return np.asarray(self.env.initial(count, rng=torch_generator(rng)).numpy())

    def measure(self, hidden: Array, rng: np.random.Generator) -> Array:
        """Return the positions, without noise."""
        del rng
        return hidden[:, : self.positions]

    def advance(self, hidden: Array, actions: Array, rng: np.random.Generator) -> Array:
        """Return the states one step later."""
        del rng
        return np.asarray(self.env.step(torch.as_tensor(hidden), torch.as_tensor(actions)).numpy())

    def rewards(self, hidden: Array, measured: Array, actions: Array, after: Array) -> Array:
        """Return the rewards (m,) of the plant, velocities included."""
        del measured
        parts = (torch.as_tensor(part) for part in (hidden, actions, after))
        return np.asarray(self.env.reward(*parts).numpy())

    def terminal(self, hidden: Array) -> Any:
        """Return which states end the task."""
        return self.env.terminal(torch.as_tensor(hidden)).numpy()


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenPendulum(PositionsOnly):
    """The paper's swing-up, logged from upright under random torques; the task starts hanging."""

    def log_start(self, count: int, rng: np.random.Generator) -> Array:
        """Return upright states (count, 2)."""
        del rng
        return np.zeros((count, 2))

    def behaviour(self) -> Behaviour:
        """Return random torques from a mixture of normal distributions."""
        return lambda episodes, rng: numpy_law(MixtureOfGaussians().controller(torch_generator(rng)))

    def references(self) -> Mapping[str, Behaviour]:
        """Return a swing-up by energy with a catch by feedback, on differences of angles."""
        return {"energy and catch": _swing_up}


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenCartPole(PositionsOnly):
    """Balance at 50 Hz, logged under uniformly random voltages."""

    def behaviour(self) -> Behaviour:
        """Return uniformly random voltages within ±5 V."""
        return lambda episodes, rng: numpy_law(UniformAgent().controller(torch_generator(rng)))

    def references(self) -> Mapping[str, Behaviour]:
        """Return the LQR of the linearised plant, on differences of positions."""
        return {"LQR": self._regulator}

    @cached_property
    def _gain(self) -> Array:
        point = torch.zeros(1, 5, dtype=torch.float64)
        jacobian: Any = torch.autograd.functional.jacobian(
            lambda both: self.env.step(both[:, :4], both[:, 4:])[0], point
        )
        slopes = jacobian[:, 0].numpy()
        A, B, R = slopes[:, :4], slopes[:, 4:], np.array([[0.01]])
        X = linalg.solve_discrete_are(A, B, np.diag([5.0, 1.0, 0.01, 0.01]), R)
        return np.asarray(np.linalg.solve(R + B.T @ X @ B, B.T @ X @ A))

    def _regulator(self, episodes: int, rng: np.random.Generator) -> Law:
        del episodes, rng
        speeds = _Differences(1 / _CART_POLE.rate)
        return lambda measured: -np.column_stack([measured, speeds(measured)]) @ self._gain.T


class _Differences:
    """Velocities by differences of the last two positions; 0 at first."""

    def __init__(self, time_step: float) -> None:
        self.time_step, self.last = time_step, np.zeros(0)

    def __call__(self, measured: Array) -> Array:
        """Return velocities (m, d) at positions (m, d)."""
        before, self.last = self.last if self.last.size else measured, measured.copy()
        return (measured - before) / self.time_step


def _swing_up(episodes: int, rng: np.random.Generator) -> Law:
    """Return torques that raise the energy to that of standing upright, and catch the rod there."""
    del episodes, rng
    speeds, top = _Differences(_PENDULUM.time_step), 15.0  # 3g/(2l)

    def act(measured: Array) -> Array:
        angle = np.remainder(measured[:, 0] + math.pi, 2 * math.pi) - math.pi
        speed = speeds(measured)[:, 0]
        missing = top - (0.5 * speed**2 + top * np.cos(angle))
        pumps = 2.0 * np.sign(np.where(speed == 0, 1.0, speed)) * np.clip(missing, -1.0, 1.0)
        catches = -(20.0 * angle + 5.0 * speed)
        near = np.abs(angle) + 0.1 * np.abs(speed) < 0.4
        return np.asarray(np.where(near, catches, pumps))[:, None]

    return act


def numpy_law(law: ControlLaw) -> Law:
    """Return a controller on tensors as one on numpy arrays."""
    return lambda measured: np.asarray(torch.as_tensor(law(torch.as_tensor(measured))).numpy())


def torch_generator(rng: np.random.Generator) -> torch.Generator:
    """Return a generator of torch that is seeded by one of numpy."""
    return torch.Generator().manual_seed(int(rng.integers(2**62)))


HIDDEN_PENDULUM = HiddenPendulum(
    name="hidden-pendulum",
    role="report",
    states={"angle": "rad"},
    actions={"torque": ("N m", -2.0, 2.0)},
    angles={"angle": 2 * math.pi},
    discount=0.97,
    sizes=(2_000, 6_000),
    logged_steps=500,
    steps=500,
    interval=_PENDULUM.time_step,
    lags={"angle": 1},
    env=_PENDULUM,
    positions=1,
    repeats=1,
)
"""Twice the rows of `pendulum-random`."""

HIDDEN_CART_POLE = HiddenCartPole(
    name="hidden-cart-pole",
    role="report",
    states={"position": "m", "angle": "rad"},
    actions={"voltage": ("V", -5.0, 5.0)},
    angles={"angle": 2 * math.pi},
    discount=0.99,
    sizes=(3_000, 1_000),
    logged_steps=1_000,
    steps=10_000,
    interval=1 / _CART_POLE.rate,
    lags={"position": 1, "angle": 1},
    env=_CART_POLE,
    positions=2,
    repeats=1,
)
"""Twice the rows of `cart-pole`."""
