"""Policies to and from plain values and arrays, for saved controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from nopg._columns import Columns
from nopg._files import part_of
from nopg._seeding import generator
from nopg.errors import ArgumentError
from nopg.policies._deterministic import (
    DeviationPolicy,
    LinearPolicy,
    MLPPolicy,
    QuantizedPolicy,
    padded_levels,
)
from nopg.policies._formula import FormulaPolicy
from nopg.policies._gaussian import GaussianMLPPolicy, GaussianPolicy
from nopg.policies._networks import MLP, ActionRange, Standardizer
from nopg.policies._policy import Policy

Parameters = Mapping[str, torch.Tensor]

_PLAIN: Mapping[type[Policy], str] = {LinearPolicy: "linear", MLPPolicy: "mlp", QuantizedPolicy: "quantized"}


def describe_policy(policy: Policy) -> dict[str, Any]:
    """Return the description that `policy_from` needs beside the parameters (`state_dict`)."""
    # A subclass may act differently, so the exact type is required.
    if (kind := _PLAIN.get(type(policy))) is not None:
        return {"kind": kind}
    if type(policy) is DeviationPolicy:
        base, own = describe_policy(policy.base), describe_policy(policy.policy)
        return {"kind": "deviation", "base": base, "policy": own}
    if type(policy) is FormulaPolicy:
        return {"kind": "formula", **policy.law.to_dict()}
    if isinstance(policy, (GaussianMLPPolicy, GaussianPolicy)):
        sampling = {"num_action_samples": None if policy.sigma_points else policy.num_action_samples}
        if type(policy) is GaussianMLPPolicy:
            return {"kind": "gaussian-mlp", **sampling}
        if type(policy) is GaussianPolicy:
            return {"kind": "gaussian", "mean": describe_policy(policy.mean)["kind"], **sampling}
    raise ArgumentError(
        f"a policy of class {type(policy).__name__} cannot be saved; the policies of nopg.policies can. Save "
        "its state_dict() yourself"
    )


def policy_from(description: Mapping[str, Any], parameters: Parameters, columns: Columns) -> Policy:
    """Return the policy of a description and its parameters, as `nopg.bundles` has checked them."""
    policy = _build(description, parameters, columns)
    policy.load_state_dict(dict(parameters))
    return policy


def _build(description: Mapping[str, Any], parameters: Parameters, columns: Columns) -> Policy:  # noqa: PLR0911  one for each kind
    def part(name: str, described: Mapping[str, Any]) -> Any:
        return _build(described, part_of(name, parameters), columns)

    samples = description.get("num_action_samples")
    match description["kind"]:
        case "linear":
            return LinearPolicy(parameters["gain"])
        case "mlp":
            return MLPPolicy(*_network(parameters))
        case "formula":
            limits, gains = (parameters["low"], parameters["high"]), dict.fromkeys(description["gains"], 0.0)
            return FormulaPolicy(columns, description["formulas"], gains, limits, scales=parameters["scales"])
        case "quantized":
            levels = padded_levels(columns.actions, columns.levels)
            return QuantizedPolicy(part("policy", {"kind": "mlp"}), levels)
        case "deviation":
            base, own = (part(name, description[name]) for name in ("base", "policy"))
            return DeviationPolicy(base, own, parameters["limit"])
        case "gaussian":
            mean = part("mean", {"kind": description["mean"]})
            return GaussianPolicy(mean, parameters["std"], num_action_samples=samples)
    largest = parameters["largest_std"]
    return GaussianMLPPolicy(*_network(parameters), largest_std=largest, num_action_samples=samples)


def _network(parameters: Parameters) -> tuple[MLP, ActionRange]:
    standardizer = Standardizer(*(parameters[f"network.standardizer.{name}"] for name in ("mean", "std")))
    outputs, hidden = parameters["network.output.weight"].shape
    center, radius = (parameters[f"action_range.{name}"] for name in ("center", "radius"))
    network = MLP(standardizer, outputs, hidden=hidden, rng=generator(0, "read"))
    return network, ActionRange(center - radius, center + radius)
