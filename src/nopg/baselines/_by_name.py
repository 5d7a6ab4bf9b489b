"""Baselines by name, for comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from nopg.baselines._cloning import cloned
from nopg.baselines._linear_mpc import LinearMPC
from nopg.baselines._neural import train_neural
from nopg.baselines._offline import OfflineMethod, train_offline
from nopg.baselines._pi_rule import PIRule
from nopg.baselines._regulator import LinearQuadraticFit, Regulator
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError


@dataclass(frozen=True, slots=True)
class Baseline:
    """What others would make of the same log.

    Attributes:
        summary: What it is, in a few words.
        make: Makes a controller from a log and a discount; settings are keyword arguments.
    """

    summary: str
    make: Callable[..., Any]


def _cloning(data: Transitions, discount: float, *, seed: int = 0) -> Any:
    del discount
    return cloned(data, seed=seed)


def _lqr(data: Transitions, discount: float) -> Regulator:
    fit = LinearQuadraticFit.of(data)
    found = fit.regulator(discount) if fit else None
    if found is None:
        raise DataError("least squares find no linear model with a regulator; more rows may help")
    return found


def _simc(data: Transitions, discount: float, **settings: Any) -> PIRule:
    del discount
    return PIRule.of(data, **settings)


def _offline(method: OfflineMethod, data: Transitions, discount: float, **settings: Any) -> Any:
    return train_offline(method, data, discount=discount, **settings)


BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {
        "lqr": Baseline("least squares + LQR", _lqr),
        "mpc": Baseline("linear MPC within the bounds, on the same least squares", LinearMPC),
        "cloning": Baseline("behaviour cloning, a network that acts as the log did", _cloning),
        "simc": Baseline("PI control by the SIMC rule, of a first-order plant with a delay", _simc),
        "neural": Baseline("a policy gradient through an ensemble of neural models", train_neural),
        "td3bc": Baseline("TD3+BC of d3rlpy", partial(_offline, "td3+bc")),
        "iql": Baseline("implicit Q-learning of d3rlpy", partial(_offline, "iql")),
        "cql": Baseline("conservative Q-learning of d3rlpy", partial(_offline, "cql")),
    }
)
"""All of them by name, the simplest first. Those of d3rlpy need the extra `baselines`."""


def baseline(name: str, data: Transitions, discount: float, **settings: Any) -> Any:
    """Return the controller that a baseline makes of a log.

    Args:
        name: One of `BASELINES`.
        data: The log.
        discount: γ.
        **settings: Of the baseline: `horizon` of `mpc`; `seed` of `cloning`; `output` and `set_point` of
            `simc`; `seed` and `config` of `neural`; those of `train_offline`, such as `seed` and `updates`,
            of `td3bc`, `iql` and `cql`.

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
