"""Baselines by name, for comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from nopg.baselines._cloning import cloned
from nopg.baselines._linear_mpc import LinearMPC
from nopg.baselines._regulator import LinearQuadraticFit, Regulator
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError

__all__ = ["BASELINES", "Baseline", "baseline"]

Baseline = Callable[[Transitions, float], Any]
"""Makes a controller from a log and a discount."""


def _lqr(data: Transitions, discount: float) -> Regulator:
    fit = LinearQuadraticFit.of(data)
    found = fit.regulator(discount) if fit else None
    if found is None:
        raise DataError("least squares find no linear model with a regulator; more rows may help")
    return found


BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {"cloning": lambda data, _: cloned(data), "lqr": _lqr, "mpc": LinearMPC}
)
"""Behaviour cloning, least squares + LQR, linear MPC on the same fit."""


def baseline(name: str, data: Transitions, discount: float) -> Any:
    """Return the controller that a baseline makes of a log.

    Args:
        name: One of `BASELINES`.
        data: The log.
        discount: γ.
    """
    if name not in BASELINES:
        raise ArgumentError(f"there is no baseline {name!r}; there are {', '.join(BASELINES)}")
    return BASELINES[name](data, discount)
