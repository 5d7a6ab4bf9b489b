"""Two plants to develop on: a level with moving set points, and a delay line of ten steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from studies.calibration.plants.laws import Array
from studies.logs.controllers import Loop, moved

__all__ = ["DELAY_LINE", "LEVEL_TANK"]

_OUT, _AREA, _STEP = 0.4, 20.0, 5.0
_DELAY = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelTank(Loop):
    """Hold the level of a tank with free outflow at its set point by its inflow.

    20 · ḣ = inflow − .4·√h; a set point between .5 and 2 holds for 30 rows in the mean.
    """

    def start(self, count: int, rng: np.random.Generator) -> Array:
        """Return hidden states (count, 2): level and set point."""
        return rng.uniform(0.5, 2.0, (count, 2))

    def measure(self, hidden: Array, rng: np.random.Generator) -> Array:
        """Return level and set point; noise of .01."""
        return hidden + rng.normal(size=hidden.shape) * (0.01, 0.0)

    def advance(self, hidden: Array, actions: Array, rng: np.random.Generator) -> Array:
        """Return the hidden states 5 s later."""
        level, set_point = hidden.T
        for _ in range(4):
            level = np.maximum(level + _STEP / 4 / _AREA * (actions[:, 0] - _OUT * np.sqrt(level)), 0.0)
        return np.stack([level, moved(set_point, rng, (0.5, 2.0), 1 / 30)], axis=1)

    def resting(self, measured: Array) -> Array:
        """Return the inflow (m,) that holds the level."""
        return np.asarray(_OUT * np.sqrt(np.maximum(measured[:, 0], 0.0)))


@dataclass(frozen=True, kw_only=True, eq=False)
class DelayLine(Loop):
    """Hold a first-order plant with a dead time of ten steps at its set point: y′ = .9·y + .1·u(t − 9)."""

    def start(self, count: int, rng: np.random.Generator) -> Array:
        """Return hidden states (count, 11): output, set point, the last nine actions; at rest at 0."""
        return np.column_stack([np.zeros(count), rng.uniform(-1, 1, count), np.zeros((count, _DELAY - 1))])

    def measure(self, hidden: Array, rng: np.random.Generator) -> Array:
        """Return output and set point; noise of .01."""
        return hidden[:, :2] + rng.normal(size=(len(hidden), 2)) * (0.01, 0.0)

    def advance(self, hidden: Array, actions: Array, rng: np.random.Generator) -> Array:
        """Return the hidden states one step later."""
        output = 0.9 * hidden[:, 0] + 0.1 * hidden[:, -1] + 0.005 * rng.normal(size=len(hidden))
        target = moved(hidden[:, 1], rng, (-1.0, 1.0), 1 / 60)
        return np.column_stack([output, target, actions[:, 0], hidden[:, 2:-1]])


LEVEL_TANK = LevelTank(
    name="level-tank",
    role="development",
    states={"level": "m", "setpoint": "m"},
    actions={"inflow": ("l/s", 0.0, 2.0)},
    discount=0.97,
    sizes=(500, 2_000),
    logged_steps=0,
    steps=300,
    reward="-(level - setpoint) ** 2 - 0.001 * inflow ** 2",
    exogenous={"setpoint": "log"},
    interval=_STEP,
    columns=(0, 1),
    gain=0.4,
    integral_steps=20.0,
    noise=0.1,
    gains=(0.2, 8.0, 10),
    times=(5.0, 200.0, 6),
)
"""One long log under a noisy PI controller."""

DELAY_LINE = DelayLine(
    name="delay-line",
    role="development",
    states={"output": "", "setpoint": ""},
    actions={"input": ("", -2.0, 2.0)},
    discount=0.98,
    sizes=(3_000,),
    logged_steps=500,
    steps=500,
    reward="-(output - setpoint) ** 2 - 0.001 * input ** 2",
    exogenous={"setpoint": "log"},
    lags={"input": _DELAY - 1},
    columns=(0, 1),
    gain=0.3,
    integral_steps=15.0,
    noise=0.2,
    gains=(0.1, 2.0, 12),
    times=(5.0, 100.0, 10),
)
"""Six episodes of 500 rows under a noisy PI controller."""
