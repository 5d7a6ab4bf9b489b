"""A plant with its log, the starts of the evaluation and the discount."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from nopg import Transitions
from studies.plants.engineers_development import DEVELOPMENT_PLANTS
from studies.plants.engineers_report import REPORT_PLANTS
from studies.plants.laws import Array, Behaviour, Feedback
from studies.plants.plant import Plant, horizon, random_generator

EPISODES = 60
"""Episodes on the true plant, the same for all methods of a log."""
# Measured starts of the task that every log declares.
_DECLARED = 20


@dataclass(frozen=True, slots=True)
class Task:
    """One plant as it was logged; logs differ by their seed and size."""

    plant: Plant  # The plant.
    behaviour: str  # What logs it; see `Plant.behaviour`.
    steps: int  # Length of a logged episode that does not end early; 0 for one long episode.
    discount: float  # γ.
    about: str  # What it is there for, in a few words.
    # The one state that a PI controller of the one action would hold; None where there is none.
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
        """Return the discounted returns (episodes,) on the true plant; fewer have the first starts."""
        plant = self.plant
        starts = plant.starts(EPISODES, random_generator(seed, f"true starts of {self.name}"))[:episodes]
        rng = random_generator(seed, f"true noise of {self.name}")
        steps, law = horizon(self.discount), controller(episodes, random_generator(seed, "controller"))
        rewards = plant.run(law, starts, steps, rng).rewards
        return np.asarray(self.discount ** np.arange(steps) @ rewards)


_TANK, _MOTOR, _ROOM, _BALL, _HOLDER, _STAGE, _BLEND = DEVELOPMENT_PLANTS
_COUPLED, _REACTOR, _FOUR, _FURNACE, _HEATER, _DRUM, _SERVO, _COIL, _SPLIT, _DOUBLE = REPORT_PLANTS

DEVELOPMENT = (
    Task(_TANK, "pi+dither", 0, 0.97, "easy: one tank", output="level"),
    Task(_MOTOR, "random", 50, 0.97, "easy: dry friction at 50 Hz", output="angle"),
    Task(_ROOM, "pi+dither", 0, 0.98, "strong sensor noise", output="air"),
    Task(_BALL, "pi+dither", 0, 0.97, "unstable, noisy sensors", output="gap"),
    Task(_HOLDER, "pi+dither", 0, 0.98, "steep penalty above a limit", output="volume"),
    Task(_STAGE, "pi+dither", 0, 0.99, "250 Hz, friction", output="place"),
    Task(_BLEND, "pi+dither", 0, 0.98, "two inputs, two outputs"),
)
"""Defaults and settings of rivals may be chosen on these."""

REPORT = (
    Task(_COUPLED, "pi+dither", 0, 0.98, "coupled levels", output="second_level"),
    Task(_REACTOR, "pi+dither", 0, 0.97, "unstable, noisy sensors", output="temperature"),
    Task(_FOUR, "pi+dither", 0, 0.98, "two inputs, two outputs"),
    Task(_SERVO, "pi+dither", 0, 0.99, "500 Hz, Coulomb friction", output="position"),
    Task(_FURNACE, "pi+dither", 0, 0.97, "delay of five samples", output="temperature"),
    Task(_HEATER, "pi+dither", 0, 0.98, "strong sensor noise", output="water"),
    Task(_DRUM, "pi+dither", 0, 0.98, "steep penalty above a limit", output="pressure"),
    Task(_COIL, "random", 250, 0.99, "stiff: .05 s to 33 s", output="body"),
    Task(_SPLIT, "random", 250, 0.98, "dead zone, two gains", output="product"),
    Task(_DOUBLE, "random", 50, 0.97, "unstable, MuJoCo"),
)
"""For the report alone."""

TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in (*DEVELOPMENT, *REPORT)})
"""All tasks by the name of their plant, development first."""
