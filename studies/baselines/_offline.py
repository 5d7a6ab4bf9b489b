"""Behaviour cloning and DDPG of d3rlpy on a log, with snapshots of their controllers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from nopg.baselines._d3rlpy import train_in_shares
from nopg.data import Transitions
from studies.baselines._snapshot import Snapshot, check_snapshots


def train_snapshots(
    method: Literal["bc", "ddpg"],
    data: Transitions,
    *,
    discount: float,
    updates: int,
    snapshots: int = 10,
    seed: int = 0,
    hidden_units: Sequence[int] = (50,),
) -> list[Snapshot]:
    """Return the controllers on the way of a training, evenly over the updates, the last one last.

    DDPG has the learning rates and the target update of the supplement; what that does not name is d3rlpy's
    default.
    """
    interval = check_snapshots("updates", updates, snapshots)
    found = train_in_shares(
        partial(_configuration, method, hidden_units),
        data,
        discount=discount,
        updates=updates,
        count=snapshots,
        seed=seed,
    )
    return [
        Snapshot(number * interval, len(data), seconds, actor, actor.model)
        for number, (seconds, actor) in enumerate(found, start=1)
    ]


def _configuration(method: str, hidden_units: Sequence[int], common: dict[str, Any]) -> Any:
    """Return d3rlpy's settings of a method."""
    from d3rlpy import algos
    from d3rlpy.models import VectorEncoderFactory

    network = VectorEncoderFactory(hidden_units=[*hidden_units])
    if method == "bc":
        return algos.BCConfig(encoder_factory=network, **common)
    paper = {"actor_learning_rate": 1e-2, "critic_learning_rate": 1e-2, "tau": 1e-3}
    return algos.DDPGConfig(actor_encoder_factory=network, critic_encoder_factory=network, **paper, **common)
