"""Controllers by structure, formula or limited rates: the columns that they need, and their policies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch

from nopg._expressions import quoted
from nopg.baselines._pi_rule import simc_gains
from nopg.data import Transitions
from nopg.data._bounds import action_limits
from nopg.data._derive import lag_name
from nopg.errors import ArgumentError
from nopg.policies import ControlStructure, DeviationPolicy, FormulaPolicy, Formulas, MLPPolicy, Policy


def with_columns(policy: ControlStructure | Formulas, data: Transitions) -> tuple[Transitions, Formulas]:
    """Return the data with the earlier values that a controller needs, and the controller as formulas.

    PI and PID controllers have the gains of the SIMC rule at first.
    """
    if isinstance(policy, ControlStructure):
        states = data.schema.decode(data.features)
        means = dict(zip(data.schema.states, states.mean(dim=0).tolist(), strict=True))
        formulas = policy.formulas(data.schema, means)
        tuned = simc_gains(policy, data) if policy.kind in {"pi", "pid"} else {}
        policy = replace(formulas, gains={**formulas.gains, **tuned})
    return data.derive(lags=policy.lags(data.schema), formulas=policy.columns), policy


def formula_policy(formulas: Formulas, data: Transitions, limits: torch.Tensor) -> FormulaPolicy:
    """Return the policy of formulas within limits (2, d_a), with scales of the data."""
    return FormulaPolicy.from_data(
        data.schema, formulas.actions, formulas.gains, features=data.features, actions=limits
    )


def check_rates(rates: Mapping[str, float], data: Transitions) -> None:
    """Refuse rates of other columns, and those that are no positive numbers."""
    for name, rate in rates.items():
        if name not in data.schema.actions:
            raise ArgumentError(
                f"there is no action {name!r} to limit; there are {list(data.schema.actions)}"
            )
        if not (math.isfinite(rate) and rate > 0):
            raise ArgumentError(f"the rate of {name!r} is {rate}; give its largest change in a row, above 0")
    if rates and data.schema.levels:
        raise ArgumentError("actions with levels have no rate; leave rates or levels out")


def rate_limited(policy: Policy, data: Transitions, rates: Mapping[str, float]) -> DeviationPolicy:
    """Return a policy that deviates from the action before by at most a rate; other actions are free.

    Args:
        policy: A network or formulas.
        data: With the lags of the limited actions.
        rates: Largest change in a row, by action.
    """
    if not isinstance(policy, (MLPPolicy, FormulaPolicy)):
        raise ArgumentError(
            f"a {type(policy).__name__} has no rate; train policy='deterministic' or a structure"
        )
    low, high = action_limits(data)
    names, middle = data.schema.actions, ((low + high) / 2).tolist()
    before = {
        name: quoted(lag_name(name, 1)) if name in rates else repr(rest)
        for name, rest in zip(names, middle, strict=True)
    }
    limit = [rates.get(name, whole) for name, whole in zip(names, (high - low).tolist(), strict=True)]
    base = FormulaPolicy(data.schema, before, {}, (low, high))
    return DeviationPolicy(base, policy, torch.tensor(limit, dtype=torch.float64))
