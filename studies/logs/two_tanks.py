"""Two tanks in series, whose lower level follows set points that change every few minutes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nopg.envs import TwoTanks
from studies.calibration.plants.laws import Array
from studies.logs.controllers import Loop, moved

__all__ = ["TWO_TANKS", "TwoTankLog"]

_TANKS = TwoTanks()
_CHANGE = 1 / 30
_NOISE = 0.1  # cm


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoTankLog(Loop):
    """Hold the lower level of `nopg.envs.TwoTanks` at its set point with a pump of 0 to 10 V.

    A set point uniform between 6 and 14 cm holds for 30 rows of 10 s in the mean. Both levels are measured.
    Starts are at rest, with a new set point.
    """

    def start(self, count: int, rng: np.random.Generator) -> Array:
        """Return hidden states (count, 3): upper level, lower level, set point."""
        level, set_point = rng.uniform(*_TANKS.set_points, (2, count))
        return np.stack([_TANKS.upper_level_at(1.0) * level, level, set_point], axis=1)

    def measure(self, hidden: Array, rng: np.random.Generator) -> Array:
        """Return both levels and the set point (m, 3); noise of 1 mm."""
        return hidden + rng.normal(size=hidden.shape) * (_NOISE, _NOISE, 0.0)

    def advance(self, hidden: Array, actions: Array, rng: np.random.Generator) -> Array:
        """Return the hidden states 10 s later."""
        after = _TANKS.step(torch.as_tensor(hidden), torch.as_tensor(actions)).numpy()
        return np.column_stack([after[:, :2], moved(hidden[:, 2], rng, _TANKS.set_points, _CHANGE)])

    def resting(self, measured: Array) -> Array:
        """Return the voltage (m,) that holds the lower level."""
        return np.asarray(_TANKS.voltage_at(1.0) * np.sqrt(np.maximum(measured[:, 1], 0.0)))


TWO_TANKS = TwoTankLog(
    name="two-tanks",
    role="report",
    states={"upper": "cm", "lower": "cm", "setpoint": "cm"},
    actions={"voltage": ("V", 0.0, _TANKS.max_voltage)},
    discount=0.97,
    sizes=(500,),
    logged_steps=0,
    steps=360,
    reward="-(lower - setpoint) ** 2 - 0.01 * voltage ** 2",
    exogenous={"setpoint": "log"},
    interval=_TANKS.time_step,
    columns=(1, 2),
    gain=0.08,
    integral_steps=15.0,
    noise=0.4,
    gains=(0.05, 3.0, 12),
    times=(4.0, 100.0, 8),
)
"""One long log under a noisy PI controller; an hour of control is 360 rows."""
