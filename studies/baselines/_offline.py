"""DDPG of d3rlpy on a log, and controllers as they were on the way of a training."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from nopg._typing import ArrayLike
from nopg.baselines._d3rlpy import Actor, train
from nopg.data import Transitions
from nopg.errors import ArgumentError

# The units of the supplement's networks.
HIDDEN_UNITS = 50


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a training had reached; training on does not change it."""

    updates: int  # Updates of the actor so far.
    # How many transitions it has learned from: all of the data offline, the steps taken so far online.
    transitions: int
    seconds: float  # Of training so far, without the time between snapshots.
    # The policy without exploration: raw states (m, d_s) in, actions (m, d_a) out.
    controller: Callable[[torch.Tensor], ArrayLike]
    # The library's object behind it, a copy: a d3rlpy algorithm, or the policy of Stable-Baselines3.
    model: Any


def check_snapshots(what: str, count: int, snapshots: int) -> int:
    """Return how many updates or steps lie between two snapshots, or say why there is no such number."""
    if snapshots < 1 or count < 1 or count % snapshots:
        raise ArgumentError(
            f"{what} is {count} and snapshots {snapshots}; give {what} as a positive multiple of snapshots"
        )
    return count // snapshots


def train_offline_ddpg(
    data: Transitions, *, discount: float, updates: int, snapshots: int = 10, seed: int = 0
) -> list[Snapshot]:
    """Return the controllers on the way of a training, evenly over the updates, the last one last.

    Learning rates and the target update are those of the supplement; what that does not name is d3rlpy's
    default.
    """
    interval = check_snapshots("updates", updates, snapshots)
    taken, began, between = list[Snapshot](), time.perf_counter(), 0.0

    def keep(actor: Actor, done: int) -> None:
        nonlocal between
        now = time.perf_counter()
        copied = replace(actor, model=copy.deepcopy(actor.model))
        taken.append(Snapshot(done, len(data), now - began - between, copied, copied.model))
        between += time.perf_counter() - now

    train(_ddpg, data, discount, updates=updates, seed=seed, every=interval, after=keep)
    return taken


def _ddpg(common: dict[str, Any]) -> Any:
    """Return d3rlpy's settings."""
    from d3rlpy import algos
    from d3rlpy.models import VectorEncoderFactory

    network = VectorEncoderFactory(hidden_units=[HIDDEN_UNITS])
    paper = {"actor_learning_rate": 1e-2, "critic_learning_rate": 1e-2, "tau": 1e-3}
    return algos.DDPGConfig(actor_encoder_factory=network, critic_encoder_factory=network, **paper, **common)
