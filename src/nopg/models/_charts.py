"""Charts: local polynomials around centres, from sums over groups of rows."""

from __future__ import annotations

import copy
import math

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg._support import ChartSupport
from nopg.models._excitation import TOLERATED, Excitation, local_uncertainty, noise_share
from nopg.models._regression_rows import RegressionRows, RowBatch
from nopg.models._sums import (
    CHARTS_AT_ONCE,
    LEAST_RIDGE,
    ChartPlaces,
    ChartShape,
    ChartSums,
    GlobalFit,
    ridge_fit,
)

BlockSums = tuple[GlobalFit, ChartSums | None]
"""What charts are a function of, beside their places."""

# Charts of a shape, and those within the radius of one; more hardly differ from their neighbours.
_MOST_CHARTS, _CHARTS_IN_RADIUS = 2_000, 30
# Largest number of entries of the statistics of all groups.
_LARGEST_STATISTICS = 3e7
# Rows from which radii are computed; with more rows a chart holds more of them.
_MOST_REFERENCE_ROWS = 10_000
# By which a chart of parts of the rows holds more of all rows.
_WIDER = 2.0
# A chart is constant beyond its rows, from this share of their extent on.
_MARGIN = 0.1
# A part with a larger share of the groups uses the radii of a fit to all groups.
_LARGE_PART = 0.75


