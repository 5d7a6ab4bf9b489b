"""The mountain car from recorded drives of a person."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from nopg import Transitions
from nopg._seeding import generator
from nopg.envs import MountainCar
from nopg.errors import ArgumentError
from studies.plants.benchmark import Benchmark, Returns

__all__ = ["DEMONSTRATIONS", "MOUNTAIN_CAR"]

DEMONSTRATIONS = "NOPG_DEMONSTRATIONS"
"""Environment variable that holds the path of the recorded drives."""


@dataclass(frozen=True, kw_only=True)
class Demonstrations(Benchmark):
    """A few drives of a person, drawn without repetition from a recording that is not in the repository."""

    def data(self, rows: int, seed: int) -> Transitions:
        """Return this many demonstrations; their first states are the starts of the task."""
        whole = self._recording()
        assert whole.episodes is not None
        numbers = torch.unique(whole.episodes)
        if not 1 <= rows <= len(numbers):
            raise ArgumentError(
                f"there are {len(numbers)} demonstrations, got rows={rows}; give at most that"
            )
        drawn = numbers[torch.randperm(len(numbers), generator=generator(seed, "demonstrations"))[:rows]]
        return replace(whole.take(torch.isin(whole.episodes, drawn)), initial_states=None)

    def behaviour_returns(self, seed: int) -> Returns:
        """Return what the recorded drives returned; the seed changes nothing."""
        del seed
        whole = self._recording()
        assert whole.episodes is not None
        drives = [whole.rewards[whole.episodes == number] for number in torch.unique(whole.episodes)]
        discounted = torch.stack(
            [drive @ self.discount ** torch.arange(len(drive), dtype=drive.dtype) for drive in drives]
        )
        error = float(discounted.std()) / math.sqrt(len(drives))
        undiscounted = sum(float(drive.sum()) for drive in drives) / len(drives)
        return Returns(undiscounted, float(discounted.mean()), error, len(drives))

    def _recording(self) -> Transitions:
        path = os.environ.get(DEMONSTRATIONS)
        if not path:
            raise ArgumentError(
                f"{self.name} needs the recorded drives, got no path; "
                f"give --demonstrations or set {DEMONSTRATIONS}"
            )
        from studies.paper import read_demonstrations

        return read_demonstrations(Path(path))


MOUNTAIN_CAR = Demonstrations(
    name="mountain-car",
    role="report",
    make_plant=MountainCar,
    discount=0.99,
    sizes=(1, 2, 5, 10),
    steps=500,
    episodes=20,
    unit="demonstrations",
)
"""Recorded drives of a person, −1 per step, 20 starts of at most 500 steps."""
