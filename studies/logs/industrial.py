"""The Industrial Benchmark of Hein et al. (2017), through the package `industrial_benchmark_python`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nopg.errors import NopgError
from studies.calibration.plants.laws import Array, Behaviour, Law
from studies.logs.plant import STARTS, LogPlant

__all__ = ["INDUSTRIAL", "IndustrialBenchmark"]

_SET_POINT = 70
_OBSERVED = ("p", "v", "g", "h", "f", "c")
# How far an action of 1 moves velocity, gain and shift.
_REACH = np.array([1.0, 10.0, 5.75])
_MEDIUM, _EXPLORED = (25.0, 25.0, 25.0), 0.3
# Best of a search over constant steerings on the simulator: `best_steering`.
_BEST = (35.0, 55.0, 60.0)


class Copies:
    """Copies of the simulator side by side; they move in place.

    Args:
        count: Number of copies, each at rest in the middle of all steerings.
        rng: Seeds the simulators.
    """

    def __init__(self, count: int, rng: np.random.Generator) -> None:
        try:
            from industrial_benchmark_python.IDS import IDS
        except ImportError as error:
            raise NopgError(
                "the Industrial Benchmark needs its simulator; "
                "pip install --no-deps industrial_benchmark_python==2.0"
            ) from error
        with _simulating():
            seeds = rng.integers(2**31, size=count).tolist()
            self.simulators = [IDS(p=_SET_POINT, inital_seed=seed) for seed in seeds]

    def __len__(self) -> int:
        return len(self.simulators)

    def observed(self) -> Array:
        """Return set point, velocity, gain, shift, fatigue and consumption (m, 6)."""
        return np.array([[one.state[key] for key in _OBSERVED] for one in self.simulators], dtype=np.float64)

    def step(self, actions: Array, rng: np.random.Generator) -> None:
        """Move all copies by actions (m, 3)."""
        with _simulating():
            np.random.seed(int(rng.integers(2**31)))  # noqa: NPY002
            for one, action in zip(self.simulators, actions, strict=True):
                one.step(action)


@contextmanager
def _simulating() -> Iterator[None]:
    """Give the simulator the `numpy.float` it was written for, and keep numpy's own generator as it was."""
    state = np.random.get_state()  # noqa: NPY002
    vars(np)["float"] = float
    try:
        yield
    finally:
        vars(np).pop("float")
        np.random.set_state(state)  # noqa: NPY002


@dataclass(frozen=True, kw_only=True, eq=False)
class IndustrialBenchmark(LogPlant):
    """Keep consumption and fatigue low by changes of velocity, gain and shift, at the set point 70.

    Fatigue and the operating cost have hidden, delayed and stochastic parts: a cost reaches the consumption
    five to nine steps later. The reward of a step is −(consumption + 3·fatigue) of what it leads to. All
    episodes start with all steerings at 50.

    Attributes:
        behaves: "random" takes uniform steps; "medium" steers to 25 and takes 30 % of its steps at random.
    """

    behaves: Literal["random", "medium"]

    def start(self, count: int, rng: np.random.Generator) -> Copies:
        """Return copies of the simulator."""
        return Copies(count, rng)

    def declared(self, seed: int, repeats: int = 1) -> Copies:
        """Return copies of the simulator; all starts are alike."""
        return Copies(STARTS * repeats, np.random.default_rng(seed))

    def measure(self, hidden: Copies, rng: np.random.Generator) -> Array:
        """Return the observables (m, 6), whose noise is that of the simulator."""
        del rng
        return hidden.observed()

    def advance(self, hidden: Copies, actions: Array, rng: np.random.Generator) -> Copies:
        """Move the copies and return them."""
        hidden.step(actions, rng)
        return hidden

    def behaviour(self) -> Behaviour:
        """Return the controller that logs the data."""
        return _steering(_MEDIUM, _EXPLORED if self.behaves == "medium" else 1.0)

    def references(self) -> Mapping[str, Behaviour]:
        """Return the medium controller without exploration, and the best constant steering."""
        return {"clean medium": _steering(_MEDIUM, 0.0), "best steering": _steering(_BEST, 0.0)}


def _steering(point: tuple[float, ...], explored: float) -> Behaviour:
    """Return a controller that steers to a point, with a share of uniform random actions."""

    def make(episodes: int, rng: np.random.Generator) -> Law:
        def act(measured: Array) -> Array:
            asked = np.clip((np.array(point) - measured[:, 1:4]) / _REACH, -1.0, 1.0)
            drawn, explores = rng.uniform(-1.0, 1.0, asked.shape), rng.random((episodes, 1)) < explored
            return np.asarray(np.where(explores, drawn, asked))

        return act

    return make


def best_steering(points: Array, *, steps: int = 100, episodes: int = 4) -> tuple[float, ...]:
    """Return the point (3,) of some (k, 3) that returns most when it is steered to and held."""
    rng, found = np.random.default_rng(0), list[float]()
    for point in points:
        runs = INDUSTRIAL[0].run(
            _steering(tuple(point), 0.0)(episodes, rng), Copies(episodes, rng), steps, rng
        )
        found.append(float(runs.rewards.sum(axis=0).mean()))
    return tuple(points[int(np.argmax(found))].tolist())


_COMMON: Mapping[str, Any] = {
    "role": "report",
    "states": dict.fromkeys(("setpoint", "velocity", "gain", "shift", "fatigue", "consumption"), ""),
    "actions": dict.fromkeys(("velocity_step", "gain_step", "shift_step"), ("", -1.0, 1.0)),
    "discount": 0.97,
    "sizes": (10_000,),
    "logged_steps": 1_000,
    "steps": 100,
    "reward": "-(next(consumption) + 3 * next(fatigue))",
    "exogenous": {"setpoint": "hold"},
    "lags": {"velocity": 9, "gain": 9},
    "repeats": 2,
}
INDUSTRIAL = (
    IndustrialBenchmark(name="industrial", behaves="random", **_COMMON),
    IndustrialBenchmark(name="industrial-medium", behaves="medium", **_COMMON),
)
"""Ten episodes of 1 000 steps, random or by a medium controller."""
