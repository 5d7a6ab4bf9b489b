"""PI controllers that log the plants and that are compared with, and plants with one loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from studies.calibration.plants.laws import Array, Behaviour, Law
from studies.calibration.plants.plant import random_generator
from studies.logs.plant import STARTS, LogPlant

__all__ = ["PI", "Loop", "moved"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PI:
    """u = gain·e + I within bounds, with e = set point − output and I growing by gain·e/integral_steps a row.

    I begins as the action that holds the first measured output, and stops where the action is at a bound.

    Attributes:
        plant: The plant, whose only action is u.
        columns: Numbers of the columns of the output and of the set point.
        gain: One for all episodes, or one for each.
        integral_steps: Integral time in rows; infinity for a P controller.
        resting: The action that holds measured columns (m, d_x), where it is known; else 0.
        noise: Standard deviation of normal noise on the action.
    """

    plant: LogPlant
    columns: tuple[int, int]
    gain: float | Array
    integral_steps: float | Array = np.inf
    resting: Callable[[Array], Array] | None = None
    noise: float = 0.0

    def __call__(self, episodes: int, rng: np.random.Generator) -> Law:
        """Return the controller of this many episodes."""
        output, set_point = self.columns
        low, high = float(self.plant.low[0]), float(self.plant.high[0])
        integral: Array | None = None

        def act(measured: Array) -> Array:
            nonlocal integral
            if integral is None:
                integral = np.zeros(episodes) if self.resting is None else self.resting(measured)
            error = measured[:, set_point] - measured[:, output]
            asked = self.gain * error + integral
            free = (asked > low) & (asked < high)
            integral = integral + np.where(free, self.gain * error / self.integral_steps, 0.0)
            noise = self.noise * rng.normal(size=episodes) if self.noise else 0.0
            return np.asarray(np.clip(asked + noise, low, high))[:, None]

        return act


@dataclass(frozen=True, kw_only=True, eq=False)
class Loop(LogPlant):
    """A plant with one loop, logged by a slow PI controller with noise on its action.

    Attributes:
        columns: Numbers of the columns of the output and of the set point.
        gain: Of the controller that logs.
        integral_steps: Its integral time in rows.
        noise: Standard deviation of the noise on its action.
        gains: Lowest, highest and number of the gains of the grid for a tuned controller.
        times: The same of its integral times in rows.
    """

    columns: tuple[int, int]
    gain: float
    integral_steps: float
    noise: float
    gains: tuple[float, float, int]
    times: tuple[float, float, int]

    def resting(self, measured: Array) -> Array:
        """Return the action (m,) that holds measured columns (m, d_x); 0 unless a plant says otherwise."""
        return np.zeros(len(measured))

    def behaviour(self) -> Behaviour:
        """Return the PI controller with its noise."""
        return self._pi(self.gain, self.integral_steps, self.noise)

    def references(self) -> Mapping[str, Behaviour]:
        """Return the PI controller without its noise, and the best one of a grid."""
        return {"clean PI": self._pi(self.gain, self.integral_steps), "tuned PI": self._tuned}

    @cached_property
    def _tuned(self) -> PI:
        """The controller of a grid with the largest true discounted return: it knows the plant.

        All pairs of the grid run side by side, from the same starts and with seeds that no log has.
        """
        pairs = np.array(list(product(np.geomspace(*self.gains), np.geomspace(*self.times))))
        every = np.repeat(pairs, STARTS, axis=0)
        seed, steps = 2**31, 400
        start = self.start(STARTS, random_generator(seed, "tuning"))
        rng = random_generator(seed, "noise of the tuning")
        grid = self._pi(every[:, 0], every[:, 1])
        runs = self.run(grid(len(every), rng), np.tile(start, (len(pairs), 1)), steps, rng)
        returns = (self.discount ** np.arange(steps) @ runs.rewards).reshape(len(pairs), STARTS).mean(axis=1)
        gain, time = pairs[int(returns.argmax())]
        return self._pi(float(gain), float(time))

    def _pi(self, gain: float | Array, integral_steps: float | Array, noise: float = 0.0) -> PI:
        return PI(
            plant=self,
            columns=self.columns,
            gain=gain,
            integral_steps=integral_steps,
            resting=self.resting,
            noise=noise,
        )


def moved(set_points: Array, rng: np.random.Generator, within: tuple[float, float], chance: float) -> Array:
    """Return set points (m,) one row later: each is drawn anew, uniform within limits, by chance."""
    m = len(set_points)
    return np.where(rng.random(m) < chance, rng.uniform(*within, m), set_points)
