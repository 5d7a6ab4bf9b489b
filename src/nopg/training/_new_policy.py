"""The policy that is trained: a network, a structure or formulas, within rates and levels of actions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, cast, get_args

import torch

from nopg._expressions import quoted
from nopg._seeding import generator
from nopg.baselines._pi_rule import simc_gains
from nopg.data import Transitions
from nopg.data._bounds import action_limits
from nopg.data._derive import lag_name
from nopg.errors import ArgumentError
from nopg.policies import (
    ControlStructure,
    DeviationPolicy,
    FormulaPolicy,
    Formulas,
    GaussianMLPPolicy,
    MLPPolicy,
    Policy,
    QuantizedPolicy,
)
from nopg.policies._deterministic import padded_levels
from nopg.policies._formula import Kind
from nopg.policies._imitation import imitate

NewPolicy = (
    Literal["auto", "deterministic", "gaussian", "p", "pi", "pid", "linear"] | ControlStructure | Formulas
)
"""What is trained: a type of network, or a controller by its structure or its formulas."""

NETWORKS = ("auto", "deterministic", "gaussian")


def with_derived(
    data: Transitions, policy: Policy | NewPolicy, rates: Mapping[str, float]
) -> tuple[Transitions, Policy | str | Formulas]:
    """Return the data with the columns that a structure and limits of rates need, and the policy on them."""
    if not isinstance(policy, (Policy, ControlStructure, Formulas, str)):
        raise ArgumentError(
            f"a {type(policy).__name__} is not a policy of nopg; derive its class from, or wrap it in one "
            "that derives from, nopg.policies.Deterministic: with num_actions, and mode(features) for the "
            "action at data.schema.encode(states)"
        )
    if isinstance(policy, str) and policy not in NETWORKS:
        if policy not in get_args(Kind):
            known = ", ".join(map(repr, (*NETWORKS, *get_args(Kind))))
            raise ArgumentError(
                f"there is no policy {policy!r}; choose one of {known}, or pass a ControlStructure or a "
                "Policy"
            )
        policy = ControlStructure(cast(Kind, policy))
    if isinstance(policy, (ControlStructure, Formulas)):
        data, policy = with_columns(policy, data)
    for name, rate in rates.items():
        if name not in data.schema.actions:
            raise ArgumentError(
                f"there is no action {name!r} to limit; there are {list(data.schema.actions)}"
            )
        if not (math.isfinite(rate) and rate > 0):
            raise ArgumentError(f"the rate of {name!r} is {rate}; give its largest change in a row, above 0")
    if rates and data.schema.levels:
        raise ArgumentError("actions with levels have no rate; leave rates or levels out")
    return (data.derive(lags=dict.fromkeys(rates, 1)) if rates else data), policy


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


def check_policy(policy: Policy | str | Formulas, data: Transitions, *, rollouts: bool) -> None:
    """Refuse a policy that cannot be trained on data, with or without rollouts of a model."""
    if isinstance(policy, Policy):
        if policy.num_actions != data.actions.shape[1]:
            raise ArgumentError(
                f"the policy has {policy.num_actions} actions, the data have {data.actions.shape[1]}"
            )
        if any(part.is_inference() for part in policy.parameters()):
            raise ArgumentError(
                "the policy was made under torch.inference_mode(), which forbids training; make it outside"
            )
    if not (levels := data.schema.levels):
        return
    if not (rollouts and (policy in ("auto", "deterministic") or isinstance(policy, QuantizedPolicy))):
        raise ArgumentError(
            f"the actions {list(levels)} have levels; give policy='deterministic' and model='local', which "
            "keep them, or a QuantizedPolicy"
        )
    wanted = padded_levels(data.schema.actions, levels)
    if isinstance(policy, QuantizedPolicy) and not torch.equal(
        policy.levels.nan_to_num(), wanted.nan_to_num()
    ):
        raise ArgumentError(
            f"the levels of the policy are {policy.levels.tolist()}, those of the data {wanted.tolist()}; "
            "they must be the same"
        )


def build_policy(
    wanted: Policy | str | Formulas,
    data: Transitions,
    seed: int,
    *,
    limits: torch.Tensor | None = None,
    rates: Mapping[str, float] | None = None,
) -> Policy:
    """Return the policy to train: a given one, the supplement's network of a type, or formulas.

    With limits of the actions (2, d_a) it is one of a portfolio of starts, and a deterministic network begins
    with linear laws near. Without, it keeps within the logged actions, and formulas begin as what was logged.
    """
    rng, weights = generator(seed, "policy"), data.weights
    rollouts, actions = limits is not None, data.actions if limits is None else limits
    policy: Policy
    if isinstance(wanted, Policy):
        policy = wanted
    elif isinstance(wanted, Formulas):
        policy = FormulaPolicy.from_data(
            data.schema, wanted.actions, wanted.gains, features=data.features, actions=actions
        )
        if not rollouts:
            imitate(policy, data.features, data.actions, weights)
    elif wanted == "gaussian":
        policy = GaussianMLPPolicy.from_data(
            data.features, actions, rng=rng, num_action_samples=None, weights=weights
        )
    else:
        policy = MLPPolicy.from_data(data.features, actions, rng=rng, linear=rollouts, weights=weights)
        if levels := data.schema.levels:
            policy = QuantizedPolicy(policy, padded_levels(data.schema.actions, levels))
    return rate_limited(policy, data, rates) if rates else policy


def rate_limited(policy: Policy, data: Transitions, rates: Mapping[str, float]) -> DeviationPolicy:
    """Return a policy that deviates from the action before by at most a rate; other actions are free."""
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
