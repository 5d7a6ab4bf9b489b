"""Where the data of a controller are, as arrays of a bundle, and back from arrays that are not trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._support import ChartSupport, FirstFeatures, FitVariance, Support
from nopg.bundles._bundle import Array, Bundle
from nopg.bundles._fields import Fields

Numbers = npt.NDArray[np.float64]

_MOST_PARTS = 1_000


def support_document(support: Support) -> dict[str, Any]:
    """Return the plain values of a support."""
    counts = {"charts": len(support.charts), "fits": len(support.fits)}
    return {"inside": support.inside, "slope": support.slope, **counts}


def support_arrays(support: Support) -> dict[str, Array]:
    """Return the arrays of a support by name."""
    found: dict[str, Array] = {name: getattr(support, name) for name in ("low", "high", "margin")}
    for k, charts in enumerate(support.charts):
        for name in ("centers", "radii", "covariance", "weights"):
            found[f"charts{k}.{name}"] = getattr(charts, name)
    for k, fit in enumerate(support.fits):
        first = fit.first
        found[f"fits{k}.columns"] = first.columns.astype(np.float64)
        found[f"fits{k}.origin"], found[f"fits{k}.units"] = first.origin[:, 0], first.units[:, 0]
        found[f"fits{k}.center"], found[f"fits{k}.covariance"] = fit.center, fit.covariance
    return {f"support.{name}": np.ascontiguousarray(values) for name, values in found.items()}


def read_support(
    fields: Fields, arrays: Mapping[str, Array], columns: Columns, bundle: Bundle, member: str
) -> Support:
    """Return the support of a controller with these columns; what does not fit together is refused.

    Args:
        fields: What `support_document` returned.
        arrays: Of the member, with those of `support_arrays`.
        columns: Of the controller.
        bundle: For messages.
        member: Name of the arrays, for messages.
    """
    read = _Reader(arrays, columns, bundle, member)
    num_charts, num_fits = fields.integer("charts"), fields.integer("fits")
    read.require(max(num_charts, num_fits) <= _MOST_PARTS, "a support of too many parts")
    low, high = (read.array(name, read.size, finite=False) for name in ("low", "high"))
    margin = read.array("margin", read.size)
    read.require((low <= high).all() and (margin > 0).all(), "a logged range in the wrong order")
    read.require(fields.number("slope") > 0, "a support whose log-odds do not rise")
    charts = tuple(read.charts(f"charts{k}") for k in range(num_charts))
    fits = tuple(read.fit(f"fits{k}") for k in range(num_fits))
    return Support(low, high, margin, charts, fits, fields.number("inside"), fields.number("slope"))


class _Reader:
    """The parts of a support, each checked against the columns."""

    def __init__(self, arrays: Mapping[str, Array], columns: Columns, bundle: Bundle, member: str) -> None:
        self._arrays, self._bundle, self._member = arrays, bundle, member
        names = (*columns.states, *columns.actions)
        self._periods = np.array([columns.angles.get(name, 0.0) for name in names])
        self.size = len(names)

    def require(self, fits: object, what: str) -> None:
        if not fits:
            raise self._bundle.refuse(self._member, f"holds {what}")

    def array(self, name: str, *shape: int, finite: bool = True) -> Numbers:
        """Return numbers of a shape, finite or at least no NaN."""
        value = self._arrays.get(f"support.{name}")
        if value is None or value.dtype != np.float64 or value.shape != shape:
            why = f"holds a support that does not fit the columns in {name}"
            raise self._bundle.refuse(self._member, why)
        self.require(not np.isnan(value).any(), f"numbers that are none in {name}")
        self.require(not finite or np.isfinite(value).all(), f"numbers that are not finite in {name}")
        return value

    def count(self, name: str) -> int:
        value = self._arrays.get(f"support.{name}")
        return 0 if value is None else value.size

    def charts(self, name: str) -> ChartSupport:
        C, d = self.count(f"{name}.radii"), self.size
        centers, radii = self.array(f"{name}.centers", C, d), self.array(f"{name}.radii", C)
        covariance, weights = self.array(f"{name}.covariance", C, d, d), self.array(f"{name}.weights", d)
        found = ChartSupport(centers, radii, covariance, weights, self._periods)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            usable = np.isfinite(found.places).all() and np.isfinite(1.0 / np.square(radii)).all()
        positive = C > 0 and (radii > 0).all() and (weights >= 0).all()
        self.require(usable and positive, f"charts of radii or weights that are out of range in {name}")
        return found

    def fit(self, name: str) -> FitVariance:
        q, total = self.count(f"{name}.columns"), self.count(f"{name}.center")
        columns, origin, units = (self.array(f"{name}.{one}", q) for one in ("columns", "origin", "units"))
        center = self.array(f"{name}.center", total)
        covariance = self.array(f"{name}.covariance", total, total)
        inputs = [k for k in range(self.size) for _ in range(2 if self._periods[k] else 1) if k in columns]
        fits = columns.tolist() == inputs and total in {q, q + q * (q + 1) // 2}
        self.require(fits and (units > 0).all(), f"a support that does not fit the columns in {name}")
        return FitVariance(FirstFeatures(columns.astype(np.int64), origin, units), center, covariance)
