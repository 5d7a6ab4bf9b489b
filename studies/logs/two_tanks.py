"""Two tanks in series, whose lower level follows set points that change every few minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from nopg.envs import TwoTanks
from studies.calibration.plants.laws import Array, Behaviour
from studies.logs.controllers import PI, best_pi
from studies.logs.plant import LogPlant

__all__ = ["TWO_TANKS", "TwoTankLog"]

_TANKS = TwoTanks()
_CHANGE = 1 / 30
_NOISE = 0.1  # cm


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoTankLog(LogPlant):
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
        moved, m = _TANKS.step(torch.as_tensor(hidden), torch.as_tensor(actions)).numpy(), len(hidden)
        changes, drawn = rng.random(m) < _CHANGE, rng.uniform(*_TANKS.set_points, m)
        return np.column_stack([moved[:, :2], np.where(changes, drawn, hidden[:, 2])])

    def behaviour(self) -> Behaviour:
        """Return a slow PI controller with noise of .4 V on the pump."""
        return self._pi(0.4)

    def references(self) -> Mapping[str, Behaviour]:
        """Return the PI controller without its noise, and the best one of a grid."""
        return {"clean PI": self._pi(0.0), "tuned PI": self._tuned}

    def _pi(self, noise: float) -> PI:
        return PI(plant=self, columns=(1, 2), gain=0.08, integral_steps=15.0, resting=_resting, noise=noise)

    @cached_property
    def _tuned(self) -> PI:
        gains, times = np.geomspace(0.05, 3.0, 12), np.geomspace(4.0, 100.0, 8)
        return best_pi(self, (1, 2), _resting, gains=gains.tolist(), integral_steps=times.tolist())


def _resting(measured: Array) -> Array:
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
)
"""One long log under a noisy PI controller; an hour of control is 360 rows."""
