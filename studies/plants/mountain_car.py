"""The mountain car from recorded drives of a person."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from nopg import Transitions
from nopg.envs import MountainCar
from studies.demonstrations import recorded_demonstrations, some_of
from studies.plants.benchmark import Benchmark, Returns

__all__ = ["MOUNTAIN_CAR"]


@dataclass(frozen=True, kw_only=True)
class Demonstrations(Benchmark):
    """A few drives of a person, drawn without repetition from a recording that is not in the repository."""

    def data(self, rows: int, seed: int) -> Transitions:
        """Return this many demonstrations; their first states are the starts of the task."""
        return some_of(recorded_demonstrations(), rows, seed)

    def behaviour_returns(self, seed: int) -> Returns:
        """Return what the recorded drives returned; the seed changes nothing."""
        del seed
        whole = recorded_demonstrations()
        assert whole.episodes is not None
        drives = [whole.rewards[whole.episodes == number] for number in torch.unique(whole.episodes)]
        discounted = torch.stack(
            [drive @ self.discount ** torch.arange(len(drive), dtype=drive.dtype) for drive in drives]
        )
        error = float(discounted.std()) / math.sqrt(len(drives))
        undiscounted = sum(float(drive.sum()) for drive in drives) / len(drives)
        return Returns(undiscounted, float(discounted.mean()), error, len(drives))


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
