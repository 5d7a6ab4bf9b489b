"""Charts: local polynomials around centres, blended smoothly; statistics of groups of rows add up."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg._typing import FloatArray, IntArray
from nopg.models._global_fit import GlobalFit
from nopg.models._regression_rows import RegressionRows, design
from nopg.neighbors import neighbor_search

__all__ = ["ChartShape", "Charts", "farthest_points", "kernel_weights"]

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
        ridge: Penalty on what a chart adds to the global fit, relative to the weight of its rows; infinite
            where the global fit is all.
        global_degree: Of the polynomial over all inputs that charts add to, 1 or 2.
    """

    used: Tensor
    metric: Tensor
    degree: int
    num_neighbors: int
    ridge: float
    global_degree: int = 1

    @property
    def key(self) -> tuple[object, ...]:
        """What two equal shapes have in common."""
        used, metric = tuple(self.used.tolist()), tuple(self.metric.tolist())
        return used, metric, self.degree, self.num_neighbors, self.ridge, self.global_degree

    @property
    def num_coefficients(self) -> int:
        """p, of one target."""
        return _num_monomials(int(self.used.sum()), self.degree)

    @property
    def is_local(self) -> bool:
        """Whether there are charts."""
        return math.isfinite(self.ridge)


def _num_monomials(inputs: int, degree: int) -> int:
    return 1 + inputs + (inputs * (inputs + 1) // 2 if degree == 2 else 0)


def kernel_weights(squared: Tensor, radius: Tensor) -> Tensor:
    """Return (1 − d²/r²)² within the radius, else 0."""
    share = squared / radius.square().clamp(min=torch.finfo(torch.float64).tiny)
    return (1.0 - share).clamp(min=0.0).square()


class Charts:
    """y(x) = b·features(x) + Σ_c w_c(x) p_c(x − x_c): a global fit and local polynomials of what it misses.

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
        self._global = GlobalFit.of(rows, shape.used, shape.global_degree, columns)
        if shape.is_local:
            self._place()
        else:
            self.centers, self.noise = rows.inputs[:0], self._global.residual(rows, columns)[None]

    def _place(self) -> None:
        """Place the charts and sum their statistics."""
        rows, shape = self.rows, self.shape
        points = self.space.embed(rows.inputs, shape.metric)
        few = rows.sample[:_MOST_REFERENCE_ROWS]
        p, width = shape.num_coefficients, len(self.columns) + self._global.features.shape[1]
        most = min(_MOST_CHARTS, max(int(_LARGEST_STATISTICS / (2 * rows.num_groups * p * (p + width))), 50))
        chosen = few[farthest_points(points[few], most)]
        self.centers = rows.inputs[chosen]
        self._points = points[chosen]
        self.tree = cKDTree(self._points.numpy())
        self.radius = _radii(points, few, chosen, rows.groups, shape.num_neighbors)
        local = shape.metric[self.regressors]
        scale = torch.where(local > 0, local, self.radius[:, None])
        self.scale = scale / self.radius[:, None]  # (C, d_r): offsets within the radius are at most 1
        self._statistics(points)

    def _statistics(self, points: Tensor) -> None:
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
        tree = neighbor_search(points)
        locally = max(int((self.shape.metric > 0).sum()), 1)
        radii = (self.radius, 2.0 ** (1.0 / locally) * self.radius)
        counts = tree.count_within(self._points, radii[1])
        everything = self._global.coefficients(torch.ones(1, G, dtype=torch.bool))[0]
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
        phi: Tensor,
        y: Tensor,
        kappa: Tensor,
        *,
        some: Tensor,
        fit: Tensor,
        statistics: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Return the variance (c, t) of what charts miss, corrected for what they absorb."""
        grams, moments = statistics
        gram, t = grams[:, some].sum(dim=0), len(self.columns)
        moment = self._of_residuals(moments[:, some].sum(dim=0), fit)
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

    def _of_residuals(self, moment: Tensor, fit: Tensor) -> Tensor:
        """Return moments (…, p, t) of what the global fit (q, t) misses."""
        t = len(self.columns)
        return moment[..., :t] - moment[..., t:] @ fit

    def fit(self, kept: Tensor) -> ChartFit:
        """Return the coefficients from parts (P, G) of the groups."""
        everywhere = self._global.coefficients(kept)
        if not self.shape.is_local:
            return ChartFit(self, everywhere, None)
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

    def _offsets(self, inputs: Tensor, charts: Tensor) -> Tensor:
        """Return offsets (m, k, d_r) of inputs (m, k, d) from the centres of charts (m,)."""
        apart = self.space.offsets(self.centers[charts][:, None], inputs)[..., self.regressors]
        return apart * self.scale[charts][:, None]


class ChartFit:
    """The coefficients of charts from one or more parts of the rows, ready to predict.

    Arrays are numpy's, columns first and queries last: a step of a rollout asks for some hundred points, and
    operations on them then run over contiguous memory.

    Args:
        charts: Centres and radii.
        everywhere: Coefficients of the global fit, shape (P, q, t).
        coefficients: Of the local polynomials, shape (P, C, p, t); None where the global fit is all.
    """

    def __init__(self, charts: Charts, everywhere: Tensor, coefficients: Tensor | None) -> None:
        shape, space = charts.shape, charts.space
        self.columns, self.num_charts = charts.columns, len(charts.centers)
        self._regressors = charts.regressors.tolist()
        self._units, self._origin = _array(space.units), _array(space.origin)
        self._periods = {k: float(space.periods[k]) for k in space.periods.nonzero()[:, 0].tolist()}
        self._noise = _array(charts.noise.T)
        # b·features = level + Σ gᵢfᵢ + Σ fᵢSᵢⱼfⱼ/2 of the first features: (P, t), (P, q, t), (P, q·t, q).
        P, _, t = everywhere.shape
        q = len(self._regressors) + sum(k in self._periods for k in self._regressors)
        self._global_level, self._global_slope = _array(everywhere[:, 0]), _array(everywhere[:, 1 : 1 + q])
        self._global_matrix = None
        if shape.global_degree == 2:
            products = everywhere[:, 1 + q :].permute(0, 2, 1)
            matrix = _symmetric(products, q).permute(0, 2, 1, 3).reshape(P, q * t, q)
            self._global_matrix = _array(2.0 * matrix)
        if coefficients is None:
            return

        # p(o) = l + g·o + oᵀHo: level (t, P·C), slopes (d, t, P·C) and a symmetric matrix (d, d, t, P·C).
        d, C = len(self._regressors), self.num_charts
        flat = coefficients.reshape(P * C, -1, t).permute(1, 2, 0)
        self._level, self._slope = _array(flat[0]), _array(flat[1 : 1 + d])
        self._matrix = None
        if shape.degree == 2:
            self._matrix = _array(_symmetric(flat[1 + d :].permute(1, 2, 0), d).permute(2, 3, 0, 1))
        self._tree, self._centers = charts.tree, _array(charts.centers.T)
        self._radius = _array(charts.radius.square())
        self._scale = _array((charts.scale / space.units[charts.regressors]).T)  # of raw offsets
        self._low, self._high = _array(charts.low.T), _array(charts.high.T)
        self._weight = _array(shape.metric / space.units)
        self._local = shape.metric.nonzero()[:, 0].tolist()

    def predict(
        self, x: FloatArray, part: IntArray | None, *, slopes: bool = True, noise: bool = True
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return y (t, m), noise (t, m) if asked for, and δ² (1, m) at inputs (d, m), one below the other.

        The second is their derivative by the inputs, shape (·, d, m), if asked for. δ is the distance from
        the nearest charts in units of their radius, 0 where there are none. Weights of the charts are b/Σb
        with b = (1 − d²/d_last²)², d_last the distance of the next chart, so all is smooth where the nearest
        charts change.
        """
        if self.num_charts:
            out, jacobian = self._of_charts(x, part, slopes=slopes, noise=noise)
        else:
            t, m = len(self.columns), x.shape[1]
            out = np.zeros((2 * t + 1 if noise else t + 1, m))
            jacobian = np.zeros((len(out), *x.shape)) if slopes else None
            if noise:
                out[t:-1] = self._noise
        self._add_global(x, part, out, jacobian)
        return out, jacobian

    def _of_charts(
        self, x: FloatArray, part: IntArray | None, *, slopes: bool, noise: bool
    ) -> tuple[FloatArray, FloatArray | None]:
        C, m = self.num_charts, x.shape[1]
        k = min(_BLENDED, max(C - 1, 1))
        distance, found = self._tree.query(self._embed(x), k=min(k + 1, C))
        near = np.ascontiguousarray(found.reshape(m, -1).T)
        D = np.ascontiguousarray(np.square(distance.reshape(m, -1)).T)
        if C == 1:
            share, last, total, blend = np.zeros_like(D), np.ones((1, m)), np.ones(m), np.ones_like(D)
        else:
            last = np.maximum(D[-1:], np.finfo(np.float64).tiny)
            share = np.minimum(D[:-1] / last, 1.0)
            b = np.square(1.0 - share) + _TINY
            total = b.sum(axis=0)
            blend = b / total
        apart = x[:, None] - self._centers[:, near]  # (d, k + 1, m)
        for column, period in self._periods.items():
            apart[column] -= period * np.round(apart[column] / period)
        own = near[:k]
        scale = self._scale[:, own]
        offsets = apart[self._regressors, :k] * scale
        clamped = np.minimum(np.maximum(offsets, self._low[:, own]), self._high[:, own])

        flat = own if part is None else own + C * part
        slope = self._slope[:, :, flat]  # (d_r, t, k, m)
        t = slope.shape[1]
        values = np.empty((2 * t + 1 if noise else t + 1, *own.shape))
        if self._matrix is None:
            values[:t] = self._level[:, flat] + (clamped[:, None] * slope).sum(axis=0)
        else:
            bent = (clamped[:, None, None] * self._matrix[:, :, :, flat]).sum(axis=0)
            values[:t] = self._level[:, flat] + (clamped[:, None] * (slope + bent)).sum(axis=0)
            slope = slope + 2.0 * bent
        radius = self._radius[own]
        values[-1] = D[:k] / radius
        if noise:
            values[t:-1] = self._noise[:, own]
        out = (blend * values).sum(axis=1)
        if not slopes:
            return out, None

        rises = (2.0 * np.square(self._weight))[:, None, None] * apart  # ∂d²/∂x
        for column in self._periods:
            unit = self._units[column]
            rises[column] = 2.0 * self._weight[column] ** 2 * unit * np.sin(apart[column] / unit)
        jacobian = np.zeros((len(values), *x.shape))
        if C > 1:
            # ∂b/∂x/Σb: Σₖ (vₖ − y)·∂bₖ/Σb is the derivative of y by the weights.
            by_weight = (rises[:, :-1] - share * rises[:, -1:]) * (-2.0 * (1.0 - share) / (last * total))
            for column in self._local:
                jacobian[:, column] = ((values - out[:, None]) * by_weight[column]).sum(axis=1)
        moves = np.where(offsets == clamped, scale, 0.0)
        local = (blend * slope * moves[:, None]).sum(axis=2)  # (d_r, t, m)
        jacobian[:t, self._regressors] += local.transpose(1, 0, 2)
        jacobian[-1] += (blend / radius * rises[:, :k]).sum(axis=1)
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
        self, x: FloatArray, part: IntArray | None, out: FloatArray, jacobian: FloatArray | None
    ) -> None:
        """Add the global fit, features in the order of `InputSpace.features`, in place."""
        of_input, features, rates = list[int](), list[FloatArray](), list[FloatArray]()
        for k in self._regressors:
            scaled = (x[k] - self._origin[k]) / self._units[k]
            if k in self._periods:
                cos, sin = np.cos(scaled), np.sin(scaled)
                of_input, features, rates = [*of_input, k, k], [*features, cos, sin], [*rates, -sin, cos]
            else:
                one = np.ones_like(scaled)
                of_input, features, rates = [*of_input, k], [*features, scaled], [*rates, one]
        F = np.stack(features) if features else np.zeros((0, x.shape[1]))
        q, t = len(F), len(self.columns)
        whole = [(0, np.arange(x.shape[1]))]
        groups = whole if part is None else [(n, np.flatnonzero(part == n)) for n in np.unique(part)]
        for number, some in groups:
            f, level = F[:, some], self._global_level[number][:, None]
            slope = straight = np.broadcast_to(self._global_slope[number][:, :, None], (q, t, len(some)))
            if self._global_matrix is not None:
                bent = (self._global_matrix[number] @ f).reshape(q, t, len(some))
                slope, straight = slope + bent, slope + 0.5 * bent
            out[:t, some] += level + (straight * f[:, None]).sum(axis=0)
            if jacobian is not None:
                for i, k in enumerate(of_input):
                    jacobian[:t, k, some] += slope[i] * (rates[i][some] / self._units[k])


def _symmetric(products: Tensor, d: int) -> Tensor:
    """Return symmetric matrices H (…, d, d) with oᵀHo = Σ cᵢⱼoᵢoⱼ for coefficients c (…, d(d + 1)/2)."""
    one, other = torch.triu_indices(d, d)
    matrix = products.new_zeros(*products.shape[:-1], d, d)
    matrix[..., one, other] += 0.5 * products
    matrix[..., other, one] += 0.5 * products
    return matrix


def _array(values: Tensor) -> Any:
    return np.ascontiguousarray(values.numpy())


def _radii(points: Tensor, few: Tensor, chosen: Tensor, groups: Tensor, count: int) -> Tensor:
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


def farthest_points(points: Tensor, count: int, *, kept: int = 0) -> Tensor:
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


def _chunks(counts: Tensor, coefficients: int) -> list[Tensor]:
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
