"""The controller in a bundle: columns, policy and support, read and checked without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from nopg._columns import Columns, Derived, Exogenous
from nopg._formula_law import FormulaLaw
from nopg._support import Support
from nopg.bundles._bundle import Array, Bundle
from nopg.bundles._fields import Fields
from nopg.bundles._support import read_support
from nopg.errors import ArgumentError, BundleError, DataError

CONTROLLER = "controller"
"""The name of its group."""

Parameters = Mapping[str, Array]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class SavedController:
    """Columns, policy and support of a saved controller.

    Attributes:
        columns: Names, angles, units and bounds of observations and actions.
        policy: The description of the policy.
        parameters: The parameters of the policy by name, as float64.
        support: Where the data are.
        file: What it was read from.
    """

    columns: Columns
    policy: Mapping[str, Any]
    parameters: Parameters
    support: Support
    file: Bundle | None = None

    @property
    def sha256(self) -> str | None:
        """Hash of the file it was read from, as `sha256sum` prints it; None if there is none."""
        return None if self.file is None else self.file.sha256


def read_controller(bundle: Bundle) -> SavedController:
    """Return the columns, the policy and the support of a bundle, checked against each other."""
    fields, arrays = bundle.document(CONTROLLER), bundle.arrays(CONTROLLER)
    parameters = {name[7:]: value for name, value in arrays.items() if name.startswith("policy.")}
    for name, value in parameters.items():
        if not np.issubdtype(value.dtype, np.floating) or not np.isfinite(value).all():
            raise bundle.refuse(CONTROLLER, f"holds numbers that are not finite in policy.{name}")
        parameters[name] = value.astype(np.float64)
    policy = fields.object("policy").values
    try:
        columns = _columns(fields.object("schema"))
        _check_policy(policy, parameters, columns)
    except (ArgumentError, DataError) as error:
        raise BundleError(f"{fields.place}: {error}; save the controller again") from None
    support = read_support(fields.object("support"), arrays, columns, bundle, CONTROLLER)
    return SavedController(columns, policy, parameters, support, bundle)


def _columns(fields: Fields) -> Columns:
    states, actions = fields.texts("states"), fields.texts("actions")
    names, derived = (*states, *actions), fields.each("derived", Fields.texts)
    if not states or not actions or len(set(names)) < len(names):
        raise BundleError(f"{fields.place}: the columns are {names}; there must be some, and distinct ones")
    if wrong := [name for name, formulas in derived.items() if len(formulas) != 2]:
        raise BundleError(f"{fields.place}: the column {wrong[0]!r} needs two formulas, initial and update")
    return Columns(
        states,
        actions,
        fields.each("angles", Fields.number),
        fields.each("units", Fields.text),
        fields.each("bounds", Fields.interval),
        fields.text("reward") if fields.has("reward") else None,
        {name: Derived(*formulas) for name, formulas in derived.items()},
        cast(dict[str, Exogenous], fields.each("exogenous", Fields.text)),
        fields.number("interval") if fields.has("interval") else None,
        fields.each("hold", Fields.integer),
        fields.each("levels", Fields.sequence),
    )


def _check_policy(described: Mapping[str, Any], parameters: Parameters, columns: Columns) -> None:
    """Refuse a policy that is unknown, does not fit the columns, or cannot act."""
    if bool(columns.levels) != (described.get("kind") == "quantized"):
        raise ArgumentError(
            f"levels are declared for {list(columns.levels)}, and the policy is {described!r:.80}; one with "
            "levels is 'quantized'"
        )
    wanted = _shapes(described, parameters, columns)
    for name in sorted({*wanted, *parameters}):
        found = parameters[name].shape if name in parameters else None
        if found != wanted.get(name):
            raise ArgumentError(f"{name} of the policy has shape {found}, not {wanted.get(name)}")
    for name, value in parameters.items():
        if name.endswith(("standardizer.std", "scales")) and not (value > 0).all():
            raise ArgumentError(f"{name} of the policy is not positive")
        if name == "limit" and not (value >= 0).all():
            raise ArgumentError("the limit of the deviation is negative")
        low, high = value, parameters.get(f"{name[:-3]}high")
        if name.endswith("center"):
            radius = parameters[f"{name[:-6]}radius"]
            with np.errstate(over="ignore"):
                low, high = value - radius, value + radius  # equal if the radius is below rounding
        if name.endswith(("low", "center")) and not (low < high).all():
            raise ArgumentError("the range of the actions of the policy is empty")


def _shapes(described: Mapping[str, Any], parameters: Parameters, columns: Columns) -> Shapes:
    """Return the shape of each parameter that a policy needs."""
    d_a = len(columns.actions)
    match described:
        case {"kind": "quantized"}:
            return _law_shapes({"kind": "mlp"}, parameters, columns, "policy.")
        case {"kind": "deviation", "base": base, "policy": policy}:
            laws = _law_shapes(base, parameters, columns, "base.")
            return {"limit": (d_a,)} | laws | _law_shapes(policy, parameters, columns, "policy.")
        case {"kind": "gaussian-mlp", "num_action_samples": int() | None}:
            return {"largest_std": (d_a,)} | _law_shapes({"kind": "mlp"}, parameters, columns, "", outputs=2)
        case {"kind": "gaussian", "mean": str() as mean, "num_action_samples": int() | None}:
            return {"std": (d_a,)} | _law_shapes({"kind": mean}, parameters, columns, "mean.")
    return _law_shapes(described, parameters, columns, "")


def _law_shapes(
    described: Any, parameters: Parameters, columns: Columns, prefix: str, *, outputs: int = 1
) -> Shapes:
    """Return the shapes of a linear law, formulas, or a network with so many outputs for each action."""
    d_f, d_a, found = len(columns.features), len(columns.actions), Shapes()

    def size_of(name: str) -> int:
        return parameters[f"{prefix}{name}"].size if f"{prefix}{name}" in parameters else 0

    match described:
        case {"kind": "linear"}:
            is_diagonal = d_a == d_f and parameters.get(f"{prefix}gain", np.zeros((0, 0))).ndim == 1
            found = {"gain": (d_a,) if is_diagonal else (d_a, d_f)}
        case {"kind": "formula"}:
            law = Fields(described, "the policy")
            gains = law.texts("gains")
            FormulaLaw.of(columns, law.each("formulas", Fields.text), gains)
            count = len(gains)
            found = {"low": (d_a,), "high": (d_a,), "scales": (count,), "raw": (count,)}
        case {"kind": "mlp"}:
            h, out = size_of("network.hidden.bias"), outputs * d_a
            found = {"network.hidden.weight": (h, d_f), "network.hidden.bias": (h,)}
            found |= {"network.output.weight": (out, h), "network.output.bias": (out,)}
            found |= {"network.standardizer.mean": (d_f,), "network.standardizer.std": (d_f,)}
            found |= {"action_range.center": (d_a,), "action_range.radius": (d_a,)}
        case _:
            raise ArgumentError(f"{described!r:.80} is no policy that is known")
    return {f"{prefix}{name}": shape for name, shape in found.items()}
