"""The controller in a bundle: columns, policy and support, read and checked without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from nopg._columns import Columns, Derived, Exogenous
from nopg._support import Support
from nopg.bundles._bundle import Array, Bundle
from nopg.bundles._fields import Fields
from nopg.bundles._support import read_support
from nopg.errors import ArgumentError, BundleError, DataError

CONTROLLER = "controller"
"""The name of its group."""

# Share of the logged range that may lie outside the bounds.
_ROUNDING = 1e-6

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SavedController:
    """Columns, policy and support of a saved controller.

    Attributes:
        columns: Names, angles, units and bounds of observations and actions.
        policy: The description of the policy.
        parameters: The parameters of the policy by name, finite numbers of any shape.
        support: Where the data are.
        place: The name of the document, for messages.
        bundle: SHA-256 of the file it was read from; None if it was read from none, or changed since.
    """

    columns: Columns
    policy: Mapping[str, Any]
    parameters: Mapping[str, Array]
    support: Support
    place: str
    bundle: str | None = None


def read_controller(bundle: Bundle) -> SavedController:
    """Return the columns, the policy and the support of a bundle.

    Columns and support are checked against each other, as are declared bounds and logged actions; the
    parameters are checked when the policy is built.
    """
    fields, arrays = bundle.document(CONTROLLER), bundle.arrays(CONTROLLER)
    columns, parameters = _columns(fields.object("schema")), _parameters(arrays, bundle)
    logged = _optional(fields, "logged", Fields.interval) or _range_of(parameters, columns.actions)
    policy = fields.object("policy")
    _check_bounds(columns, logged, fields.place)
    _check_levels(columns, policy, parameters, fields.place)
    return SavedController(
        columns,
        policy.values,
        parameters,
        read_support(fields.object("support"), arrays, columns, bundle, CONTROLLER),
        f"{bundle.path}: {CONTROLLER}",
        bundle.sha256,
    )


def _columns(fields: Fields) -> Columns:
    states, actions = fields.texts("states"), fields.texts("actions")
    units, bounds = fields.object("units"), fields.object("bounds")
    names = (*states, *actions)
    if not states or not actions or len(set(names)) < len(names):
        raise BundleError(f"{fields.place}: the columns are {names}; there must be some, and distinct ones")
    try:
        return Columns(
            states,
            actions,
            fields.numbers("angles"),
            {name: units.text(name) for name in units.names},
            {name: bounds.interval(name) for name in bounds.names},
            fields.text("reward") if fields.has("reward") else None,
            _derived(fields),
            cast(dict[str, Exogenous], _optional(fields, "exogenous", Fields.text)),
            fields.number("interval") if fields.has("interval") else None,
            _optional(fields, "hold", Fields.integer),
            _optional(fields, "levels", Fields.sequence),
        )
    except (DataError, ArgumentError) as error:
        raise BundleError(f"{fields.place}: {error}") from None


def _optional(fields: Fields, name: str, read: Callable[[Fields, str], T]) -> dict[str, T]:
    """Return an object of values of one type by name; empty if there is none."""
    inner = fields.object(name) if fields.has(name) else Fields({}, fields.place)
    return {key: read(inner, key) for key in inner.names}


def _derived(fields: Fields) -> dict[str, Derived]:
    found = _optional(fields, "derived", Fields.texts)
    if wrong := [name for name, formulas in found.items() if len(formulas) != 2]:
        raise BundleError(f"{fields.place}: the column {wrong[0]!r} needs two formulas, initial and update")
    return {name: Derived(*formulas) for name, formulas in found.items()}


def _parameters(arrays: Mapping[str, Array], bundle: Bundle) -> dict[str, Array]:
    found = {name[7:]: value for name, value in arrays.items() if name.startswith("policy.")}
    for name, value in found.items():
        if not np.issubdtype(value.dtype, np.floating) or not np.isfinite(value).all():
            raise bundle.refuse(CONTROLLER, f"holds numbers that are not finite in policy.{name}")
    return found


def _range_of(parameters: Mapping[str, Array], actions: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Return the range of a network, by action; in bundles without the logged one it is the same."""
    for prefix in ("", "mean."):
        center, radius = (parameters.get(f"{prefix}action_range.{name}") for name in ("center", "radius"))
        if center is not None and radius is not None and center.shape == radius.shape == (len(actions),):
            ends = zip(center - radius, center + radius, strict=True)
            return {name: (float(low), float(high)) for name, (low, high) in zip(actions, ends, strict=True)}
    return {}


def _check_bounds(columns: Columns, logged: Mapping[str, tuple[float, float]], place: str) -> None:
    """Refuse bounds that logged actions did not keep: clipping is nothing that the training knew."""
    for name, (low, high) in logged.items():
        lowest, highest = columns.bounds.get(name, (-np.inf, np.inf))
        beyond = max(lowest - low, high - highest)
        if not beyond <= _ROUNDING * max(high - low, 0.0):  # NaN included
            raise BundleError(
                f"{place}: the declared bounds of {name!r} are [{lowest:g}, {highest:g}], but logged actions "
                f"lie between {low:.6g} and {high:.6g}, up to {beyond:.4g} outside; on the plant they would "
                "be clipped, in the training they were not. Correct the bounds or the log, and train again"
            )


def _check_levels(columns: Columns, policy: Fields, parameters: Mapping[str, Array], place: str) -> None:
    """Refuse a policy whose actions do not have the declared levels."""
    quantized = policy.has("kind") and policy.text("kind") == "quantized"
    if not columns.levels and not quantized:
        return
    rows = np.asarray(parameters.get("levels", np.zeros((0, 0))))
    discrete = np.asarray(parameters.get("discrete", np.zeros(0)))
    fits = quantized and rows.ndim == 2 and len(rows) == len(discrete) == len(columns.actions)
    found = {
        name: tuple(np.unique(row).tolist())
        for name, row, one in zip(columns.actions, rows, discrete, strict=False)
        if one
    }
    if not fits or found != dict(columns.levels):
        raise BundleError(
            f"{place}: the declared levels are {dict(columns.levels)}, those of the policy {found}; a "
            "controller takes declared levels alone. Train it with them"
        )
