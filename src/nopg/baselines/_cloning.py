"""Behaviour cloning: a network fitted to the logged actions."""

from __future__ import annotations

import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.policies import MLPPolicy
from nopg.policies._imitation import imitate

_MOST_ROWS, _STEPS = 4_000, 100


def cloned(data: Transitions, *, seed: int = 0) -> MLPPolicy:
    """Return a network that acts as the log did, without its exploration.

    Args:
        data: The log.
        seed: Of the weights, and of the rows, at most 4 000.
    """
    rng = generator(seed, "cloning")
    policy = MLPPolicy.from_data(data.features, data.actions, rng=rng, linear=True)
    rows = torch.randperm(len(data), generator=rng)[:_MOST_ROWS]
    weights = torch.ones(len(rows), dtype=torch.float64) if data.weights is None else data.weights[rows]
    imitate(policy, data.features[rows], data.actions[rows], weights, steps=_STEPS)
    return policy
