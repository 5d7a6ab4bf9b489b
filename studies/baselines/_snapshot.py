"""A controller as it was after some updates of another library's training."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from nopg._typing import ArrayLike
from nopg.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a training had reached; training on does not change it.

    Attributes:
        updates: Updates of the actor so far.
        transitions: How many transitions it has learned from: all of the data offline, the steps taken so
            far online.
        seconds: Of training so far, without the time between snapshots.
        controller: The policy without exploration: raw states (m, d_s) in, actions (m, d_a) out.
        model: The library's object behind it, a copy: a d3rlpy algorithm, or the policy of
            Stable-Baselines3.
    """

    updates: int
    transitions: int
    seconds: float
    controller: Callable[[torch.Tensor], ArrayLike]
    model: Any


def check_snapshots(what: str, count: int, snapshots: int) -> int:
    """Return how many updates or steps lie between two snapshots, or say why there is no such number."""
    if snapshots < 1 or count < 1 or count % snapshots:
        raise ArgumentError(
            f"{what} is {count} and snapshots {snapshots}; give {what} as a positive multiple of snapshots"
        )
    return count // snapshots
