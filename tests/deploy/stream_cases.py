"""A controller with derived columns and held values, and a long stream of measurements with faults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from nopg.data import Transitions

Numbers = npt.NDArray[np.float64]

INTERVAL = 0.5


@cache
def log() -> Transitions:
    """Return three episodes of a level and an angle under two actions, without derived columns."""
    rng = np.random.default_rng(3)
    steps = 120
    valve, pump = rng.uniform(-1.0, 1.0, (2, 3, steps))
    level, angle = np.zeros((2, 3, steps + 1))
    level[:, 0], angle[:, 0] = 0.4 * rng.normal(size=(2, 3))
    for t in range(steps):
        level[:, t + 1] = 0.8 * level[:, t] + 0.3 * valve[:, t] + 0.05 * rng.normal(size=3)
        angle[:, t + 1] = angle[:, t] + 0.4 * pump[:, t] + 0.05 * rng.normal(size=3)
    states = np.stack([level, angle], axis=-1)
    data = Transitions.from_arrays(
        states[:, :-1].reshape(-1, 2),
        np.stack([valve, pump], axis=-1).reshape(-1, 2),
        -(level[:, 1:].reshape(-1) ** 2),
        states[:, 1:].reshape(-1, 2),
        episodes=np.repeat([0, 1, 2], steps),
        state_names=["level", "angle"],
        action_names=["valve", "pump"],
        angles=["angle"],
        bounds={"valve": (-1.0, 1.0), "pump": (-1.0, 1.0)},
    )
    return replace(data, schema=replace(data.schema, interval=INTERVAL, hold={"level": 2, "angle": 1}))


@cache
def derived_log() -> Transitions:
    """Return the log with lags of a state, of an action and of an angle, an integral and a difference."""
    return log().derive(
        lags={"level": 2, "valve": 3, "angle": 1},
        formulas={"level_diff": ("0", "next(level) - level")},
        integrals={"total": "level - 0.1 + 0.2 * level_lag1"},
    )


@dataclass(frozen=True, slots=True)
class Stream:
    """A long stream of measurements, as a plant with faults gives them.

    Attributes:
        measured: NaN where a value is missing, shape (T, 2).
        times: In seconds, shape (T,).
        resets: Where the operator starts anew, shape (T,).
        overridden: The action that was applied before the step instead of the one given, else NaN, (T, 2).
    """

    measured: Numbers
    times: Numbers
    resets: npt.NDArray[np.bool_]
    overridden: Numbers


def faulty_stream(steps: int = 10_000, *, seed: int = 5) -> Stream:
    """Return a stream in which values are missing for one to four steps, with gaps in time and resets."""
    rng = np.random.default_rng(seed)
    measured = np.cumsum(rng.normal(size=(steps, 2)) * [0.1, 0.3], axis=0)
    measured[:, 0] = np.sin(measured[:, 0])
    for column in range(2):
        for begin in rng.choice(steps - 5, size=steps // 40, replace=False):
            measured[begin : begin + rng.integers(1, 5), column] = np.nan
    gaps = rng.random(steps) < 0.005
    times = np.cumsum(np.where(gaps, 5.5 * INTERVAL, INTERVAL * rng.uniform(0.5, 1.5, steps)))
    overridden = np.where(rng.random((steps, 1)) < 0.1, rng.uniform(-1.0, 1.0, (steps, 2)), np.nan)
    return Stream(measured, times, rng.random(steps) < 0.003, overridden)
