"""A plant with its log, the starts of the evaluation and the discount."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from nopg import Transitions
from studies.calibration.plants.laws import Array, Behaviour, Feedback
from studies.calibration.plants.plant import Plant, horizon, random_generator

__all__ = ["EPISODES", "Task"]

EPISODES = 60
"""Episodes on the true plant, the same for all methods of a log."""
# Measured starts of the task that every log declares.
_DECLARED = 20


@dataclass(frozen=True, slots=True)
class Task:
    """One plant as it was logged; logs differ by their seed and size.

    Attributes:
        plant: The plant.
        behaviour: What logs it; see `Plant.behaviour`.
        steps: Length of a logged episode that does not end early; 0 for one long episode.
        discount: γ.
        about: What it is there for, in a few words.
        output: The one state that a PI controller of the one action would hold; None where there is none.
    """

    plant: Plant
    behaviour: str
    steps: int
    discount: float
    about: str
    output: str | None = None

    @property
    def name(self) -> str:
        """The name of the plant."""
        return self.plant.name

    def log(self, rows: int, seed: int) -> Transitions:
        """Return a log of this many rows, with starts of the task declared."""
        plant, steps = self.plant, self.steps or rows
        episodes = math.ceil(rows / steps)
        while True:
            rng = random_generator(seed, f"log of {self.name}, {rows} rows")
            law = plant.behaviour(self.behaviour)(episodes, rng)
            runs = plant.run(law, plant.starts(episodes, rng), steps, rng)
            if runs.alive.sum() >= rows:
                break
            episodes *= 2  # episodes ended early
        starts = plant.measure(plant.starts(_DECLARED, rng), rng)
        return plant.transitions(runs, rows).starting_at(starts)

    def controller(self) -> Behaviour:
        """Return what logged the data, without its dither and with its set point at the target.

        Where random steps logged the data, that is the action around which the steps were made.
        """
        plant = self.plant
        if self.behaviour == "random":
            return Feedback(law=plant.law(np.zeros((len(plant.actions), len(plant.states)))))
        found = plant.behaviour(self.behaviour)
        assert isinstance(found, Feedback)
        return replace(found, dither=None, spread=None)

    def returns(self, controller: Behaviour, seed: int, episodes: int = EPISODES) -> Array:
        """Return the discounted returns (episodes,) of a controller on the true plant.

        Args:
            controller: Makes the controller of some episodes.
            seed: Seed of starts and noise; fewer episodes have the first of the same starts.
            episodes: Number of episodes.
        """
        plant = self.plant
        starts = plant.starts(EPISODES, random_generator(seed, f"true starts of {self.name}"))[:episodes]
        rng = random_generator(seed, f"true noise of {self.name}")
        steps, law = horizon(self.discount), controller(episodes, random_generator(seed, "controller"))
        rewards = plant.run(law, starts, steps, rng).rewards
        return np.asarray(self.discount ** np.arange(steps) @ rewards)
