"""Charts: local polynomials around centres, from statistics of groups of rows that add up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg.models._excitation import Excitation, local_uncertainty, noise_share, scatter
from nopg.models._global_fit import GlobalFit
from nopg.models._regression_rows import RegressionRows, design
from nopg.neighbors import neighbor_search

__all__ = ["ChartShape", "Charts", "farthest_points", "kernel_weights"]

_MOST_CHARTS = 2_000
# Charts within the radius of one; more hardly differ from their neighbours.
_CHARTS_IN_RADIUS = 30
# Largest number of entries of the statistics of all groups.
_LARGEST_STATISTICS = 3e7
# Rows from which radii are computed; with more rows a chart holds more of them.
_MOST_REFERENCE_ROWS = 10_000
_NUMBERS_AT_ONCE = 1 << 23
_CHARTS_AT_ONCE = 256
# A chart is constant beyond its rows, from this share of their extent on.
_MARGIN = 0.1
_TINY = 1e-9
# A part with a larger share of the groups uses the radii of a fit to all groups.
_LARGE_PART = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class ChartShape:
    """The settings of the local polynomials of some targets.

    Attributes:
        used: Which inputs are regressors, shape (d,).
        metric: Weight of each input in distances, 0 for an input in which charts are not local, shape (d,).
        degree: 1 or 2.
        num_neighbors: Reference rows within the radius of a chart.
        ridge: Penalty on the local coefficients, relative to the weight of the rows; infinite if there is
            a global fit only.
        global_degree: Degree of the polynomial over all inputs that charts add to, 1 or 2.
    """

    used: Tensor
    metric: Tensor
    degree: int
    num_neighbors: int
    ridge: float
    global_degree: int = 1

    @property
    def key(self) -> tuple[object, ...]:
        """A hashable value, equal for equal shapes."""
        used, metric = tuple(self.used.tolist()), tuple(self.metric.tolist())
        return used, metric, self.degree, self.num_neighbors, self.ridge, self.global_degree

    @property
    def num_coefficients(self) -> int:
        """p, the number of monomials of one target."""
        d = int(self.used.sum())
        return 1 + d + (d * (d + 1) // 2 if self.degree == 2 else 0)

    @property
    def is_local(self) -> bool:
        """Whether there are charts beside the global fit."""
        return math.isfinite(self.ridge)


def kernel_weights(squared: Tensor, radius: Tensor) -> Tensor:
    """Return (1 − d²/r²)² within the radius, else 0."""
    share = squared / radius.square().clamp(min=torch.finfo(torch.float64).tiny)
    return (1.0 - share).clamp(min=0.0).square()


class Charts:
    """y(x) = b·features(x) + Σ_c w_c(x) p_c(x − x_c): a global fit, and local polynomials of its residual.

    A fit to a part of the rows uses wider charts, which hold about as many rows as those of a fit to all: its
    error is larger, the bias included.

    Args:
        rows: Inputs and targets.
        columns: The targets to predict.
        shape: Settings of the polynomials.
        excitation: What the rows tell apart over all.

    Attributes:
        centers: x_c, shape (C, d).
        uncertainty: Covariance of the slopes by all inputs, whether or not they are regressors: the sum over
            the targets, each in units of its spread, and inputs in theirs, shape (C, d, d).
        unexplained: Variance that the global fit leaves of each target, in units of its spread, shape (t,).
        noise: Standard deviation of the residual of each target at each chart, shape (C, t); (1, t) if there
            are no charts.
        statistics: Σ wκφφᵀ (G, C, p, p) and Σ wκφ(y, features)ᵀ (G, C, p, t + q) of every group and chart,
            once with the radii for all rows and once with those for parts.
    """

    def __init__(
        self, rows: RegressionRows, columns: list[int], shape: ChartShape, excitation: Excitation
    ) -> None:
        self.rows, self.columns, self.shape, self.space = rows, columns, shape, rows.space
        self.regressors = shape.used.nonzero()[:, 0]
        self._global = GlobalFit.of(rows, shape.used, shape.global_degree, columns)
        residual = self._global.residual(rows, columns)
        self.unexplained = noise_share(residual, rows.spread[columns])
        if shape.is_local:
            gram = self._sum_statistics(self._place_charts())
            self.uncertainty = self._slope_uncertainty(gram, excitation)
        else:
            self.centers, self.noise = rows.inputs[:0], residual[None]

    def _place_charts(self) -> Tensor:
        """Set centres, radii and scales of the charts; return the rows as points of the metric."""
        rows, shape = self.rows, self.shape
        points = self.space.embed(rows.inputs, shape.metric)
        few = rows.sample[:_MOST_REFERENCE_ROWS]
        p, width = shape.num_coefficients, len(self.columns) + self._global.features.shape[1]
        apart = math.ceil(_CHARTS_IN_RADIUS * len(few) / max(shape.num_neighbors, 1))
        fitting = int(_LARGEST_STATISTICS / (2 * rows.num_groups * p * (p + width)))
        most = min(_MOST_CHARTS, max(min(apart, fitting), 50))
        chosen = few[farthest_points(points[few], most)]
        self.centers = rows.inputs[chosen]
        self._points = points[chosen]
        self.tree = cKDTree(self._points.numpy())
        self.radius = _radii(points, few, chosen, rows.groups, shape.num_neighbors)
        local = shape.metric[self.regressors]
        scale = torch.where(local > 0, local, self.radius[:, None])
        self.scale = scale / self.radius[:, None]  # (C, d_r): offsets within the radius are at most 1
        return points

    def _sum_statistics(self, points: Tensor) -> Tensor:
        """Set the statistics of all charts, the box of their rows and their noise.

        Returns Σ wκ oo' (C, d, d) of the offsets o of all inputs from their mean in a chart.
        """
        rows, p, G = self.rows, self.shape.num_coefficients, self.rows.num_groups
        targets = torch.cat([rows.targets[:, self.columns], self._global.features], dim=1)
        C, t = len(self.centers), targets.shape[1]
        self.statistics = [
            (torch.zeros(G, C, p, p, dtype=torch.float64), torch.zeros(G, C, p, t, dtype=torch.float64))
            for _ in range(2)
        ]
        d = len(self.regressors)
        self.low, self.high = torch.zeros(C, d, dtype=torch.float64), torch.zeros(C, d, dtype=torch.float64)
        noise = torch.zeros(C, len(self.columns), dtype=torch.float64)
        spread = torch.zeros(C, *2 * (rows.inputs.shape[1],), dtype=torch.float64)
        tree = neighbor_search(points)
        local_inputs = max(int((self.shape.metric > 0).sum()), 1)
        radii = (self.radius, 2.0 ** (1.0 / local_inputs) * self.radius)
        counts = tree.count_within(self._points, radii[1])
        global_fit = self._global.coefficients(torch.ones(1, G, dtype=torch.bool))[0]
        for some in _chunks(counts, p):
            near_distance, near = tree.nearest(self._points[some], int(counts[some].max()))
            near = near.long()
            squared, w = near_distance.square(), rows.weights[near]
            kappa, wide = (kernel_weights(squared, radius[some, None]) * w for radius in radii)
            apart = self.space.offsets(self.centers[some][:, None], rows.inputs[near])
            spread[some] = scatter(apart, kappa)
            offsets = apart[..., self.regressors] * self.scale[some][:, None]
            inside = (kappa > 0)[:, :, None]
            self.low[some] = torch.where(inside, offsets, math.inf).amin(dim=1)
            self.high[some] = torch.where(inside, offsets, -math.inf).amax(dim=1)
            phi = design(offsets, self.shape.degree)
            y = targets[near]
            for g, (mine, there) in enumerate(_members(rows.groups[near], wide > 0, G)):
                own_phi, own_y = phi[mine], y[mine]
                for weights, (gram, moment) in zip((kappa, wide), self.statistics, strict=True):
                    weighted = own_phi * (weights[mine] * there)[:, :, None]
                    gram[g, some] = weighted.mT @ own_phi
                    moment[g, some] = weighted.mT @ own_y
            narrow, broad = (
                self._residual_variance(phi, y, weights, some=some, fit=global_fit, statistics=statistics)
                for weights, statistics in zip((kappa, wide), self.statistics, strict=True)
            )
            # Bias grows with the radius, noise does not: the residual variance is n² + m² at r and n² + q·m²
            # at the wider radius, of which n² is noise.
            q = 2.0 ** (2.0 * (self.shape.degree + 1) / local_inputs)
            noise[some] = ((q * narrow - broad) / (q - 1.0)).clamp(min=0.0)
        extent = self.high - self.low
        self.low, self.high = self.low - _MARGIN * extent, self.high + _MARGIN * extent
        self.noise = noise.sqrt()
        return spread / rows.weights.mean()  # copies of rows tell nothing new

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

    def _residual_variance(
        self,
        phi: Tensor,
        y: Tensor,
        kappa: Tensor,
        *,
        some: Tensor,
        fit: Tensor,
        statistics: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Return the residual variance (c, t) of charts, corrected for their degrees of freedom."""
        grams, moments = statistics
        gram, t = grams[:, some].sum(dim=0), len(self.columns)
        moment = self._residual_moments(moments[:, some].sum(dim=0), fit)
        penalized = gram + torch.diag_embed(self._penalty(gram[:, 0, 0]).expand(-1, gram.shape[1]))
        both: Tensor = torch.linalg.solve(penalized, torch.cat([moment, gram], dim=2))
        left = y[:, :, :t] - y[:, :, t:] @ fit - phi @ both[:, :, :t]
        absorbed = both[:, :, t:].diagonal(dim1=1, dim2=2).sum(dim=1)
        total = kappa.sum(dim=1)
        effective = total.square() / kappa.square().sum(dim=1)
        correction = effective / (effective - absorbed).clamp(min=0.1 * effective)
        squares: Tensor = torch.einsum("ck,ckt->ct", kappa, left.square())
        return squares * (correction / total)[:, None]

    def _penalty(self, weight: Tensor) -> Tensor:
        return (self.shape.ridge * weight)[:, None]

    def _residual_moments(self, moment: Tensor, fit: Tensor) -> Tensor:
        """Return the moments (…, p, t) of the residual of the global fit (q, t)."""
        t = len(self.columns)
        return moment[..., :t] - moment[..., t:] @ fit

    def coefficients(self, kept: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return global (P, q, t) and local (P, C, p, t) coefficients from parts (P, G) of the groups.

        The local ones are None if there are no charts.
        """
        everywhere = self._global.coefficients(kept)
        if not self.shape.is_local:
            return everywhere, None
        shares = kept.double()
        C, p, t = len(self.centers), self.shape.num_coefficients, len(self.columns)
        coefficients = torch.empty(len(kept), C, p, t, dtype=torch.float64)
        for number, share in enumerate(shares):
            grams, moments = self.statistics[0 if float(share.mean()) > _LARGE_PART else 1]
            least = _TINY * grams[:, :, 0, 0].sum(dim=0)
            gram = torch.einsum("g,gcpq->cpq", share, grams)
            moment = self._residual_moments(torch.einsum("g,gcpt->cpt", share, moments), everywhere[number])
            penalty = self._penalty(gram[:, 0, 0]) + least[:, None]
            coefficients[number] = torch.linalg.solve(gram + torch.diag_embed(penalty.expand(-1, p)), moment)
        return everywhere, coefficients


def _radii(points: Tensor, few: Tensor, chosen: Tensor, groups: Tensor, count: int) -> Tensor:
    """Return the distance of each chosen row to the `count`-th nearest of the few rows in other groups."""
    radii = []
    for some in chosen.split(_CHARTS_AT_ONCE):
        distances = torch.cdist(points[some], points[few])
        own = groups[some][:, None] == groups[few]
        others = distances.masked_fill(own, math.inf)
        K = min(count, int((~own).sum(dim=1).min())) or 1
        nearest = others if bool(others.isfinite().any(dim=1).all()) else distances
        radii.append(nearest.kthvalue(K, dim=1).values)
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


def _members(
    groups: Tensor, inside: Tensor, num_groups: int
) -> Iterator[tuple[tuple[Tensor, Tensor], Tensor]]:
    """Yield for each group the indices (c, 1), (c, k) of its rows inside charts, and whether there is one.

    Args:
        groups: The group of each row near each chart, shape (c, K).
        inside: Whether the row is inside, shape (c, K).
        num_groups: G.
    """
    groups = torch.where(inside, groups, num_groups)
    order, charts = groups.argsort(dim=1, stable=True), torch.arange(len(groups))[:, None]
    begin = torch.zeros(len(groups), 1, dtype=torch.long)
    for g in range(num_groups):
        count = (groups == g).sum(dim=1, keepdim=True)
        place = torch.arange(int(count.max()))
        there = place < count
        yield (charts, order[charts, torch.where(there, begin + place, 0)]), there
        begin = begin + count


def _chunks(counts: Tensor, coefficients: int) -> list[Tensor]:
    """Return the charts in chunks of similar counts with a bounded number of (row, coefficient) pairs."""
    order = counts.argsort(stable=True)
    parts, begin = [], 0
    while begin < len(order):
        end = begin + 1
        while (
            end < len(order)
            and (end + 1 - begin) * int(counts[order[end]]) * coefficients <= _NUMBERS_AT_ONCE
        ):
            end += 1
        parts.append(order[begin:end])
        begin = end
    return parts
