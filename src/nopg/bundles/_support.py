"""Where the data of a controller are, as arrays of a bundle, and back from arrays that are not trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._first_features import FirstFeatures
from nopg._support import ChartSupport, FitVariance, Support
from nopg.bundles._bundle import Array, Bundle
from nopg.bundles._fields import Fields
from nopg.errors import BundleError

Numbers = npt.NDArray[np.float64]

_MOST_PARTS = 1_000


def support_document(support: Support) -> dict[str, Any]:
    """Return the plain values of a support."""
    return {
        "inside": support.inside,
        "slope": support.slope,
        "charts": len(support.charts),
        "fits": len(support.fits),
    }


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
    if not fields.has("charts"):
        raise BundleError(
            f"{fields.place}: an older nopg saved this controller with another measure of what lies outside "
            "the data; train again on the same data"
        )
    read = _Reader(arrays, columns, bundle, member)
    counts = fields.integer("charts"), fields.integer("fits")
    if max(counts) > _MOST_PARTS:
        raise read.refuse("a support of too many parts")
    low, high, margin = (read.limits(name) for name in ("low", "high", "margin"))
    if not (low <= high).all() or not (np.isfinite(margin) & (margin > 0)).all():
        raise read.refuse("a logged range whose ends or margins are in the wrong order")
    slope = fields.number("slope")
    if not slope > 0:
        raise read.refuse("a support whose log-odds do not rise")
    return Support(
        low,
        high,
        margin,
        tuple(read.charts(f"charts{k}") for k in range(counts[0])),
        tuple(read.fit(f"fits{k}") for k in range(counts[1])),
        fields.number("inside"),
        slope,
    )


class _Reader:
    """The parts of a support, each checked against the columns."""

    def __init__(self, arrays: Mapping[str, Array], columns: Columns, bundle: Bundle, member: str) -> None:
        self._arrays, self._bundle, self._member = arrays, bundle, member
        names = (*columns.states, *columns.actions)
        self._periods = np.array([columns.angles.get(name, 0.0) for name in names])
        self._size = len(names)

    def refuse(self, what: str) -> BundleError:
        return self._bundle.refuse(self._member, f"holds {what}")

    def limits(self, name: str) -> Numbers:
        """Return one number per input, which may be infinite."""
        values = self._typed(name)
        if values.shape != (self._size,) or np.isnan(values).any():
            raise self.refuse(f"a support that does not fit the columns in {name}")
        return values

    def charts(self, name: str) -> ChartSupport:
        centers, radii, weights = (self._finite(f"{name}.{one}") for one in ("centers", "radii", "weights"))
        covariance, d = self._finite(f"{name}.covariance"), self._size
        C = len(radii)
        shapes = centers.shape, radii.shape, weights.shape, covariance.shape
        if C == 0 or shapes != ((C, d), (C,), (d,), (C, d, d)):
            raise self.refuse(f"a support that does not fit the columns in {name}")
        if not (radii > 0).all() or not (weights >= 0).all():
            raise self.refuse(f"charts of radii or weights that are not positive in {name}")
        found = ChartSupport(centers, radii, covariance, weights, self._periods)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if not np.isfinite(found.places).all() or not np.isfinite(1.0 / np.square(radii)).all():
                raise self.refuse(f"charts whose weights or radii are out of range in {name}")
        return found

    def fit(self, name: str) -> FitVariance:
        columns, origin, units, center, covariance = (
            self._finite(f"{name}.{one}") for one in ("columns", "origin", "units", "center", "covariance")
        )
        q, total = len(columns), len(center)
        expected = [k for k in range(self._size) for _ in range(2 if self._periods[k] else 1)]
        fits = columns.tolist() == [k for k in expected if k in columns]
        shapes = columns.shape, origin.shape, units.shape, center.shape, covariance.shape
        if (
            not fits
            or shapes != ((q,), (q,), (q,), (total,), (total, total))
            or total not in {q, q + q * (q + 1) // 2}
        ):
            raise self.refuse(f"a support that does not fit the columns in {name}")
        if not (units > 0).all():
            raise self.refuse(f"units that are not positive in {name}")
        return FitVariance(FirstFeatures(columns.astype(np.int64), origin, units), center, covariance)

    def _finite(self, name: str) -> Numbers:
        values = self._typed(name)
        if not np.isfinite(values).all():
            raise self.refuse(f"numbers that are not finite in {name}")
        return values

    def _typed(self, name: str) -> Numbers:
        value = self._arrays.get(f"support.{name}")
        if value is None or value.dtype != np.float64 or value.ndim == 0:
            raise self.refuse(f"no {name} of a support, or something else there")
        return value
