"""Makes the ten synthetic demonstrations of the mountain car that nopg ships.

A scripted operator with delays, wrong actions and pauses drives the car. As in the paper, a demonstration
ends at the goal or after 500 steps and the reward is −1 per step. The seed is the first one whose ten
demonstrations all reach the goal and return between −450 and −300 on average.

    python -m studies.clumsy_operator --output demonstrations.csv
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch

from nopg import Transitions
from nopg.envs import ControlLaw, MountainCar, collect
from nopg.envs._agents import RandomAgent
from nopg.errors import ArgumentError

__all__ = ["ClumsyOperator", "as_csv", "make_demonstrations"]

EPISODES, STEPS = 10, 500
WORST, BEST = -450.0, -300.0
COLUMNS = "episode,position,velocity,throttle,reward,next_position,next_velocity,terminated,truncated"
_NOTCHES = 64  # positions of the throttle to either side; a power of two, so each is an exact number


@final
@dataclass(frozen=True, slots=True)
class ClumsyOperator(RandomAgent):
    """A scripted operator that drives the mountain car badly.

    It accelerates in the direction of the velocity, with faults: it observes the velocity late, holds its
    action for several steps, accelerates in the wrong direction at times, pauses, and rarely uses full
    throttle. It does not model a real person; its settings were chosen so that it needs 300 to 450 steps on
    average.

    Attributes:
        delay: Delay of the observed velocity in steps, at least 0.
        hold: The fewest and the most steps for which an action is held.
        rest: The fewest and the most steps of a pause.
        wrong: The probability of the wrong direction.
        pause: The probability of a pause.
        throttle: The smallest and the largest action, shares of full throttle.

    Example:
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
        """Return a controller for one run of states (position, velocity), which keeps its own state."""
        seen: deque[torch.Tensor] = deque(maxlen=self.delay + 1)
        action = left = torch.zeros(0, dtype=torch.float64)

        def act(states: torch.Tensor) -> torch.Tensor:
            nonlocal action, left
            seen.append(states[:, 1].clone())
            if len(action) == 0:
                action = left = torch.zeros(len(states), dtype=torch.float64)

            # Drawn at every step, so that the number of draws does not depend on the actions.
            new_action, new_left = self._decide(seen[0], rng)
            action = torch.where(left == 0, new_action, action)
            left = torch.where(left == 0, new_left, left) - 1
            return action[:, None]

        return act

    def _decide(self, velocity: torch.Tensor, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return new actions and the number of steps for which they are held, both (m,)."""
        kind, strength, length, side = torch.rand(4, len(velocity), dtype=torch.float64, generator=rng)
        resting = kind < self.pause
        wrong = ~resting & (kind < self.pause + self.wrong)

        # At rest the direction is random.
        direction = torch.where(velocity == 0, torch.where(side < 0.5, -1.0, 1.0), velocity.sign())
        direction = torch.where(wrong, -direction, direction)
        size = _between(self.throttle, strength)
        action = torch.where(resting, 0.0, direction * torch.round(size * _NOTCHES) / _NOTCHES)

        steps = torch.where(resting, _steps(self.rest, length), _steps(self.hold, length))
        return action, steps


def make_demonstrations() -> tuple[int, Transitions]:
    """Return the first seed whose demonstrations meet the conditions above, and the demonstrations."""
    for seed in itertools.count():
        data = collect(MountainCar(), ClumsyOperator(), episodes=EPISODES, steps=STEPS, seed=seed)
        mean_return = data.rewards.sum().item() / EPISODES
        if int(data.terminated.sum()) == EPISODES and WORST <= mean_return <= BEST:
            break
    return seed, data


def as_csv(data: Transitions, seed: int) -> str:
    """Return the demonstrations as CSV; 17 digits represent every number exactly."""
    assert data.episodes is not None
    columns = (
        data.episodes,
        *data.states.T,
        *data.actions.T,
        data.rewards,
        *data.next_states.T,
        data.terminated.long(),
        data.truncated.long(),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    lines = [
        "# SYNTHETIC demonstrations for the continuous mountain car: made by a script, not by a person.",
        f"# ClumsyOperator(), seed {seed}, in nopg.envs.MountainCar(), -1 per step;",
        "# made by studies/clumsy_operator.py.",
        COLUMNS,
        *(",".join(f"{number:.17g}" for number in row) for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _between(ends: tuple[float, float], share: torch.Tensor) -> torch.Tensor:
    return ends[0] + (ends[1] - ends[0]) * share


def _steps(ends: tuple[int, int], share: torch.Tensor) -> torch.Tensor:
    """Return whole numbers between the ends, both included, for shares in [0, 1)."""
    return ends[0] + torch.floor((ends[1] - ends[0] + 1) * share)


def main() -> None:
    """Make the demonstrations and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("synthetic_mountain_car.csv"))
    given = parser.parse_args()

    seed, data = make_demonstrations()
    given.output.write_text(as_csv(data, seed), encoding="utf-8")
    mean_return = data.rewards.sum().item() / EPISODES
    sys.stdout.write(f"seed {seed}: {EPISODES} demonstrations, mean return {mean_return:.1f}\n")


if __name__ == "__main__":
    main()