class Charts:
    """y(x) = b·features(x) + Σ_c w_c(x) p_c(x − x_c): a global fit, and local polynomials of its residual.

    A fit to a part of the rows uses wider charts, which hold about as many rows as those of a fit to all: its
    error is larger, the bias included. Charts are placed by all rows of a log, or by a sample of them.

    Attributes:
        centers: x_c, shape (C, d).
        uncertainty: Covariance of the slopes by all inputs, whether or not they are regressors: the sum over
            the targets, each in units of its spread, and inputs in theirs, shape (C, d, d).
        unexplained: Variance that the global fit leaves of each target, in units of its spread, shape (t,).
        noise: Standard deviation of the residual of each target at each chart, shape (C, t); (1, t) without
            charts.
        places: Where the charts lie; None if there are none.
        whole: Sums of the global fit.
        growth: By which the squared error grows with the squared distance from the rows; see `growth_of`.
        sums: Sums of all charts that were placed; None if there are none.
        filled_sums: Those of charts with rows, which alone are fitted; None if there are none.
    """

    def __init__(
        self, rows: RegressionRows, columns: list[int], shape: ChartShape, excitation: Excitation
    ) -> None:
        self.rows, self.columns, self.shape, self.space = rows, columns, shape, rows.space
        self.growth = 1.0
        self.regressors = shape.regressors
        whole, self.places = GlobalFit.of(rows, self._features(rows), columns), None
        if shape.is_local:
            self.places = self._place_charts(whole)
        self.set_sums(whole, None if self.places is None else ChartSums.of(self.places, rows), excitation)

    def with_sums(self, sums: BlockSums, excitation: Excitation | None) -> Charts:
        """Return charts at the same places from sums over other rows; see `set_sums`."""
        charts = copy.copy(self)
        charts.set_sums(*sums, excitation)
        return charts

    def without_sums(self) -> Charts:
        """Return the charts without the sums that they were fitted to, which take most of the memory."""
        charts = copy.copy(self)
        charts.sums = charts.filled_sums = None
        return charts

    def sums_of(self, rows: RowBatch) -> BlockSums:
        """Return sums over other rows."""
        whole = GlobalFit.of(rows, self._features(rows), self.columns, self.whole.baseline)
        if self.places is None:
            return whole, None
        return whole, ChartSums.empty(self.places, rows.num_groups).include(self.places, rows)

    def _features(self, rows: RowBatch) -> Tensor:
        return self.space.features(rows.inputs, self.shape.used, self.shape.global_degree)

    def set_sums(self, whole: GlobalFit, sums: ChartSums | None, excitation: Excitation | None) -> None:
        """Set everything that follows from sums, in place; without an excitation, no noise and no doubt."""
        self.whole, self.sums = whole, sums
        residual = whole.residual
        self.unexplained = noise_share(residual, self.rows.spread[self.columns])
        filled = None if sums is None else sums.filled.nonzero()[:, 0]
        if sums is None or self.places is None or filled is None or len(filled) == 0:
            self.filled_sums, self.centers, self.noise = None, self.rows.inputs[:0], residual[None]
            return
        # A chart without rows says nothing: other rows than those that placed it may leave some empty.
        self.filled_sums = sums = sums if len(filled) == len(sums.low) else sums.take(filled)
        places = self.places
        self.centers, self.radius, self.scale = (
            one[filled] for one in (places.centers, places.radii[0], places.scale)
        )
        self.tree = cKDTree(self.space.embed(self.centers, self.shape.metric).numpy())
        extent = sums.high - sums.low
        self.low, self.high = sums.low - _MARGIN * extent, sums.high + _MARGIN * extent
        if excitation is None:
            C, d = self.centers.shape
            self.noise = residual.new_zeros(C, len(residual))
            self.uncertainty = residual.new_zeros(C, d, d)
            return
        # Bias grows with the radius, noise does not: the residual variance is n² + m² at r and n² + q·m² at
        # the wider radius, of which n² is noise.
        q = _WIDER ** (2.0 * (self.shape.degree + 1) / self._local_inputs)
        narrow, broad = (self._residual_variance(sums, radius) for radius in (0, 1))
        self.noise = ((q * narrow - broad) / (q - 1.0)).clamp(min=0.0).sqrt()
        gram = sums.scatter * (whole.num_rows / whole.weight)  # copies of rows tell nothing new
        self.uncertainty = self._slope_uncertainty(gram, excitation)

    @property
    def support(self) -> ChartSupport:
        """Distances to these charts and the uncertainty of their slopes, of raw inputs."""
        units = self.space.units
        return ChartSupport(
            centers=self.centers.numpy(),
            radii=(self.radius / math.sqrt(self.growth)).numpy(),
            covariance=(self.uncertainty / (units[:, None] * units) / TOLERATED).numpy(),
            weights=(self.shape.metric / units).numpy(),
            periods=self.space.periods.numpy(),
        )

    @property
    def _local_inputs(self) -> int:
        """Number of inputs in which charts are local."""
        return max(int((self.shape.metric > 0).sum()), 1)

    def _place_charts(self, whole: GlobalFit) -> ChartPlaces:
        """Return centres, radii and scales of the charts."""
        rows, shape = self.rows, self.shape
        points = self.space.embed(rows.inputs, shape.metric)
        few = rows.sample[:_MOST_REFERENCE_ROWS]
        p, width = shape.num_coefficients, len(self.columns) + len(whole.baseline)
        apart = math.ceil(_CHARTS_IN_RADIUS * len(few) / max(shape.num_neighbors, 1))
        fitting = int(_LARGEST_STATISTICS / (2 * rows.num_groups * p * (p + width)))
        most = min(_MOST_CHARTS, max(min(apart, fitting), 50))
        chosen = few[farthest_points(points[few], most)]
        radius = _radii(points, few, chosen, rows.groups, shape.num_neighbors)
        local = shape.metric[self.regressors]
        scale = torch.where(local > 0, local, radius[:, None])
        return ChartPlaces(
            space=self.space,
            shape=shape,
            columns=self.columns,
            centers=rows.inputs[chosen],
            radii=torch.stack([radius, _WIDER ** (1.0 / self._local_inputs) * radius]),
            scale=scale / radius[:, None],  # (C, d_r): offsets within the radius are at most 1
            baseline=whole.baseline,
        )

    def _slope_uncertainty(self, gram: Tensor, excitation: Excitation) -> Tensor:
        """Return the covariance (C, d, d) of the slopes; see `uncertainty`.

        Beforehand a slope is that of the global fit, give or take what that fit leaves unexplained.
        """
        eye, total = torch.eye(gram.shape[1], dtype=torch.float64), torch.zeros_like(gram)
        for place, column in enumerate(self.columns):
            if self.rows.spread[column] > 0:
                left = self.unexplained[place]
                noise = noise_share(self.noise[:, place], self.rows.spread[column])
                local = (left - noise.mean()).clamp(min=0.0)
                everywhere = excitation.at(self.centers, excitation.uncertainty(left[None]))
                total += local_uncertainty(everywhere + local * eye, gram, noise)
        return total

    def _residual_variance(self, sums: ChartSums, radius: int) -> Tensor:
        """Return the residual variance (C, t) at a radius, corrected for degrees of freedom."""
        gram = sums.grams[radius].sum(dim=0)
        moment = self._residual_moments(sums.moments[radius].sum(dim=0), self.whole.baseline)
        both = ridge_fit(gram, torch.cat([moment, gram], dim=2), self._penalty(gram))
        t = len(self.columns)
        fit, absorbed = both[:, :, :t], both[:, :, t:].diagonal(dim1=1, dim2=2).sum(dim=1)
        left = sums.squares[radius] - (fit * (2.0 * moment - gram @ fit)).sum(dim=1)
        total, of_squares = sums.weights[:, radius]
        effective = total.square() / of_squares
        correction = effective / (effective - absorbed).clamp(min=0.1 * effective)
        variance: Tensor = left.clamp(min=0.0) * (correction / total)[:, None]
        return variance

    def _penalty(self, gram: Tensor) -> Tensor:
        """Return the penalty (C, p), a share of the weight of the rows."""
        return (self.shape.ridge * gram[:, 0, 0])[:, None].expand(-1, gram.shape[1])

    def _residual_moments(self, moment: Tensor, fit: Tensor) -> Tensor:
        """Return the moments (…, p, t) of the residual of the global fit (q, t)."""
        t = len(self.columns)
        return moment[..., :t] - moment[..., t:] @ fit

    def coefficients(self, kept: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return global (P, q, t) and local (P, C, p, t) coefficients from parts (P, G) of the groups.

        The local ones are None if there are no charts.
        """
        everywhere, sums = self.whole.coefficients(kept), self.filled_sums
        if sums is None:
            return everywhere, None
        parts = []
        for share, fit in zip(kept.double(), everywhere, strict=True):
            radius = 0 if float(share.mean()) > _LARGE_PART else 1
            grams, moments = sums.grams[radius], sums.moments[radius]
            least = LEAST_RIDGE * grams[:, :, 0, 0].sum(dim=0)
            gram = torch.einsum("g,gcpq->cpq", share, grams)
            moment = self._residual_moments(torch.einsum("g,gcpt->cpt", share, moments), fit)
            parts.append(ridge_fit(gram, moment, self._penalty(gram) + least[:, None]))
        return everywhere, torch.stack(parts)


def _radii(points: Tensor, few: Tensor, chosen: Tensor, groups: Tensor, count: int) -> Tensor:
    """Return the distance of each chosen row to the `count`-th nearest of the few rows in other groups."""
    radii = []
    for some in chosen.split(CHARTS_AT_ONCE):
        distances, own = torch.cdist(points[some], points[few]), groups[some][:, None] == groups[few]
        K = min(count, int((~own).sum(dim=1).min())) or 1
        if not bool(own.all(dim=1).any()):
            distances = distances.masked_fill(own, math.inf)
        radii.append(distances.kthvalue(K, dim=1).values)
    radius = torch.cat(radii) * (1.0 + 1e-6)
    return torch.where(radius > 0, radius, 1.0)


def farthest_points(points: Tensor, count: int, *, kept: int = 0) -> Tensor:
    """Return indices of up to `count` of the points (n, d): each is the farthest from those before it.

    The first `kept` points are always among them.
    """
    if len(points) <= count:
        return torch.arange(len(points))
    kept = max(min(kept, count), 1)
    chosen = torch.arange(count)
    distance = torch.cdist(points, points[:kept]).square().amin(dim=1)
    for number in range(kept, count):
        chosen[number] = distance.argmax()
        distance = torch.minimum(distance, (points - points[chosen[number]]).square().sum(dim=1))
    return chosen
