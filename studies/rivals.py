"""The methods to compare with, each a function from data to a controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from nopg import Transitions
from nopg.baselines import baseline
from studies.baselines import train_snapshots
from studies.plants import Controller

__all__ = ["RIVALS", "Rival"]

Rival = Callable[[Transitions, float, int], Controller]
"""Trains on transitions with a discount and a seed."""

_HIDDEN_UNITS = (64, 64)


def _law(controller: Any) -> Controller:
    return lambda observations: controller(torch.as_tensor(observations)).numpy()


def _cloning(data: Transitions, discount: float, seed: int) -> Controller:
    """Return behaviour cloning of d3rlpy."""
    (last,) = train_snapshots(
        "bc", data, discount=discount, updates=10_000, snapshots=1, seed=seed, hidden_units=_HIDDEN_UNITS
    )
    return _law(last.controller)


def _linear(name: str, data: Transitions, discount: float, seed: int) -> Controller:
    """Return a baseline of the library in which nothing is random."""
    del seed
    return _law(baseline(name, data, discount))


def _seeded(name: str, data: Transitions, discount: float, seed: int) -> Controller:
    """Return a baseline of the library."""
    return _law(baseline(name, data, discount, seed=seed))


RIVALS: Mapping[str, Rival] = MappingProxyType(
    {
        "lqr": partial(_linear, "lqr"),
        "mpc": partial(_linear, "mpc"),
        "bc": _cloning,
        "td3bc": partial(_seeded, "td3bc"),
        "iql": partial(_seeded, "iql"),
        "neural": partial(_seeded, "neural"),
    }
)
"""Least squares + LQR, linear MPC on the same fit, behaviour cloning, TD3+BC, IQL, and a policy gradient
through neural models."""
