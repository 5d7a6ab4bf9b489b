"""Points of raw inputs, an angle on its circle: features of a policy or of a fit, places among charts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._support import ChartSupport, FirstFeatures

Numbers = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

PLAIN, COSINE, SINE = range(3)


class Embedding(NamedTuple):
    """Coordinates scale·wave((x − origin)/unit) of raw inputs x, all arrays of shape (e,)."""

    columns: Whole  # the input of each coordinate; an angle gives its cosine, then its sine
    origins: Numbers  # 0 of an angle
    units: Numbers  # one radian of an angle
    waves: Whole  # `PLAIN`, `COSINE` or `SINE`
    scales: Numbers

    @classmethod
    def of_columns(cls, columns: Columns) -> Embedding:
        """Return the features (d_f,) of states (d_s,)."""
        periods = np.array([columns.angles.get(name, 0.0) for name in columns.states])
        return cls._of(periods, np.ones(len(periods)))

    @classmethod
    def of_charts(cls, charts: ChartSupport) -> Embedding:
        """Return the points of states and actions (d,) in the metric of charts; one that is 0 if all are."""
        found = cls._of(charts.periods, charts.weights)
        found = found._replace(scales=found.scales * np.where(found.waves == PLAIN, 1.0, found.units))
        used = np.flatnonzero(found.scales) if charts.weights.any() else [0]
        waves, scales = found.waves[used], found.scales[used]
        return cls(found.columns[used], found.origins[used], found.units[used], waves, scales)

    @classmethod
    def of_fit(cls, first: FirstFeatures) -> Embedding:
        """Return the features of degree 1 of states and actions (d,)."""
        waves = np.zeros(len(first), np.int64)
        waves[first.sines - 1], waves[first.sines] = COSINE, SINE
        columns = first.columns.astype(np.int64)
        return cls(columns, first.origin[:, 0], first.units[:, 0], waves, np.ones(len(first)))

    @classmethod
    def _of(cls, periods: Numbers, scales: Numbers) -> Embedding:
        columns = np.repeat(np.arange(len(periods)), 1 + (periods > 0))
        is_angle, is_sine = periods[columns] > 0, np.diff(columns, prepend=-1) == 0
        units = np.where(is_angle, periods[columns] / (2 * math.pi), 1.0)
        waves = np.where(is_angle, np.where(is_sine, SINE, COSINE), PLAIN)
        return cls(columns, np.zeros(len(columns)), units, waves, scales[columns])

    def __call__(self, x: Numbers) -> Numbers:
        """Return the points (m, e) of raw inputs (m, d)."""
        points: Numbers = (x[:, self.columns] - self.origins) / self.units
        if self.waves.any():
            points = np.choose(self.waves, [points, np.cos(points), np.sin(points)])
        return points * self.scales
