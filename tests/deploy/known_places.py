"""Supports by hand: known around one place, with an unknown share that is easily written out."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._support import LOG_ODDS_INSIDE, LOG_ODDS_SLOPE, ChartSupport, Support

AWKWARD_NAMES = (
    "Höhe des Behälters", 'a "quoted" \'name\'', "a */ int x; /*", "b\n#error", "c??/", "d\\",
    "<script>&amp;", "bell \x07 and \x00", "x" * 200, "lone \udc80", "€ 圧力", "]]>", "%s {0} $name",
)  # fmt: skip
"""Names of columns that some plant has, or that an enemy would choose."""


def known_around(columns: Columns, place: npt.ArrayLike, radius: float) -> Support:
    """Return a support with one chart at a state; actions do not count."""
    center, d_s = np.asarray(place, dtype=np.float64), len(columns.states)
    names = (*columns.states, *columns.actions)
    d = len(names)
    chart = ChartSupport(
        centers=np.concatenate([center, np.zeros(d - d_s)])[None],
        radii=np.array([radius]),
        covariance=np.zeros((1, d, d)),
        weights=np.array([1.0] * d_s + [0.0] * (d - d_s)),
        periods=np.array([columns.angles.get(name, 0.0) for name in names]),
    )
    return Support(np.full(d, -np.inf), np.full(d, np.inf), np.ones(d), (chart,), ())


def radii_at(unknown: float) -> float:
    """Return the distance in radii at which an unknown share is reached."""
    return math.sqrt((math.log(unknown / (1.0 - unknown)) - LOG_ODDS_INSIDE) / LOG_ODDS_SLOPE)
