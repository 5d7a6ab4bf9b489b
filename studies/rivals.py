"""The methods to compare with, each a function from data to a controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal

import torch

from nopg import Transitions
from nopg.baselines import baseline
from studies.neural_model import train_neural
from studies.plants import Controller

__all__ = ["RIVALS", "Rival"]

Rival = Callable[[Transitions, float, int], Controller]
"""Trains on transitions with a discount and a seed."""

_HIDDEN_UNITS = (64, 64)


def _d3rlpy(
    method: Literal["bc", "td3+bc", "iql"], data: Transitions, discount: float, seed: int
) -> Controller:
    """Return the last controller of 10 000 updates of a method of d3rlpy."""
    from studies.baselines import train_offline

    (last,) = train_offline(
        method, data, discount=discount, snapshots=1, seed=seed, hidden_units=_HIDDEN_UNITS
    )
    return lambda observations: torch.as_tensor(last.controller(torch.as_tensor(observations))).numpy()


def _linear(name: str, data: Transitions, discount: float, seed: int) -> Controller:
    """Return a baseline of the library; nothing in these is random."""
    del seed
    law = baseline(name, data, discount)
    return lambda observations: law(torch.as_tensor(observations)).numpy()


RIVALS: Mapping[str, Rival] = MappingProxyType(
    {
        "lqr": partial(_linear, "lqr"),
        "mpc": partial(_linear, "mpc"),
        "bc": partial(_d3rlpy, "bc"),
        "td3bc": partial(_d3rlpy, "td3+bc"),
        "iql": partial(_d3rlpy, "iql"),
        "neural": train_neural,
    }
)
"""Least squares + LQR, linear MPC on the same fit, behaviour cloning, TD3+BC, IQL, and a policy gradient
through neural models."""
