"""Baselines by name, for comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from nopg._seeding import generator
from nopg.baselines._d3rlpy import train_offline
from nopg.baselines._linear_mpc import LinearMPC
from nopg.baselines._neural import train_neural
from nopg.baselines._pi_rule import simc
from nopg.baselines._regulator import NO_REGULATOR, LinearQuadraticFit, Regulator
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError
from nopg.policies import MLPPolicy
from nopg.policies._imitation import imitate

_MOST_ROWS, _STEPS = 4_000, 100


def cloned(data: Transitions, *, seed: int = 0) -> MLPPolicy:
    """Return a network that acts as the log did, without its exploration."""
    rng = generator(seed, "cloning")
    policy = MLPPolicy.from_data(data.features, data.actions, rng=rng, linear=True)
    rows = torch.randperm(len(data), generator=rng)[:_MOST_ROWS]
    weights = None if data.weights is None else data.weights[rows]
    imitate(policy, data.features[rows], data.actions[rows], weights, steps=_STEPS)
    return policy


def _lqr(data: Transitions, discount: float) -> Regulator:
    fit = LinearQuadraticFit.of(data)
    if fit is None or (found := fit.regulator(discount)) is None:
        raise DataError(NO_REGULATOR)
    return found


BASELINES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "lqr": _lqr,  # least squares + LQR
        "mpc": LinearMPC,  # within the bounds, on the same least squares
        "cloning": lambda data, discount, **settings: cloned(data, **settings),
        "simc": lambda data, discount, **settings: simc(data, **settings),  # PI, a first-order plant
        "neural": train_neural,  # a policy gradient through an ensemble of neural models
        "td3bc": partial(train_offline, "td3bc"),
        "iql": partial(train_offline, "iql"),
        "cql": partial(train_offline, "cql"),
    }
)
"""What makes each of a log and a discount, the simplest first. Those of d3rlpy need the extra `baselines`."""


def baseline(name: str, data: Transitions, discount: float, **settings: Any) -> Any:
    """Return the controller that a baseline makes of a log.

    Args:
        name: One of `BASELINES`.
        data: The log.
        discount: γ.
        **settings: `horizon` of `mpc`; `seed` of `cloning`; `output` and `set_point` of `simc`; `seed` and
            `config` of `neural`; `updates`, `seed` and `hidden_units` of `td3bc`, `iql` and `cql`.

    Example:
        >>> from nopg.envs import LQR, UniformAgent, collect
        >>> plant = LQR()
        >>> data = collect(plant, UniformAgent.within(plant), episodes=5, steps=20, seed=0)
        >>> baseline("mpc", data, 0.9, horizon=10)(data.states).shape
        torch.Size([100, 2])
    """
    if name not in BASELINES:
        raise ArgumentError(f"there is no baseline {name!r}; there are {', '.join(BASELINES)}")
    return BASELINES[name](data, discount, **settings)
