"""The controller in a bundle: columns, policy and support, read and checked without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

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
    parameters: Mapping[str, Array]
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
        check_policy(policy, parameters, columns)
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
