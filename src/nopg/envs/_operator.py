"""Synthetic demonstrations for the mountain car, by a scripted operator as clumsy as a person."""

from collections import deque
from dataclasses import dataclass
from importlib.resources import files
from typing import final

import numpy as np
import torch

from nopg.data import Transitions
from nopg.envs._agents import RandomAgent
from nopg.envs._simulate import ControlLaw
from nopg.errors import ArgumentError

__all__ = ["ClumsyOperator", "synthetic_demonstrations"]

_NOTCHES = 64  # positions of the throttle to either side; a power of two, so each is an exact number


@final
@dataclass(frozen=True, slots=True)
class ClumsyOperator(RandomAgent):
    """A scripted stand-in for a person who drives the mountain car badly.

    It knows what to do, push the way the car rolls, and does it poorly: it sees where the car rolled a
    moment ago, stays with a push for a while before it looks again, pushes the wrong way now and then,
    takes its hand off, and rarely gives full throttle. It is no model of any real person; its settings were
    chosen so that it needs 300 to 450 steps on average.

    Attributes:
        delay: How many steps old its view of the car is, at least 0.
        hold: The fewest and the most steps it stays with a push.
        rest: The fewest and the most steps it keeps its hand off.
        wrong: The probability that a push goes the wrong way.
        pause: The probability that it takes its hand off instead of pushing.
        throttle: The weakest and the strongest push, shares of full throttle.

    Example:
        >>> from nopg.envs import MountainCar
        >>> from nopg.envs import collect
        >>> data = collect(MountainCar(), ClumsyOperator(), episodes=1, steps=20, seed=0)
        >>> bool((data.actions.abs() <= 1).all())
        True
    """

    delay: int = 5
    hold: tuple[int, int] = (2, 6)
    rest: tuple[int, int] = (5, 25)
    wrong: float = 0.15
    pause: float = 0.15
    throttle: tuple[float, float] = (0.1, 1.0)

    def __post_init__(self) -> None:
        if self.delay < 0:
            raise ArgumentError(f"delay is {self.delay} steps; give 0 or more")
        for name in ("hold", "rest"):
            fewest, most = getattr(self, name)
            if not 1 <= fewest <= most:
                raise ArgumentError(f"{name} is {(fewest, most)} steps; give 1 ≤ fewest ≤ most")
        if not (self.wrong >= 0 and self.pause >= 0 and self.wrong + self.pause <= 1):
            raise ArgumentError(
                f"wrong is {self.wrong} and pause is {self.pause}; give probabilities that sum to at most 1"
            )
        if not 0 <= self.throttle[0] <= self.throttle[1] <= 1:
            raise ArgumentError(f"throttle is {self.throttle}; give 0 ≤ weakest ≤ strongest ≤ 1")

    def controller(self, rng: torch.Generator) -> ControlLaw:
        """Return a controller for one run of states (position, velocity), with its own memory."""
        views: deque[torch.Tensor] = deque(maxlen=self.delay + 1)
        push = left = torch.zeros(0, dtype=torch.float64)

        def act(states: torch.Tensor) -> torch.Tensor:
            nonlocal push, left
            views.append(states[:, 1].clone())
            if len(push) == 0:
                push = left = torch.zeros(len(states), dtype=torch.float64)

            # Drawn at every step, used where a push has run out: the draws of a step do not depend on it.
            new_push, new_left = self._decide(views[0], rng)
            push = torch.where(left == 0, new_push, push)
            left = torch.where(left == 0, new_left, left) - 1
            return push[:, None]

        return act

    def _decide(self, velocity: torch.Tensor, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return pushes and for how many steps they last, one of each per car; shapes (m,)."""
        kind, strength, length, side = torch.rand(4, len(velocity), dtype=torch.float64, generator=rng)
        resting = kind < self.pause
        wrong = ~resting & (kind < self.pause + self.wrong)

        # A car at rest gives no hint: either side will do.
        direction = torch.where(velocity == 0, torch.where(side < 0.5, -1.0, 1.0), velocity.sign())
        direction = torch.where(wrong, -direction, direction)
        size = _between(self.throttle, strength)
        push = torch.where(resting, 0.0, direction * torch.round(size * _NOTCHES) / _NOTCHES)

        steps = torch.where(resting, _steps(self.rest, length), _steps(self.hold, length))
        return push, steps


def synthetic_demonstrations() -> Transitions:
    """Return ten synthetic demonstrations for the mountain car, −1 per step, as shipped with nopg.

    No person made them: a seeded `ClumsyOperator` did, in `nopg.envs.MountainCar`, and
    `examples/make_synthetic_demonstrations.py` makes them again. They stand in for the ten recordings of
    the paper's human demonstrator. All ten reach the goal within the paper's limit of 500 steps.

    Example:
        >>> data = synthetic_demonstrations()
        >>> int(data.terminated.sum()), len(data.starts)
        (10, 10)
    """
    text = files("nopg.envs").joinpath("synthetic_mountain_car.csv").read_text(encoding="utf-8")
    names, *rows = (line for line in text.splitlines() if not line.startswith("#"))
    table = np.loadtxt(rows, delimiter=",", dtype=np.float64)
    columns = dict(zip(names.split(","), table.T, strict=True))

    data = Transitions.from_arrays(
        np.stack([columns["position"], columns["velocity"]], axis=1),
        columns["throttle"],
        columns["reward"],
        np.stack([columns["next_position"], columns["next_velocity"]], axis=1),
        terminated=columns["terminated"].astype(bool),
        truncated=columns["truncated"].astype(bool),
        episodes=columns["episode"].astype(np.int64),
        state_names=("position", "velocity"),
        action_names=("throttle",),
    )
    return data.starting_at(data.starts)


def _between(ends: tuple[float, float], share: torch.Tensor) -> torch.Tensor:
    return ends[0] + (ends[1] - ends[0]) * share


def _steps(ends: tuple[int, int], share: torch.Tensor) -> torch.Tensor:
    """Return whole numbers between the ends, both included, for shares in [0, 1)."""
    return ends[0] + torch.floor((ends[1] - ends[0] + 1) * share)
