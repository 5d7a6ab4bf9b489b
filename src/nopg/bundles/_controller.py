"""The controller in a file: columns, policy, and where its data are, read and checked without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from nopg._columns import Columns, Derived, Exogenous
from nopg._support import ChartSupport, FirstFeatures, FitVariance, Support
from nopg.bundles._bundle import Array, Bundle
from nopg.bundles._fields import Fields
from nopg.bundles._policies import Arrays, Policy, read_policy
from nopg.errors import ArgumentError, BundleError, DataError

CONTROLLER = "controller"  # the name of its group


@dataclass(frozen=True)
class SavedController:
    """Columns, policy and support of a saved controller.

    Attributes:
        columns: Names, angles, units and bounds of observations and actions.
        policy: The description of the policy.
        parameters: The parameters of the policy by name.
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

    @cached_property
    def law(self) -> Policy:
        """The policy in numpy."""
        return read_policy(self.policy, self.parameters, self.columns)


def controller_group(saved: SavedController) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the document and the arrays of a controller."""
    support = saved.support
    found: dict[str, Array] = {name: getattr(support, name) for name in ("low", "high", "margin")}
    for k, charts in enumerate(support.charts):
        for name in ("centers", "radii", "covariance", "weights"):
            found[f"charts{k}.{name}"] = getattr(charts, name)
    for k, fit in enumerate(support.fits):
        first = fit.first
        found[f"fits{k}.columns"] = first.columns.astype(np.float64)
        found[f"fits{k}.origin"], found[f"fits{k}.units"] = first.origin[:, 0], first.units[:, 0]
        found[f"fits{k}.center"], found[f"fits{k}.covariance"] = fit.center, fit.covariance
    arrays = {f"policy.{name}": value for name, value in saved.parameters.items()}
    counts = {"charts": len(support.charts), "fits": len(support.fits)}
    return {
        "schema": saved.columns.to_dict(),
        "policy": saved.policy,
        "support": {"inside": support.inside, "slope": support.slope, **counts},
    }, arrays | {f"support.{name}": value for name, value in found.items()}


def read_controller(bundle: Bundle) -> SavedController:
    """Return the columns, the policy and the support of a bundle, checked against each other."""
    fields, arrays = bundle.document(CONTROLLER), bundle.arrays(CONTROLLER)
    parts = {
        part: {name.removeprefix(part): one for name, one in arrays.items() if name.startswith(part)}
        for part in ("policy.", "support.")
    }
    try:
        columns = _columns(fields.object("schema"))
        support = _support(fields.object("support"), Arrays(parts["support."], "support"), columns)
        policy = fields.object("policy").values
        found = SavedController(columns, policy, parts["policy."], support, bundle)
        _ = found.law
    except (ArgumentError, DataError) as error:
        raise BundleError(f"{fields.place}: {error}; save the controller again") from None
    return found


def _columns(fields: Fields) -> Columns:
    states, actions = fields.texts("states"), fields.texts("actions")
    names, derived = (*states, *actions), fields.each("derived", Fields.texts)
    if not states or not actions or len(set(names)) < len(names):
        raise ArgumentError(f"the columns are {names}; there must be some, and distinct ones")
    if wrong := [name for name, formulas in derived.items() if len(formulas) != 2]:
        raise ArgumentError(f"the column {wrong[0]!r} needs two formulas, initial and update")
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


def _support(fields: Fields, arrays: Arrays, columns: Columns) -> Support:
    names = (*columns.states, *columns.actions)
    periods, d = np.array([columns.angles.get(name, 0.0) for name in names]), len(names)
    num_charts, num_fits = fields.integer("charts"), fields.integer("fits")
    low, high = (arrays.take(name, d, finite=False) for name in ("low", "high"))
    margin, slope = arrays.take("margin", d), fields.number("slope")
    arrays.require((low <= high).all() and (margin > 0).all(), "a logged range in the wrong order")
    arrays.require(slope > 0, "log-odds that do not rise")
    charts = tuple(_charts(arrays, f"charts{k}", periods) for k in range(num_charts))
    fits = tuple(_fit(arrays, f"fits{k}", periods) for k in range(num_fits))
    arrays.end()
    return Support(low, high, margin, charts, fits, fields.number("inside"), slope)


def _charts(arrays: Arrays, name: str, periods: Array) -> ChartSupport:
    C, d = arrays.shape(f"{name}.radii")[0], len(periods)
    shapes = {"centers": (C, d), "radii": (C,), "covariance": (C, d, d), "weights": (d,)}
    parts = {part: arrays.take(f"{name}.{part}", *shape) for part, shape in shapes.items()}
    found = ChartSupport(**parts, periods=periods)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        usable = np.isfinite(found.places).all() and np.isfinite(1.0 / np.square(found.radii)).all()
    positive = C > 0 and (found.radii > 0).all() and (found.weights >= 0).all()
    arrays.require(usable and positive, f"radii or weights that are out of range in {name}")
    return found


def _fit(arrays: Arrays, name: str, periods: Array) -> FitVariance:
    q, total = (arrays.shape(f"{name}.{part}")[0] for part in ("columns", "center"))
    columns, origin, units = (arrays.take(f"{name}.{part}", q) for part in ("columns", "origin", "units"))
    center, covariance = arrays.take(f"{name}.center", total), arrays.take(f"{name}.covariance", total, total)
    inputs = [k for k, period in enumerate(periods) for _ in range(2 if period else 1) if k in columns]
    fits = columns.tolist() == inputs and total in {q, q + q * (q + 1) // 2}
    arrays.require(fits and (units > 0).all(), f"features that do not fit the columns in {name}")
    return FitVariance(FirstFeatures(columns.astype(np.int64), origin, units), center, covariance)
