"""Controllers that log the plants and that are compared with: P and PI with set points, held random steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from studies.calibration.plants.laws import Array, Law
from studies.calibration.plants.plant import random_generator
from studies.logs.plant import STARTS, LogPlant

__all__ = ["PI", "best_pi"]


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


def best_pi(
    plant: LogPlant,
    columns: tuple[int, int],
    resting: Callable[[Array], Array],
    *,
    gains: Sequence[float],
    integral_steps: Sequence[float],
) -> PI:
    """Return the PI controller of a grid with the largest true discounted return on the plant.

    All pairs of the grid run side by side, from the same starts and with seeds of their own, which no log
    has. This is a reference: it knows the plant.
    """
    pairs = np.array(list(product(gains, integral_steps)))
    every = np.repeat(pairs, STARTS, axis=0)
    seed, steps = 2**31, 400
    start = plant.start(STARTS, random_generator(seed, "tuning"))
    rng = random_generator(seed, "noise of the tuning")
    grid = PI(plant=plant, columns=columns, gain=every[:, 0], integral_steps=every[:, 1], resting=resting)
    runs = plant.run(grid(len(every), rng), np.tile(start, (len(pairs), 1)), steps, rng)
    returns = (plant.discount ** np.arange(steps) @ runs.rewards).reshape(len(pairs), STARTS).mean(axis=1)
    gain, time = pairs[int(returns.argmax())]
    return PI(plant=plant, columns=columns, gain=float(gain), integral_steps=float(time), resting=resting)
