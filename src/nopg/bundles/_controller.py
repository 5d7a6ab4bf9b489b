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
from nopg.bundles._policy import check_policy
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
        parameters: The parameters of the policy by name, as float64; `check_policy` has checked them.
        support: Where the data are.
        place: The name of the document, for messages.
        file: What it was read from; None if it was changed since.
    """

    columns: Columns
    policy: Mapping[str, Any]
    parameters: Mapping[str, Array]
    support: Support
    place: str
    file: Bundle | None = None

    @property
    def sha256(self) -> str | None:
        """Hash of the file it was read from, as `sha256sum` prints it; None if there is none."""
        return None if self.file is None else self.file.sha256


def read_controller(bundle: Bundle) -> SavedController:
    """Return the columns, the policy and the support of a bundle.

    They are checked against each other, as are declared bounds and logged actions.
    """
    fields, arrays = bundle.document(CONTROLLER), bundle.arrays(CONTROLLER)
    columns, policy = _columns(fields.object("schema")), fields.object("policy")
    parameters = {name[7:]: value for name, value in arrays.items() if name.startswith("policy.")}
    for name, value in parameters.items():
        if not np.issubdtype(value.dtype, np.floating) or not np.isfinite(value).all():
            raise bundle.refuse(CONTROLLER, f"holds numbers that are not finite in policy.{name}")
        parameters[name] = value.astype(np.float64)
    place = f"{bundle.path}: {CONTROLLER}"
    check_policy(policy.values, parameters, columns, place)
    logged = fields.object("logged")
    _check_bounds(columns, {name: logged.interval(name) for name in logged.names}, fields.place)
    _check_levels(columns, policy, parameters, fields.place)
    support = read_support(fields.object("support"), arrays, columns, bundle, CONTROLLER)
    return SavedController(columns, policy.values, parameters, support, place, bundle)


def _columns(fields: Fields) -> Columns:
    states, actions = fields.texts("states"), fields.texts("actions")
    names, derived = (*states, *actions), _values(fields, "derived", Fields.texts)
    if not states or not actions or len(set(names)) < len(names):
        raise BundleError(f"{fields.place}: the columns are {names}; there must be some, and distinct ones")
    if wrong := [name for name, formulas in derived.items() if len(formulas) != 2]:
        raise BundleError(f"{fields.place}: the column {wrong[0]!r} needs two formulas, initial and update")
    try:
        return Columns(
            states,
            actions,
            fields.numbers("angles"),
            _values(fields, "units", Fields.text),
            _values(fields, "bounds", Fields.interval),
            fields.text("reward") if fields.has("reward") else None,
            {name: Derived(*formulas) for name, formulas in derived.items()},
            cast(dict[str, Exogenous], _values(fields, "exogenous", Fields.text)),
            fields.number("interval") if fields.has("interval") else None,
            _values(fields, "hold", Fields.integer),
            _values(fields, "levels", Fields.sequence),
        )
    except (DataError, ArgumentError) as error:
        raise BundleError(f"{fields.place}: {error}") from None


def _values(fields: Fields, name: str, read: Callable[[Fields, str], T]) -> dict[str, T]:
    """Return an object of values of one type by name; empty if there is none."""
    inner = fields.object(name) if fields.has(name) else Fields({}, fields.place)
    return {key: read(inner, key) for key in inner.names}


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
    found: dict[str, tuple[float, ...]] = {}
    if policy.values.get("kind") == "quantized":
        having = zip(columns.actions, parameters["levels"], parameters["discrete"], strict=True)
        found = {name: tuple(np.unique(row).tolist()) for name, row, discrete in having if discrete}
    if found != dict(columns.levels):
        raise BundleError(
            f"{place}: the declared levels are {dict(columns.levels)}, those of the policy {found}; a "
            "controller takes declared levels alone. Train it with them"
        )
