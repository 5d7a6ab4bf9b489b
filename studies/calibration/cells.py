"""The cells of the study: plant, behaviour, number of rows and discount, each with its role."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from nopg import Transitions
from studies.plants.calibration_development import DEVELOPMENT_PLANTS
from studies.plants.calibration_report import REPORT_PLANTS
from studies.plants.laws import Array
from studies.plants.plant import Plant, horizon, random_generator

Role = Literal["development", "report"]
Policies = Literal["given", "trained"]
PLANTS: Mapping[str, tuple[Plant, Role]] = MappingProxyType(
    {plant.name: (plant, "development") for plant in DEVELOPMENT_PLANTS}
    | {plant.name: (plant, "report") for plant in REPORT_PLANTS}
)
"""All plants by name, each with its role."""

# Simulated episodes from the starts of the log, where the plant is noisy, and from new starts.
_TRUE_EPISODES, _NEW_STARTS = 600, 400
# Starts that are declared where the log is one long episode.
_DECLARED = 20


@dataclass(frozen=True, slots=True)
class Truth:
    """A mean discounted return by simulation.

    Attributes:
        mean: The return.
        standard_error: Of the mean over the noise, the starts being given.
        episodes: Number of simulated episodes.
        from_new_starts: The return from new starts of the same distribution.
    """

    mean: float
    standard_error: float
    episodes: int
    from_new_starts: float


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting of the study; its logs differ by their seed.

    The return to predict is that from the starts of the log: the first states of its episodes, or declared
    states of the same distribution where the log is one long episode. The truth is the return from the same
    starts, with other noise.

    Attributes:
        plant_name: Name of the plant.
        behaviour: What logged the data; see `Plant.behaviour`.
        rows: Number of rows of the log.
        steps: Length of a logged episode that does not end early; 0 for one long episode.
        discount: γ.
    """

    plant_name: str
    behaviour: str
    rows: int
    steps: int
    discount: float

    @property
    def plant(self) -> Plant:
        """The plant."""
        return PLANTS[self.plant_name][0]

    @property
    def role(self) -> Role:
        """Whether the evaluator may be developed on it."""
        return PLANTS[self.plant_name][1]

    @property
    def name(self) -> str:
        """The cell in one line."""
        return f"{self.plant_name}, {self.behaviour}, {self.rows} rows, γ {self.discount:g}"

    def log(self, seed: int) -> Transitions:
        """Return the log of a seed."""
        steps, plant = self.steps or self.rows, self.plant
        episodes = math.ceil(self.rows / steps)
        while True:
            rng = random_generator(seed, f"log of {self.name}")
            law = plant.behaviour(self.behaviour)(episodes, rng)
            runs = plant.run(law, self._starts(episodes, seed), steps, rng)
            if runs.alive.sum() >= self.rows:
                break
            episodes *= 2  # episodes ended early
        data = plant.transitions(runs, self.rows)
        if self.steps:
            return data
        measured = plant.measure(self._starts(_DECLARED, seed), random_generator(seed, "measured starts"))
        return data.starting_at(measured)

    def true_return(self, policy: Callable[[Any], Any], seed: int) -> Truth:
        """Return the true return of a policy from the starts of the log of this seed.

        The same run gives the return from new starts of the same distribution.
        """
        rng = random_generator(seed, f"truth of {self.name}")
        starts = self._starts(self._num_starts(seed), seed)
        repeats = math.ceil(_TRUE_EPISODES / len(starts)) if self.plant.noisy else 1
        every = np.concatenate([np.tile(starts, (repeats, 1)), self.plant.starts(_NEW_STARTS, rng)])
        steps = horizon(self.discount)
        returns = self.discount ** np.arange(steps) @ self.plant.run(policy, every, steps, rng).rewards
        same, new = returns[:-_NEW_STARTS], returns[-_NEW_STARTS:]
        variance = float(same.reshape(repeats, -1).var(axis=0, ddof=1).mean()) if repeats > 1 else 0.0
        return Truth(float(same.mean()), math.sqrt(variance / same.size), same.size, float(new.mean()))

    def _num_starts(self, seed: int) -> int:
        if self.steps and self.plant.terminal is not None:
            return len(self.log(seed).starts)
        return math.ceil(self.rows / self.steps) if self.steps else _DECLARED

    def _starts(self, count: int, seed: int) -> Array:
        """Return the first true starts of the log of a seed."""
        return self.plant.starts(count, random_generator(seed, f"starts of {self.name}"))


CELLS: tuple[Cell, ...] = (
    # Development.
    Cell("positioning-table", "feedback", 600, 20, 0.95),
    Cell("positioning-table", "feedback+dither", 300, 30, 0.95),
    Cell("positioning-table", "random", 1_000, 40, 0.97),
    Cell("noisy-positioning-table", "feedback+dither", 1_000, 50, 0.97),
    Cell("noisy-positioning-table", "feedback", 800, 40, 0.95),
    Cell("noisy-positioning-table", "random", 5_000, 100, 0.995),
    Cell("pendulum-with-friction", "random", 400, 40, 0.95),
    Cell("pendulum-with-friction", "random", 2_000, 100, 0.97),
    Cell("tanks-in-series", "pi", 1_000, 0, 0.98),
    Cell("tanks-in-series", "pi", 3_000, 150, 0.95),
    Cell("exothermic-reactor", "pi", 600, 60, 0.95),
    Cell("exothermic-reactor", "pi+dither", 1_500, 100, 0.97),
    Cell("pole-on-a-cart", "feedback+dither", 800, 80, 0.98),
    Cell("pole-on-a-cart", "random", 1_500, 50, 0.95),
    Cell("rc-network", "random", 150, 15, 0.9),
    Cell("rc-network", "feedback+dither", 500, 50, 0.95),
    # Report.
    Cell("room-heating", "pi", 1_000, 0, 0.98),
    Cell("room-heating", "pi+dither", 2_000, 144, 0.95),
    Cell("ship-heading", "feedback", 800, 40, 0.97),
    Cell("ship-heading", "feedback+dither", 400, 40, 0.95),
    Cell("drive-train", "random", 400, 40, 0.95),
    Cell("drive-train", "random", 5_000, 250, 0.995),
    Cell("tank-with-valve", "pi", 500, 50, 0.97),
    Cell("tank-with-valve", "pi+dither", 1_500, 150, 0.98),
    Cell("magnetic-levitation", "feedback+dither", 600, 60, 0.95),
    Cell("magnetic-levitation", "feedback+dither", 2_000, 100, 0.98),
    Cell("chemostat", "random", 300, 30, 0.9),
    Cell("chemostat", "random", 1_500, 75, 0.95),
    Cell("conical-tank", "pi", 1_500, 0, 0.98),
    Cell("conical-tank", "pi+dither", 400, 50, 0.95),
    Cell("duffing-oscillator", "random", 150, 15, 0.9),
    Cell("duffing-oscillator", "feedback+dither", 800, 40, 0.97),
    Cell("two-rotors", "feedback", 500, 50, 0.95),
    Cell("two-rotors", "feedback+dither", 900, 75, 0.97),
)
"""All cells. Those of report plants were fixed before any of them was evaluated."""
