"""Charts: local polynomials around centres, blended smoothly; statistics of groups of rows add up."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree

from nopg._typing import FloatArray, IntArray
from nopg.models._regression_rows import RegressionRows
from nopg.neighbors import neighbor_search

__all__ = ["ChartShape", "Charts", "design", "farthest_points", "kernel_weights"]

# Charts that a prediction blends; the next one is where the weight of the last has fallen to nothing.
_BLENDED = 4
_MOST_CHARTS = 2_000
# Numbers that the statistics of all groups may take.
_LARGEST_STATISTICS = 3e7
# Rows among which radii are found; with more rows a chart rests on more of them.
_MOST_REFERENCE_ROWS = 10_000
_NUMBERS_AT_ONCE = 1 << 23
_CHARTS_AT_ONCE = 256
# Beyond the rows that it rests on, by this share of their extent, a chart is flat.
_MARGIN = 0.1
_TINY = 1e-9
# With a larger ridge charts add nothing to the global fit, and how far the next one is does not matter.
_GLOBAL = 10.0
# A part with a larger share of the groups is fitted like all of them.
_MOST = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class ChartShape:
    """What the local polynomials of some targets look like.

    Attributes:
        used: Which inputs are regressors, shape (d,).
        metric: Weight of each input in distances, 0 where charts are not local in it, shape (d,).
        degree: 1 or 2.
        num_neighbors: Reference rows within the radius of a chart.
        ridge: Penalty on what a chart adds to the global linear fit, relative to the weight of its rows.
    """

    used: torch.Tensor
    metric: torch.Tensor
    degree: int
    num_neighbors: int
    ridge: float

    @property
    def key(self) -> tuple[object, ...]:
        """What two equal shapes have in common."""
        used, metric = tuple(self.used.tolist()), tuple(self.metric.tolist())
        return used, metric, self.degree, self.num_neighbors, self.ridge

    @property
    def num_coefficients(self) -> int:
        """p, of one target."""
        d = int(self.used.sum())
        return 1 + d + (d * (d + 1) // 2 if self.degree == 2 else 0)


def design(offsets: torch.Tensor, degree: int) -> torch.Tensor:
    """Return 1, the offsets (…, d) and, of degree 2, their products, shape (…, p)."""
    columns = [offsets.new_ones(*offsets.shape[:-1], 1), offsets]
    if degree == 2:
        one, other = torch.triu_indices(offsets.shape[-1], offsets.shape[-1])
        columns.append(offsets[..., one] * offsets[..., other])
    return torch.cat(columns, dim=-1)


def kernel_weights(squared: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
    """Return (1 − d²/r²)² within the radius, else 0."""
    share = squared / radius.square().clamp(min=torch.finfo(torch.float64).tiny)
    return (1.0 - share).clamp(min=0.0).square()


class Charts:
    """y(x) = b·features(x) + Σ_c w_c(x) p_c(x − x_c): a linear fit and local polynomials of what it misses.

    Args:
        rows: Inputs and targets.
        columns: Which targets are predicted.
        shape: Of the polynomials.

    A fit to a part of the rows rests on wider charts, which hold about as many rows as those of a fit to all:
    so it errs by more, also to the side to which charts are too stiff.

    Attributes:
        statistics: Σ wκφφᵀ (G, C, p, p) and Σ wκφ(y, features)ᵀ (G, C, p, t + q) of every group and chart,
            for all rows and for parts of them.
    """

    def __init__(self, rows: RegressionRows, columns: list[int], shape: ChartShape) -> None:
        self.rows, self.columns, self.shape, self.space = rows, columns, shape, rows.space
        self.regressors = shape.used.nonzero()[:, 0]
        points = self.space.embed(rows.inputs, shape.metric)
        few = rows.sample[:_MOST_REFERENCE_ROWS]
        p, t = shape.num_coefficients, len(columns)
        numbers = 2 * rows.num_groups * p * (p + t + 2 * int(shape.used.sum()) + 1)
        most = min(_MOST_CHARTS, max(int(_LARGEST_STATISTICS / numbers), 50))
        chosen = few[farthest_points(points[few], most)]
        self.centers = rows.inputs[chosen]
        self._points = points[chosen]
        self.tree = cKDTree(self._points.numpy())
        self.radius = _radii(points, few, chosen, rows.groups, shape.num_neighbors)
        local = shape.metric[self.regressors]
        scale = torch.where(local > 0, local, self.radius[:, None])
        self.scale = scale / self.radius[:, None]  # (C, d_r): offsets within the radius are at most 1
        self._globals()
        self._statistics(points)

    def _globals(self) -> None:
        """Sum the statistics of the global linear fit."""
        rows, G = self.rows, self.rows.num_groups
        X = self.space.features(rows.inputs, self.shape.used)
        Y = rows.targets[:, self.columns]
        self._features = X
        weighted = X * rows.weights[:, None]
        parts = [rows.groups == g for g in range(G)]
        self.global_gram = torch.stack([weighted[part].T @ X[part] for part in parts])
        self.global_moment = torch.stack([weighted[part].T @ Y[part] for part in parts])

    def _statistics(self, points: torch.Tensor) -> None:
        rows, p, G = self.rows, self.shape.num_coefficients, self.rows.num_groups
        targets = torch.cat([rows.targets[:, self.columns], self._features], dim=1)
        C, t = len(self.centers), targets.shape[1]
        self.statistics = [
            (torch.zeros(G, C, p, p, dtype=torch.float64), torch.zeros(G, C, p, t, dtype=torch.float64))
            for _ in range(2)
        ]
        d = len(self.regressors)
        self.low, self.high = torch.zeros(C, d, dtype=torch.float64), torch.zeros(C, d, dtype=torch.float64)
        noise = torch.zeros(C, len(self.columns), dtype=torch.float64)
        tree = neighbor_search(points)
        locally = max(int((self.shape.metric > 0).sum()), 1)
        radii = (self.radius, 2.0 ** (1.0 / locally) * self.radius)
        counts = tree.count_within(self._points, radii[1])
        everything = self.global_fit(torch.ones(1, G, dtype=torch.bool))[0]
        for some in _chunks(counts, p):
            near_distance, near = tree.nearest(self._points[some], int(counts[some].max()))
            near = near.long()
            squared, w = near_distance.square(), rows.weights[near]
            kappa, wide = (kernel_weights(squared, radius[some, None]) * w for radius in radii)
            offsets = self._offsets(rows.inputs[near], some)
            inside = (kappa > 0)[:, :, None]
            self.low[some] = torch.where(inside, offsets, math.inf).amin(dim=1)
            self.high[some] = torch.where(inside, offsets, -math.inf).amax(dim=1)
            phi = design(offsets, self.shape.degree)
            y = targets[near]
            for g, (weights, (gram, moment)) in itertools.product(
                range(G), zip((kappa, wide), self.statistics, strict=True)
            ):
                weighted = phi * (weights * (rows.groups[near] == g))[:, :, None]
                gram[g, some] = weighted.mT @ phi
                moment[g, some] = weighted.mT @ y
            narrow, broad = (
                self._residual(phi, y, weights, some=some, fit=everything, statistics=statistics)
                for weights, statistics in zip((kappa, wide), self.statistics, strict=True)
            )
            # What charts are too stiff for grows with their radius, noise does not: of the variance that is
            # missed, n² + m² at r and n² + q·m² at the wider radius, n² is noise.
            q = 2.0 ** (2.0 * (self.shape.degree + 1) / locally)
            noise[some] = ((q * narrow - broad) / (q - 1.0)).clamp(min=0.0)
        extent = self.high - self.low
        self.low, self.high = self.low - _MARGIN * extent, self.high + _MARGIN * extent
        self.noise = noise.sqrt()

    def _residual(
        self,
        phi: torch.Tensor,
        y: torch.Tensor,
        kappa: torch.Tensor,
        *,
        some: torch.Tensor,
        fit: torch.Tensor,
        statistics: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """Return the variance (c, t) of what charts miss, corrected for what they absorb."""
        grams, moments = statistics
        gram, t = grams[:, some].sum(dim=0), len(self.columns)
        moment = self._of_residuals(moments[:, some].sum(dim=0), fit)
        penalized = gram + torch.diag_embed(self._penalty(gram[:, 0, 0]).expand(-1, gram.shape[1]))
        both: torch.Tensor = torch.linalg.solve(penalized, torch.cat([moment, gram], dim=2))
        left = y[:, :, :t] - y[:, :, t:] @ fit - phi @ both[:, :, :t]
        absorbed = both[:, :, t:].diagonal(dim1=1, dim2=2).sum(dim=1)
        total = kappa.sum(dim=1)
        effective = total.square() / kappa.square().sum(dim=1)
        correction = effective / (effective - absorbed).clamp(min=0.1 * effective)
        squares: torch.Tensor = torch.einsum("ck,ckt->ct", kappa, left.square())
        return squares * (correction / total)[:, None]

    def _penalty(self, weight: torch.Tensor) -> torch.Tensor:
        return (self.shape.ridge * weight)[:, None]

    def _of_residuals(self, moment: torch.Tensor, fit: torch.Tensor) -> torch.Tensor:
        """Return moments (…, p, t) of what the global fit (q, t) misses."""
        t = len(self.columns)
        return moment[..., :t] - moment[..., t:] @ fit

    def global_fit(self, kept: torch.Tensor) -> torch.Tensor:
        """Return the global linear fit (P, q, t) of parts (P, G) of the groups."""
        gram = torch.einsum("pg,gqr->pqr", kept.double(), self.global_gram)
        moment = torch.einsum("pg,gqt->pqt", kept.double(), self.global_moment)
        ridge = _TINY * gram.diagonal(dim1=1, dim2=2).amax(dim=1)
        eye = torch.eye(gram.shape[1], dtype=torch.float64)
        solved: torch.Tensor = torch.linalg.solve(gram + ridge[:, None, None] * eye, moment)
        return solved

    def fit(self, kept: torch.Tensor) -> ChartFit:
        """Return the coefficients from parts (P, G) of the groups."""
        everywhere = self.global_fit(kept)
        shares = kept.double()
        C, p, t = len(self.centers), self.shape.num_coefficients, len(self.columns)
        coefficients = torch.empty(len(kept), C, p, t, dtype=torch.float64)
        for number, share in enumerate(shares):
            grams, moments = self.statistics[0 if float(share.mean()) > _MOST else 1]
            least = _TINY * grams[:, :, 0, 0].sum(dim=0)
            gram = torch.einsum("g,gcpq->cpq", share, grams)
            moment = self._of_residuals(torch.einsum("g,gcpt->cpt", share, moments), everywhere[number])
            penalty = self._penalty(gram[:, 0, 0]) + least[:, None]
            coefficients[number] = torch.linalg.solve(gram + torch.diag_embed(penalty.expand(-1, p)), moment)
        return ChartFit(self, everywhere, coefficients)

    def _offsets(self, inputs: torch.Tensor, charts: torch.Tensor) -> torch.Tensor:
        """Return offsets (m, k, d_r) of inputs (m, k, d) from the centres of charts (m,)."""
        apart = self.space.offsets(self.centers[charts][:, None], inputs)[..., self.regressors]
        return apart * self.scale[charts][:, None]


class ChartFit:
    """The coefficients of charts from one or more parts of the rows, ready to predict.

    Arrays are numpy's, columns first and queries last: a step of a rollout asks for some hundred points, and
    operations on them then run over contiguous memory.

    Args:
        charts: Centres and radii.
        everywhere: Coefficients of the global linear fit, shape (P, q, t).
        coefficients: Of the local polynomials, shape (P, C, p, t).
    """

    def __init__(self, charts: Charts, everywhere: torch.Tensor, coefficients: torch.Tensor) -> None:
        P, C, _, t = coefficients.shape
        shape, space = charts.shape, charts.space
        d = len(charts.regressors)
        self.columns, self.num_charts, self._tree = charts.columns, C, charts.tree
        # p(o) = l + g·o + oᵀHo: level (t, P·C), slopes (d, t, P·C) and a symmetric matrix (d, d, t, P·C).
        flat = coefficients.reshape(P * C, -1, t).permute(1, 2, 0)
        self._level, self._slope = _array(flat[0]), _array(flat[1 : 1 + d])
        self._matrix = None
        if shape.degree == 2:
            one, other = torch.triu_indices(d, d)
            matrix = torch.zeros(d, d, t, P * C, dtype=torch.float64)
            matrix[one, other] += 0.5 * flat[1 + d :]
            matrix[other, one] += 0.5 * flat[1 + d :]
            self._matrix = _array(matrix)
        self._everywhere = _array(everywhere.permute(1, 2, 0))  # (q, t, P)
        self._centers, self._radius = _array(charts.centers.T), _array(charts.radius.square())
        self._regressors = _array(charts.regressors)
        self._scale = _array((charts.scale / space.units[charts.regressors]).T)  # of raw offsets
        self._low, self._high, self._noise = (
            _array(charts.low.T),
            _array(charts.high.T),
            _array(charts.noise.T),
        )
        self._units, self._weight = _array(space.units), _array(shape.metric / space.units)
        self._periods = {k: float(space.periods[k]) for k in space.periods.nonzero()[:, 0].tolist()}
        self._local = shape.metric.nonzero()[:, 0].tolist()
        self._is_local = shape.ridge < _GLOBAL

    def predict(self, x: FloatArray, part: IntArray | None) -> tuple[FloatArray, FloatArray]:
        """Return y (t, m), noise (t, m) and δ² (1, m) at inputs (d, m), one below the other.

        The second is their derivative by the inputs, shape (2t + 1, d, m). δ is the distance from the nearest
        charts in units of their radius. Weights of the charts are b/Σb with b = (1 − d²/d_last²)², d_last the
        distance of the next chart, so all is smooth where the nearest charts change.
        """
        C, m = self.num_charts, x.shape[1]
        k = min(_BLENDED, max(C - 1, 1))
        distance, found = self._tree.query(self._embed(x), k=min(k + 1, C))
        near = np.ascontiguousarray(found.reshape(m, -1).T)
        D = np.ascontiguousarray(np.square(distance.reshape(m, -1)).T)
        apart = x[:, None] - self._centers[:, near]  # (d, k + 1, m)
        rises = (2.0 * np.square(self._weight))[:, None, None] * apart  # ∂d²/∂x
        for column, period in self._periods.items():
            apart[column] -= period * np.round(apart[column] / period)
            unit = self._units[column]
            rises[column] = 2.0 * self._weight[column] ** 2 * unit * np.sin(apart[column] / unit)
        if C == 1:
            blend, slopes = np.ones_like(D), np.zeros_like(rises)
        else:
            last = np.maximum(D[-1:], np.finfo(np.float64).tiny)
            share = np.minimum(D[:-1] / last, 1.0)
            rest = 1.0 - share
            b = np.square(rest) + _TINY
            total = b.sum(axis=0)
            blend = b / total
            # ∂b/∂x/Σb: Σₖ (vₖ − y)·∂bₖ/Σb is the derivative of y by the weights.
            slopes = (rises[:, :-1] - share * rises[:, -1:]) * (-2.0 * rest / (last * total))
        near, D, rises = near[:k], D[:k], rises[:, :k]
        scale = self._scale[:, near]
        offsets = apart[self._regressors, :k] * scale
        clamped = np.minimum(np.maximum(offsets, self._low[:, near]), self._high[:, near])
        moves = np.where(offsets == clamped, scale, 0.0)

        flat = near if part is None else near + C * part
        slope = self._slope[:, :, flat]  # (d_r, t, k, m)
        t = slope.shape[1]
        values = np.empty((2 * t + 1, *near.shape))
        if self._matrix is None:
            values[:t] = self._level[:, flat] + (clamped[:, None] * slope).sum(axis=0)
        else:
            bent = (clamped[:, None, None] * self._matrix[:, :, :, flat]).sum(axis=0)
            values[:t] = self._level[:, flat] + (clamped[:, None] * (slope + bent)).sum(axis=0)
            slope = slope + 2.0 * bent
        radius = self._radius[near]
        values[t:-1], values[-1] = self._noise[:, near], D / radius if self._is_local else 0.0
        out = (blend * values).sum(axis=1)
        jacobian = ((values - out[:, None])[:, None] * slopes).sum(axis=2)  # (2t + 1, d, m)
        local = (blend * slope * moves[:, None]).sum(axis=2)  # (d_r, t, m)
        jacobian[:t, self._regressors] += local.transpose(1, 0, 2)
        if self._is_local:
            jacobian[-1] += (blend / radius * rises).sum(axis=1)
        self._add_global(x, part, out, jacobian)
        return out, jacobian

    def _embed(self, x: FloatArray) -> FloatArray:
        """Return the points (m, ·) between which the charts' distances are measured."""
        columns = []
        for k in self._local:
            if k not in self._periods:
                columns.append(self._weight[k] * x[k])
                continue
            turned, w = x[k] / self._units[k], self._weight[k] * self._units[k]
            columns += [w * np.cos(turned), w * np.sin(turned)]
        return np.stack(columns, axis=1) if columns else np.zeros((x.shape[1], 1))

    def _add_global(
        self, x: FloatArray, part: IntArray | None, out: FloatArray, jacobian: FloatArray
    ) -> None:
        """Add the global linear fit, features in the order of `InputSpace.features`, in place."""
        fit = self._everywhere if part is None else self._everywhere[:, :, part]  # (q, t, m or P)
        fit = fit[:, :, :1] if part is None else fit
        t, place = fit.shape[1], 1
        out[:t] += fit[0]
        for k in self._regressors:
            scaled = x[k] / self._units[k]
            if k in self._periods:
                cos, sin, a, b = np.cos(scaled), np.sin(scaled), fit[place], fit[place + 1]
                out[:t] += cos * a + sin * b
                jacobian[:t, k] += (cos * b - sin * a) / self._units[k]
                place += 2
            else:
                out[:t] += scaled * fit[place]
                jacobian[:t, k] += fit[place] / self._units[k]
                place += 1


def _array(values: torch.Tensor) -> Any:
    return np.ascontiguousarray(values.numpy())


def _radii(
    points: torch.Tensor, few: torch.Tensor, chosen: torch.Tensor, groups: torch.Tensor, count: int
) -> torch.Tensor:
    """Return the distance of each chosen row from the `count`-th nearest of other groups among a few rows."""
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


def farthest_points(points: torch.Tensor, count: int, *, kept: int = 0) -> torch.Tensor:
    """Return the numbers of points (n, d) that cover all: each is the farthest from those before it.

    Args:
        points: Distinct ones first where it matters.
        count: The most that are returned.
        kept: So many of the first are taken in any case.
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


def _chunks(counts: torch.Tensor, coefficients: int) -> list[torch.Tensor]:
    """Return charts in parts of like size, each of a bounded number of (row, coefficient) pairs."""
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
