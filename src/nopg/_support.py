"""The share of a state and an action that lies outside the data of a log, in numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

BLENDED = 4
"""Charts that a prediction blends; at the next nearest chart the weight of the last has fallen to 0."""
TINY = 1e-9
"""Least weight of a chart among those that are blended."""
# Log-odds of the unknown share: at the centre of a chart, and their slope by δ², δ the distance to the
# nearest charts in radii. Within a radius almost nothing is unknown, at three radii almost everything. The
# variance of a prediction, where slopes are uncertain, adds to δ².
LOG_ODDS_INSIDE, LOG_ODDS_SLOPE = math.log(1e-4), 2.0
# Largest number of differences in memory.
_MOST_AT_ONCE = 1 << 20

Numbers = npt.NDArray[np.float64]
Floats = npt.NDArray[np.floating[Any]]
Whole = npt.NDArray[np.integer]


class FirstFeatures:
    """The used inputs about their origin, in units; an angle is its cosine, then its sine.

    They are those of `InputSpace.features` without the constant, columns first and queries last.

    Args:
        columns: The input of each feature in rising order, an angle twice, shape (q,).
        origin: Of the input of each feature, 0 of an angle, shape (q,).
        units: Of the input of each feature, of an angle one radian, shape (q,).
    """

    def __init__(self, columns: npt.NDArray[np.int64], origin: Numbers, units: Numbers) -> None:
        self.columns, self.origin, self.units = columns, origin[:, None], units[:, None]
        sine = np.diff(self.columns, prepend=-1) == 0
        self._first, self.sines = np.flatnonzero(~sine), np.flatnonzero(sine)

    def __len__(self) -> int:
        return len(self.columns)

    def at(self, x: Floats) -> tuple[Numbers, Numbers]:
        """Return features (q, m) at inputs (d, m), and their derivatives, (q, 1) if these are constant."""
        F: Numbers = (x[self.columns] - self.origin) / self.units
        rates: Numbers = 1.0 / self.units
        if len(self.sines):
            sines, cosines = self.sines, self.sines - 1
            cos, sin = np.cos(F[cosines]), np.sin(F[cosines])
            rates = np.repeat(rates, x.shape[1], axis=1)
            rates[cosines] *= -sin
            rates[sines] *= cos
            F[cosines], F[sines] = cos, sin
        return F, rates

    def add_slopes(self, by_input: Floats, by_feature: Floats) -> None:
        """Add to derivatives by the inputs (d, …), in place, those by features (q, …) times their rates."""
        by_input[self.columns[self._first]] += by_feature[self._first]
        if len(self.sines):
            by_input[self.columns[self.sines]] += by_feature[self.sines]


@dataclass(frozen=True, eq=False)
class ChartSupport:
    """δ² of the charts of one shape: distance in radii, and the uncertainty of slopes."""

    centers: Numbers  # Raw (s, a) of the charts, shape (C, d)
    radii: Numbers  # Of the charts in their metric, shape (C,)
    covariance: Numbers  # Of the slopes by raw inputs, in units of the tolerated variance, shape (C, d, d)
    weights: Numbers  # Of each raw input in distances, 0 of one in which the charts are not local, shape (d,)
    periods: Numbers  # Of each angle, 0 of any other input, shape (d,)

    @property
    def num_nearest(self) -> int:
        """Number of nearest charts that are looked for: those that are blended, and the next."""
        return min(BLENDED + 1, len(self.centers))

    @cached_property
    def places(self) -> Numbers:
        """The centres as points of the metric, shape (e, C)."""
        return embed(self.centers.T, self.weights, self.periods)

    def distance(self, x: Floats) -> Numbers:
        """Return δ² (m,) at inputs (d, m)."""
        rows = max(1, _MOST_AT_ONCE // max(self.places.size, BLENDED * self.covariance[0].size))
        if x.shape[1] <= rows:
            return self._distance(x)
        parts = [self._distance(x[:, start : start + rows]) for start in range(0, x.shape[1], rows)]
        return np.concatenate(parts)

    def _distance(self, x: Floats) -> Numbers:
        near, D = self._nearest(embed(x, self.weights, self.periods))
        own = near[: min(BLENDED, max(len(near) - 1, 1))]
        apart = x.T - self.centers[own]  # (k, m, d)
        short_way(apart, self.periods)
        bent = (self.covariance[own] @ apart[..., None])[..., 0]
        values = D[: len(own)] / self._squared_radii[own] + (bent * apart).sum(axis=-1)
        total: Numbers = (blend(D)[0] * values).sum(axis=0)
        return total

    def _nearest(self, points: Numbers) -> tuple[Whole, Numbers]:
        """Return the nearest charts of points (e, m) and their squared distances, both (k + 1, m)."""
        apart = points.T[:, :, None] - self.places  # (m, e, C)
        D = np.multiply(apart, apart, out=apart).sum(axis=1)
        row, K = np.arange(len(D))[:, None], self.num_nearest
        near = np.argpartition(D, K - 1, axis=1)[:, :K]
        near = near[row, np.argsort(D[row, near], axis=1)]
        return near.T, D[row, near].T

    @cached_property
    def _squared_radii(self) -> Numbers:
        return np.square(self.radii)


@dataclass(frozen=True, eq=False)
class FitVariance:
    """The variance of the predictions of a polynomial over all data from that of its coefficients."""

    first: FirstFeatures  # The features of degree 1
    center: Numbers  # Mean of all features, the constant left out, shape (q,); of degree 2 products follow
    covariance: Numbers  # Of the coefficients, shape (q, q)

    @property
    def degree(self) -> int:
        """Of the polynomial, 1 or 2."""
        return 1 if len(self.center) == len(self.first) else 2

    @cached_property
    def pairs(self) -> tuple[Whole, Whole]:
        """The two factors of each feature of degree 2."""
        one, other = np.triu_indices(len(self.first))
        return one, other

    def at(self, x: Floats, *, slopes: bool) -> tuple[Numbers, Numbers]:
        """Return the variance (m,) at inputs (d, m), and its derivative (d, m), or 0 if not requested."""
        F, rates = self.first.at(x)
        k, slope = len(F), np.zeros(x.shape)
        one, other = self.pairs
        features = np.concatenate([F, F[one] * F[other]]) if self.degree == 2 else F
        apart = features - self.center[:, None]
        bent = self.covariance @ apart
        value: Numbers = (apart * bent).sum(axis=0)
        if not slopes:
            return value, slope
        by_first = bent[:k]
        if self.degree == 2:
            by_product = np.zeros((k, *F.shape))
            by_product[one, other] = bent[k:]
            by_product[other, one] += bent[k:]  # a square counts twice
            by_first = by_first + (by_product * F).sum(axis=1)
        self.first.add_slopes(slope, 2.0 * rates * by_first)
        return value, slope


@dataclass(frozen=True, eq=False)
class Support:
    """Where the data of a log are: the log-odds l + b·(δ² + β² + σ²) of the unknown share at (s, a).

    δ² is the largest over the shapes of charts, β the distance beyond the logged range in margins, σ² the
    variance of the predictions of global fits in units of the tolerated one.
    """

    low: Numbers  # The lowest logged value of each input (s, a), shape (d,); −∞ where there is no limit
    high: Numbers  # The highest; ∞ where there is no limit
    margin: Numbers  # How far beyond them counts as one radius, shape (d,)
    charts: tuple[ChartSupport, ...]  # Of each shape that has some
    fits: tuple[FitVariance, ...]  # Variance of the global fits, by degree
    inside: float = LOG_ODDS_INSIDE  # l
    slope: float = LOG_ODDS_SLOPE  # b

    @property
    def num_charts(self) -> int:
        """Number of charts of all shapes."""
        return sum(len(one.centers) for one in self.charts)

    def log_odds(self, inputs: npt.ArrayLike) -> Numbers:
        """Return the log-odds (m,) of the unknown share at raw (s, a), shape (m, d)."""
        x = np.asarray(inputs, dtype=np.float64).T
        with np.errstate(over="ignore", invalid="ignore"):
            farthest = np.zeros(x.shape[1])
            for one in self.charts:
                farthest = np.maximum(farthest, one.distance(x))
            return self.inside + self.slope * (farthest + self.around(x)[0])

    def unknown(self, inputs: npt.ArrayLike) -> Numbers:
        """Return the unknown share (m,) at raw (s, a), shape (m, d); 1 where a number is too large."""
        return unknown_share(self.log_odds(inputs))

    def around(self, x: Floats, *, slopes: bool = False) -> tuple[Numbers, Numbers]:
        """Return β² + σ² (m,) at inputs (d, m), and its derivative (d, m), or 0 if not requested."""
        low, high, margin = self.low[:, None], self.high[:, None], self.margin[:, None]
        beyond = (x - np.minimum(np.maximum(x, low), high)) / margin
        value: Numbers = np.square(beyond).sum(axis=0)
        slope: Numbers = 2.0 * beyond / margin if slopes else np.zeros(x.shape)
        for one in self.fits:
            more, by_x = one.at(x, slopes=slopes)
            value, slope = value + more, slope + by_x
        return value, slope


def unknown_share(log_odds: Floats) -> Numbers:
    """Return the share of given log-odds; 1 where these are no number, since an input was too large."""
    with np.errstate(over="ignore"):
        share = 1.0 / (1.0 + np.exp(-log_odds))
    return np.where(np.isnan(log_odds), 1.0, share)


def short_way(apart: Any, periods: Any) -> None:
    """Take differences (…, d), array or tensor, the short way round where they have a period, in place."""
    for column, period in enumerate(periods.tolist()):
        if period:
            apart[..., column] -= period * (apart[..., column] / period).round()


def embed(x: Floats, weights: Numbers, periods: Numbers) -> Numbers:
    """Return inputs (d, m) as points (e, m) of a metric; an angle is a point of a circle."""
    rows = list[Numbers]()
    for k in np.flatnonzero(weights):
        if not periods[k]:
            rows.append(weights[k] * x[k])
            continue
        radian = periods[k] / (2 * math.pi)
        rows += [weights[k] * radian * np.cos(x[k] / radian), weights[k] * radian * np.sin(x[k] / radian)]
    return np.stack(rows) if rows else np.zeros((1, x.shape[1]))


def blend(D: Floats) -> tuple[Numbers, tuple[Numbers, Numbers] | None]:
    """Return the weights b/Σb (k, m) of charts, b = (1 − D/D_last)², from squared distances (k + 1, m).

    The second is what their derivative needs: D/D_last and −2(1 − D/D_last)/(D_last Σb); None for one chart.
    """
    if len(D) == 1:
        return np.ones_like(D), None
    last = np.maximum(D[-1:], np.finfo(np.float64).tiny)
    share = np.minimum(D[:-1] / last, 1.0)
    b = np.square(1.0 - share) + TINY
    total = b.sum(axis=0)
    return b / total, (share, -2.0 * (1.0 - share) / (last * total))
