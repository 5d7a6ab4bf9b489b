"""Baselines by name, for comparisons, and the contract that every baseline keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from nopg._checks import require
from nopg._seeding import generator
from nopg._typing import as_tensor
from nopg.baselines._d3rlpy import train_offline
from nopg.baselines._linear_mpc import LinearMPC
from nopg.baselines._neural import train_neural
from nopg.baselines._pi_rule import PIRule
from nopg.baselines._regulator import LinearQuadraticFit, Regulator
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError
from nopg.policies import MLPPolicy, Policy
from nopg.policies._imitation import imitate

_MOST_ROWS, _STEPS = 4_000, 100


class Baseline(NamedTuple):
    """What others would make of the same log: its summary, and how to make it of a log and a discount."""

    summary: str
    make: Callable[..., Any]


def cloned(data: Transitions, *, seed: int = 0) -> MLPPolicy:
    """Return a network that acts as the log did, without its exploration."""
    rng = generator(seed, "cloning")
    policy = MLPPolicy.from_data(data.features, data.actions, rng=rng, linear=True)
    rows = torch.randperm(len(data), generator=rng)[:_MOST_ROWS]
    weights = torch.ones(len(rows), dtype=torch.float64) if data.weights is None else data.weights[rows]
    imitate(policy, data.features[rows], data.actions[rows], weights, steps=_STEPS)
    return policy


def _lqr(data: Transitions, discount: float) -> Regulator:
    fit = LinearQuadraticFit.of(data)
    found = fit.regulator(discount) if fit else None
    if found is None:
        raise DataError("least squares find no linear model with a regulator; more rows may help")
    return found


BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {
        "lqr": Baseline("least squares + LQR", _lqr),
        "mpc": Baseline("linear MPC within the bounds, on the same least squares", LinearMPC),
        "cloning": Baseline(
            "behaviour cloning, a network that acts as the log did",
            lambda data, discount, **settings: cloned(data, **settings),
        ),
        "simc": Baseline(
            "PI control by the SIMC rule, of a first-order plant with a delay",
            lambda data, discount, **settings: PIRule.of(data, **settings),
        ),
        "neural": Baseline("a policy gradient through an ensemble of neural models", train_neural),
        "td3bc": Baseline("TD3+BC of d3rlpy", partial(train_offline, "td3bc")),
        "iql": Baseline("implicit Q-learning of d3rlpy", partial(train_offline, "iql")),
        "cql": Baseline("conservative Q-learning of d3rlpy", partial(train_offline, "cql")),
    }
)
"""All of them by name, the simplest first. Those of d3rlpy need the extra `baselines`."""


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
    return BASELINES[name].make(data, discount, **settings)


def check_baseline(make: Callable[..., Any], data: Transitions, discount: float = 0.9) -> None:
    """Raise an `ArgumentError` unless a baseline makes a controller of a log; call it in the test of yours.

    Args:
        make: Makes a controller from a log and a discount, as in `BASELINES`: a policy, or a function of raw
            states (m, d_s).
        data: A log that it can be made from.
        discount: γ.
    """
    before = [part.clone() for part in (data.states, data.actions, data.rewards)]
    controller = make(data, discount)

    def act(states: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            found = controller.mode(data.schema.encode(states)) if is_policy else controller(states)
        return as_tensor(found)

    is_policy = isinstance(controller, Policy)
    actions, shape = act(data.states), tuple(data.actions.shape)
    require(tuple(actions.shape) == shape, f"actions have shape {tuple(actions.shape)} instead of {shape}")
    require(bool(actions.isfinite().all()), "an action is not finite")
    require(torch.equal(act(data.states), actions), "the same states have other actions in the second call")
    alone = torch.cat([act(row[None]) for row in data.states[:5]])
    require(torch.allclose(alone, actions[:5], rtol=1e-6, atol=1e-9), "an action depends on the other rows")
    after = (data.states, data.actions, data.rewards)
    require(all(map(torch.equal, before, after)), "the log was changed")
