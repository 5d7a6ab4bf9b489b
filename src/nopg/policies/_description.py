"""Policies to and from plain values and arrays, for saved controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from nopg._columns import Columns
from nopg._formula_law import FormulaLaw
from nopg._seeding import generator
from nopg.errors import ArgumentError
from nopg.policies._deterministic import Deterministic, LinearPolicy, MLPPolicy
from nopg.policies._deviation import DeviationPolicy
from nopg.policies._formula import FormulaPolicy
from nopg.policies._gaussian import GaussianMLPPolicy, GaussianPolicy, VarianceDecay
from nopg.policies._networks import MLP, ActionRange, Standardizer
from nopg.policies._policy import Policy
from nopg.policies._quantized import QuantizedPolicy

Parameters = Mapping[str, torch.Tensor]

_PLAIN: Mapping[type[Policy], str] = {LinearPolicy: "linear", MLPPolicy: "mlp", QuantizedPolicy: "quantized"}


def describe_policy(policy: Policy) -> dict[str, Any]:
    """Return the description that `policy_from` needs beside the parameters (`state_dict`).

    Example:
        >>> describe_policy(LinearPolicy([[-1.0, -2.0]]))
        {'kind': 'linear'}
    """
    # A subclass may act differently, so the exact type is required.
    if (kind := _PLAIN.get(type(policy))) is not None:
        return {"kind": kind}
    if type(policy) is DeviationPolicy:
        parts = {"base": policy.base, "policy": policy.policy}
        return {"kind": "deviation", **{name: describe_policy(part) for name, part in parts.items()}}
    if type(policy) is FormulaPolicy:
        return {"kind": "formula", **policy.law.to_dict()}
    if isinstance(policy, (GaussianMLPPolicy, GaussianPolicy)):
        sampling = {
            "num_action_samples": None if policy.sigma_points else policy.num_action_samples,
            "final_variance": policy.decay.final,
        }
        if type(policy) is GaussianMLPPolicy:
            return {"kind": "gaussian-mlp", **sampling}
        if type(policy) is GaussianPolicy:
            return {"kind": "gaussian", "mean": describe_policy(policy.mean)["kind"], **sampling}
    raise ArgumentError(
        f"a policy of class {type(policy).__name__} cannot be saved; the policies of nopg.policies can. Save "
        "its state_dict() yourself"
    )


def policy_from(description: Mapping[str, Any], parameters: Parameters, columns: Columns) -> Policy:
    """Return the policy of a description, its parameters and columns; inconsistent ones are refused.

    Sizes are taken from the parameters, so that no more memory is allocated than was read.
    """
    for name, value in parameters.items():
        if not value.is_floating_point() or not bool(value.isfinite().all()):
            raise ArgumentError(f"the parameter {name} of the policy holds numbers that are not finite")
    policy = _build(description, parameters, columns)
    try:
        policy.load_state_dict(dict(parameters))
    except RuntimeError as error:
        raise ArgumentError(f"the parameters do not fit the policy: {str(error).splitlines()[-1]}") from None
    return policy


def _build(description: Mapping[str, Any], parameters: Parameters, columns: Columns) -> Policy:
    kind = str(description.get("kind"))
    if kind in {"linear", "mlp"}:
        return _deterministic(kind, parameters)
    if kind == "quantized":
        return _quantized(parameters)
    if kind == "formula":
        return _formula(description, parameters, columns)
    if kind == "deviation":
        base, policy = (_part(name, description, parameters, columns) for name in ("base", "policy"))
        return DeviationPolicy(base, policy, _vector(parameters, "limit"))
    if kind not in {"gaussian", "gaussian-mlp"}:
        raise ArgumentError(f"there is no policy of kind {kind!r}")
    count, final = description.get("num_action_samples"), description.get("final_variance")
    if not (count is None or isinstance(count, int)) or not isinstance(final, (int, float)):
        raise ArgumentError(
            f"num_action_samples is {count!r} and final_variance {final!r}; both must be numbers"
        )
    decay = VarianceDecay(final)
    if kind == "gaussian":
        inner = {name[5:]: value for name, value in parameters.items() if name.startswith("mean.")}
        mean = _deterministic(str(description.get("mean")), inner)
        return GaussianPolicy(mean, _vector(parameters, "std"), num_action_samples=count, decay=decay)
    return GaussianMLPPolicy(
        _network(parameters),
        _action_range(parameters),
        largest_std=_vector(parameters, "largest_std"),
        num_action_samples=count,
        decay=decay,
    )


def _part(
    name: str, description: Mapping[str, Any], parameters: Parameters, columns: Columns
) -> Deterministic:
    """Return one of the two policies of a deviation."""
    own, prefix = description.get(name), f"{name}."
    inner = {key.removeprefix(prefix): value for key, value in parameters.items() if key.startswith(prefix)}
    if not isinstance(own, Mapping) or own.get("kind") not in {"linear", "mlp", "formula"}:
        raise ArgumentError(f"the {name} of the deviation is no linear policy, network or formula")
    if own.get("kind") == "formula":
        return _formula(own, inner, columns)
    return _deterministic(str(own.get("kind")), inner)


def _formula(description: Mapping[str, Any], parameters: Parameters, columns: Columns) -> FormulaPolicy:
    law = FormulaLaw.read(columns, description)
    limits, scales = (_vector(parameters, "low"), _vector(parameters, "high")), parameters.get("scales")
    return FormulaPolicy(
        columns, law.to_dict()["formulas"], dict.fromkeys(law.gains, 0.0), limits, scales=scales
    )


def _quantized(parameters: Parameters) -> QuantizedPolicy:
    inner = {name[7:]: value for name, value in parameters.items() if name.startswith("policy.")}
    levels, discrete = parameters.get("levels"), _vector(parameters, "discrete")
    if levels is None or levels.ndim != 2 or len(levels) != len(discrete):
        raise ArgumentError("the levels of the policy are missing, or do not fit its actions")
    network = MLPPolicy(_network(inner), _action_range(inner))
    return QuantizedPolicy(network, levels.masked_fill(discrete[:, None] == 0, torch.nan))


def _deterministic(kind: str, parameters: Parameters) -> Deterministic:
    if kind == "linear":
        gain = parameters.get("gain")
        if gain is None:
            raise ArgumentError("the parameter gain of the policy is missing")
        return LinearPolicy(gain)
    if kind == "mlp":
        return MLPPolicy(_network(parameters), _action_range(parameters))
    raise ArgumentError(f"there is no deterministic policy of kind {kind!r}")


def _network(parameters: Parameters) -> MLP:
    mean, std = (_vector(parameters, f"network.standardizer.{name}") for name in ("mean", "std"))
    if std.shape != mean.shape or not bool((std > 0).all()):
        raise ArgumentError("the standardisation of the policy has another shape, or is not positive")
    standardizer = Standardizer(mean, std)
    hidden, outputs = (_vector(parameters, f"network.{layer}.bias").numel() for layer in ("hidden", "output"))
    size = max(hidden * (len(standardizer.mean) + 1), outputs * (hidden + 1))
    if size > 2 * sum(value.numel() for value in parameters.values()):
        raise ArgumentError("the parameters of the network do not fit each other")
    return MLP(standardizer, outputs, hidden=hidden, rng=generator(0, "read"))


def _action_range(parameters: Parameters) -> ActionRange:
    center, radius = (_vector(parameters, f"action_range.{name}") for name in ("center", "radius"))
    if center.shape != radius.shape:
        raise ArgumentError("centre and radius of the actions differ in shape")
    return ActionRange(center - radius, center + radius)


def _vector(parameters: Parameters, name: str) -> torch.Tensor:
    value = parameters.get(name)
    if value is None or value.ndim != 1 or value.numel() == 0:
        raise ArgumentError(f"the parameter {name} of the policy is missing or has another shape")
    return value
