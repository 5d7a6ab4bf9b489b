"""The policy of a saved controller: its parameters, checked against its description and the columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nopg._columns import Columns
from nopg._formula_law import FormulaLaw
from nopg.bundles._bundle import Array
from nopg.errors import ArgumentError

Shapes = dict[str, tuple[int, ...]]


def check_policy(description: Mapping[str, Any], parameters: Mapping[str, Array], columns: Columns) -> None:
    """Raise an `ArgumentError` where a policy is unknown, does not fit the columns, or cannot act."""
    if bool(columns.levels) != (description.get("kind") == "quantized"):
        raise ArgumentError(
            f"levels are declared for {list(columns.levels)}, and the policy is "
            f"{description.get('kind')!r:.80}; one with levels is 'quantized'"
        )
    wanted, found = _shapes(description, parameters, columns), {k: a.shape for k, a in parameters.items()}
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            raise ArgumentError(
                f"{name} of the policy has shape {found.get(name)}, not {wanted.get(name)}"
                if name in wanted
                else f"the policy has no place for {name}"
            )
    for name, value in parameters.items():
        if name.endswith(("standardizer.std", "scales")) and not (value > 0).all():
            raise ArgumentError(f"{name} of the policy is not positive")
        if name == "limit" and not (value >= 0).all():
            raise ArgumentError("the limit of the deviation is negative")
        if name.endswith("low"):
            low, high = value, parameters[f"{name[:-3]}high"]
        elif name.endswith("center"):
            radius = parameters[f"{name[:-6]}radius"]
            with np.errstate(over="ignore"):
                low, high = value - radius, value + radius  # equal if the radius is below rounding
        else:
            continue
        if not (low < high).all():
            raise ArgumentError("the range of the actions of the policy is empty")


def _shapes(described: Mapping[str, Any], parameters: Mapping[str, Array], columns: Columns) -> Shapes:
    """Return the shape of each parameter that a policy needs."""
    d_a = len(columns.actions)

    def part(name: str, one: Any) -> Shapes:
        start = f"{name}."
        own = {key.removeprefix(start): array for key, array in parameters.items() if key.startswith(start)}
        return {f"{start}{key}": shape for key, shape in _law_shapes(one, own, columns).items()}

    match described:
        case {"kind": "quantized"}:
            return part("policy", {"kind": "mlp"})
        case {"kind": "deviation", "base": base, "policy": policy}:
            return {"limit": (d_a,)} | part("base", base) | part("policy", policy)
        case {"kind": "gaussian-mlp", "num_action_samples": int() | None}:
            return {"largest_std": (d_a,)} | _network_shapes(parameters, columns, outputs_per_action=2)
        case {"kind": "gaussian", "mean": str() as mean, "num_action_samples": int() | None}:
            return {"std": (d_a,)} | part("mean", {"kind": mean})
    return _law_shapes(described, parameters, columns)


def _law_shapes(described: Any, parameters: Mapping[str, Array], columns: Columns) -> Shapes:
    """Return the shapes of a linear law, a network or formulas."""
    d_f, d_a = len(columns.features), len(columns.actions)
    match described:
        case {"kind": "linear"}:
            is_diagonal = d_a == d_f and parameters.get("gain", np.zeros((0, 0))).ndim == 1
            return {"gain": (d_a,) if is_diagonal else (d_a, d_f)}
        case {"kind": "mlp"}:
            return _network_shapes(parameters, columns)
        case {"kind": "formula"}:
            law = FormulaLaw.read(columns, described)
            count = len(law.gains)
            return {"low": (d_a,), "high": (d_a,), "scales": (count,), "raw": (count,)}
    raise ArgumentError(f"{described!r:.80} is no policy that is known")


def _network_shapes(
    parameters: Mapping[str, Array], columns: Columns, *, outputs_per_action: int = 1
) -> Shapes:
    d_f, d_a, bias = len(columns.features), len(columns.actions), parameters.get("network.hidden.bias")
    h, out = 0 if bias is None else bias.size, outputs_per_action * d_a
    layers: Shapes = {"hidden.weight": (h, d_f), "hidden.bias": (h,), "output.weight": (out, h)}
    layers |= {"output.bias": (out,), "standardizer.mean": (d_f,), "standardizer.std": (d_f,)}
    ends: Shapes = {"action_range.center": (d_a,), "action_range.radius": (d_a,)}
    return {f"network.{name}": shape for name, shape in layers.items()} | ends
