"""The best controller found with the true plant: direct search over saturated quadratic laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize

from studies.engineers.task import Task
from studies.plants.laws import Array, Behaviour, Law, wrapped

# Seed of the starts and the noise of the search; logs have seeds from 0 to 9.
_SEED = 1_000
_SOFTNESS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_EPISODES, _EVALUATIONS = 30, 500
# Step of the first line searches, as a share of the range of actions per half-width of the starts.
_STEP = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class QuadraticLaw:
    """u = trim + W·(1, x, x_i·x_j) within bounds, x being the deviation in half-widths of the starts."""

    task: Task  # The plant and the discount.
    weights: Array  # W as shares of the range of each action, shape (d_a, 1 + d_s + d_s·(d_s + 1)/2).

    @classmethod
    def linear(cls, task: Task, gain: Array) -> QuadraticLaw:
        """Return the law of a gain (d_a, d_s)."""
        plant, d_s = task.plant, gain.shape[1]
        weights = np.zeros((len(gain), 1 + d_s + d_s * (d_s + 1) // 2))
        span = (plant.action_high - plant.action_low)[:, None]
        weights[:, 1 : 1 + d_s] = -gain * _half_widths(task) / span
        return cls(task, weights)

    def __call__(self, states: Array) -> Array:
        """Return actions (m, d_a) at states (m, d_s)."""
        plant = self.task.plant
        x = wrapped(states - np.array(plant.target), plant.periods) / _half_widths(self.task)
        one, other = np.triu_indices(x.shape[1])
        terms = np.concatenate([np.ones((len(x), 1)), x, x[:, one] * x[:, other]], axis=1)
        asked = plant.trim + (plant.action_high - plant.action_low) * (terms @ self.weights.T)
        return np.clip(asked, plant.action_low, plant.action_high)

    def behaviour(self) -> Behaviour:
        """Return the law as a maker of controllers."""

        def make(episodes: int, rng: np.random.Generator) -> Law:
            return self

        return make


class Search(NamedTuple):
    """The best law found, its mean return, that of the true linearisation's regulator, and laws run."""

    law: QuadraticLaw
    value: float
    regulator: float
    evaluations: int


def search(task: Task, *, evaluations: int = _EVALUATIONS, softness: Sequence[float] = _SOFTNESS) -> Search:
    """Search with common random numbers, by Powell's method from the best of some regulators.

    The regulators are those of the true linearisation with prices of actions times `softness`, which has 1.
    At most `evaluations` laws are run beside them, in 30 episodes each.
    """

    def value(law: QuadraticLaw) -> float:
        found = float(task.returns(law.behaviour(), _SEED, _EPISODES).mean())
        return found if np.isfinite(found) else -1e300

    laws = {factor: QuadraticLaw.linear(task, task.plant.gain(factor)) for factor in softness}
    values = {factor: value(law) for factor, law in laws.items()}
    start = laws[max(values, key=lambda factor: values[factor])]
    shape, first = start.weights.shape, start.weights.ravel()
    best_value, best_weights = max(values.values()), first

    def cost(moves: Array) -> float:
        nonlocal best_value, best_weights
        weights = first + _STEP * moves
        found = value(QuadraticLaw(task, weights.reshape(shape)))
        if found > best_value:
            best_value, best_weights = found, weights
        return -found

    options = {"maxfev": evaluations, "xtol": 1e-3, "ftol": 1e-6}
    run = optimize.minimize(cost, np.zeros_like(first), method="Powell", options=options)
    law = QuadraticLaw(task, best_weights.reshape(shape))
    return Search(law, best_value, values[1.0], int(run.nfev) + len(laws))


def _half_widths(task: Task) -> Array:
    return np.subtract(task.plant.start_high, task.plant.start_low) / 2
