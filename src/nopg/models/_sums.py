"""Sums over rows that fits are functions of: a polynomial over all inputs, and local ones around charts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg._typing import IntArray
from nopg.models._regression_rows import InputSpace, RowBatch, design

CHARTS_AT_ONCE = 256
"""Charts whose distances to rows are in memory at once."""
LEAST_RIDGE = 1e-9
"""Least penalty of a regression, relative to the weight of its rows or its largest sum of squares."""
# What keeps the sums of no rows regular.
_NO_ROWS = 1e-300
# Rows among which those near charts are found at once, and about how many numbers of pairs of a chart and a
# row are computed at once.
_ROWS_AT_ONCE, _NUMBERS_AT_ONCE = 1 << 17, 1 << 21
# Sums of charts that add up.
_ADDED = ("grams", "moments", "squares", "weights", "first", "second")


@dataclass(frozen=True, slots=True)
class GlobalFit:
    """Sums of a linear regression of targets on features; those of two sets of rows add up."""

    grams: Tensor  # Σ wffᵀ of each group, (G, q, q)
    moments: Tensor  # Σ wfyᵀ of each group, (G, q, t)
    baseline: Tensor  # a regression (q, t) whose residuals are squared; it need not be that of the rows
    squares: Tensor  # Σ we² of the residuals e of the baseline, (t,)
    num_rows: int  # n
    weight: float  # Σ w

    @classmethod
    def of(
        cls,
        rows: RowBatch,
        X: Tensor,
        columns: list[int],
        baseline: Tensor | None = None,
    ) -> GlobalFit:
        """Return the sums of some targets on features (n, q); the baseline is their own fit if not given."""
        weighted, Y = X * rows.weights[:, None], rows.targets[:, columns]
        parts = [rows.groups == g for g in range(rows.num_groups)]
        grams = torch.stack([weighted[part].T @ X[part] for part in parts])
        moments = torch.stack([weighted[part].T @ Y[part] for part in parts])
        baseline = _regression(grams.sum(dim=0), moments.sum(dim=0)) if baseline is None else baseline
        squares = rows.weights @ (Y - X @ baseline).square()
        return cls(grams, moments, baseline, squares, len(rows), float(rows.weights.sum()))

    def __add__(self, other: GlobalFit) -> GlobalFit:
        added = ("grams", "moments", "squares", "num_rows", "weight")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in added})

    def scaled(self, share: float, kept: Tensor) -> GlobalFit:
        """Return the sums in which every row of groups (G,) that are kept counts for a share."""
        by_group = share * kept.double().view(-1, 1, 1)
        return GlobalFit(
            by_group * self.grams,
            by_group * self.moments,
            self.baseline,
            share * self.squares,
            max(round(share * self.num_rows), 1),
            share * self.weight,
        )

    def coefficients(self, kept: Tensor) -> Tensor:
        """Return the regression (P, q, t) on parts (P, G) of the groups."""
        gram = torch.einsum("pg,gqr->pqr", kept.double(), self.grams)
        return _regression(gram, torch.einsum("pg,gqt->pqt", kept.double(), self.moments))

    @property
    def residual(self) -> Tensor:
        """Standard deviation (t,) of the residual of the fit to all rows."""
        gram, moment = self.grams.sum(dim=0), self.moments.sum(dim=0)
        change = _regression(gram, moment) - self.baseline
        gained = (change * (2.0 * (moment - gram @ self.baseline) - gram @ change)).sum(dim=0)
        n, q = self.num_rows, len(gram)
        variance = (self.squares - gained).clamp(min=0.0) / self.weight * n / max(n - q, 0.1 * n)
        return variance.sqrt()


def ridge_fit(gram: Tensor, moment: Tensor, penalty: Tensor) -> Tensor:
    """Return coefficients (…, q, t) from Σ wffᵀ and Σ wfyᵀ with a penalty (…, q) on the square of each."""
    fit: Tensor = torch.linalg.solve(gram + torch.diag_embed(penalty), moment)
    return fit


def _regression(gram: Tensor, moment: Tensor) -> Tensor:
    """Return coefficients (…, q, t) of a regression whose first feature is 1; its level is free."""
    largest = gram.diagonal(dim1=-2, dim2=-1).amax(dim=-1, keepdim=True).clamp(min=_NO_ROWS)
    penalty = (LEAST_RIDGE * largest).repeat_interleave(gram.shape[-1], dim=-1)
    penalty[..., 0] = _NO_ROWS
    return ridge_fit(gram, moment, penalty)


def kernel_weights(squared: Tensor, radius: Tensor) -> Tensor:
    """Return (1 − d²/r²)² within the radius, else 0."""
    share = squared / radius.square().clamp(min=torch.finfo(torch.float64).tiny)
    return (1.0 - share).clamp(min=0.0).square()


@dataclass(frozen=True, slots=True, eq=False)
class ChartShape:
    """The settings of the local polynomials of some targets."""

    used: Tensor  # which inputs are regressors, (d,)
    metric: Tensor  # weight of each input in distances, 0 for an input in which charts are not local, (d,)
    degree: int  # 1 or 2
    num_neighbors: int  # reference rows within the radius of a chart
    # Penalty on local coefficients, relative to the weight of the rows; infinite without charts.
    ridge: float
    global_degree: int = 1  # degree of the polynomial over all inputs that charts add to, 1 or 2

    @property
    def regressors(self) -> Tensor:
        """Indices of the inputs in use."""
        return self.used.nonzero()[:, 0]

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


@dataclass(frozen=True, slots=True, eq=False)
class ChartPlaces:
    """Where charts lie, and what is summed around them."""

    space: InputSpace  # units and angles of the inputs
    shape: ChartShape  # of the polynomials
    columns: list[int]  # the targets
    centers: Tensor  # x_c, (C, d)
    radii: Tensor  # of charts from all rows, and wider ones from parts of them, (2, C)
    scale: Tensor  # factor of offsets in units; within the radius local ones are then at most 1, (C, d_r)
    baseline: Tensor  # global fit (q, t) whose residuals are squared; it need not be that of the rows


@dataclass(frozen=True, slots=True, eq=False)
class ChartSums:
    """Sums over rows near C charts, with the kernels κ of both radii; those of two sets of rows add up.

    φ are the p monomials of the offset o from a chart in use, y the t targets, f the q global features, and e
    the residuals of the baseline.
    """

    grams: Tensor  # Σ wκφφᵀ by radius, group and chart, (2, G, C, p, p)
    moments: Tensor  # Σ wκφ(y, f)ᵀ, (2, G, C, p, t + q)
    squares: Tensor  # Σ wκe², (2, C, t)
    weights: Tensor  # Σ wκ and Σ (wκ)², (2, 2, C)
    first: Tensor  # Σ wκo of the offsets of all inputs in units, with the narrow kernel, (C, d)
    second: Tensor  # Σ wκooᵀ, (C, d, d)
    low: Tensor  # least scaled offsets of the rows within the narrow radius, (C, d_r)
    high: Tensor  # largest ones

    @classmethod
    def of(cls, places: ChartPlaces, rows: RowBatch) -> ChartSums:
        """Return the sums of some rows around charts."""
        return cls.empty(places, rows.num_groups).include(places, rows)

    @classmethod
    def empty(cls, places: ChartPlaces, num_groups: int) -> ChartSums:
        """Return the sums of no rows."""
        C, d, d_r, t = (*places.centers.shape, places.scale.shape[1], len(places.columns))
        p, width = places.shape.num_coefficients, t + len(places.baseline)

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.float64)

        return cls(
            grams=zeros(2, num_groups, C, p, p),
            moments=zeros(2, num_groups, C, p, width),
            squares=zeros(2, C, t),
            weights=zeros(2, 2, C),
            first=zeros(C, d),
            second=zeros(C, d, d),
            low=zeros(C, d_r) + torch.inf,
            high=zeros(C, d_r) - torch.inf,
        )

    def include(self, places: ChartPlaces, rows: RowBatch) -> Self:
        """Add rows in place, and return the sums."""
        for some in torch.arange(len(rows)).split(_ROWS_AT_ONCE):
            self._include(places, rows.take(some).by_group())
        return self

    def _include(self, places: ChartPlaces, rows: RowBatch) -> None:
        """Add rows, in each of which those of a group follow each other."""
        space, shape = places.space, places.shape
        points, around = (space.embed(x, shape.metric) for x in (rows.inputs, places.centers))
        features = space.features(rows.inputs, shape.used, shape.global_degree)
        y = rows.targets[:, places.columns]
        targets, errors = torch.cat([y, features], dim=1), (y - features @ places.baseline).square()
        numbers = 2 * shape.num_coefficients + targets.shape[1]
        for charts, group, near, there in _near(points, around, places.radii[1], rows, numbers):
            squared = (points[near] - around[charts][:, None]).square().sum(dim=2)
            kappa = kernel_weights(squared, places.radii[:, charts, None]) * (rows.weights[near] * there)
            apart = space.offsets(places.centers[charts][:, None], rows.inputs[near])  # (c, k, d)
            offsets = apart[..., shape.regressors] * places.scale[charts][:, None]
            phi = design(offsets, shape.degree)
            p = phi.shape[2]
            both = (phi[:, :, None] * kappa.permute(1, 2, 0)[:, :, :, None]).flatten(2)  # (c, k, 2p)
            products = both.mT @ torch.cat([phi, targets[near]], dim=2)
            products = products.view(len(charts), 2, p, -1).transpose(0, 1)
            self.grams[:, group, charts] += products[..., :p]
            self.moments[:, group, charts] += products[..., p:]
            self.squares[:, charts] += (kappa[:, :, None] @ errors[near]).squeeze(2)
            self.weights[:, :, charts] += torch.stack([kappa.sum(dim=2), kappa.square().sum(dim=2)])
            weighted = apart * kappa[0, :, :, None]
            self.first[charts] += weighted.sum(dim=1)
            self.second[charts] += weighted.mT @ apart
            inside = (kappa[0] > 0)[:, :, None]
            low = torch.where(inside, offsets, torch.inf).amin(dim=1)
            high = torch.where(inside, offsets, -torch.inf).amax(dim=1)
            self.low[charts] = torch.minimum(self.low[charts], low)
            self.high[charts] = torch.maximum(self.high[charts], high)

    def __add__(self, other: ChartSums) -> ChartSums:
        sums = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        low, high = torch.minimum(self.low, other.low), torch.maximum(self.high, other.high)
        return replace(self, **sums, low=low, high=high)

    def scaled(self, share: float, kept: Tensor) -> ChartSums:
        """Return the sums in which every row of groups (G,) that are kept counts for a share."""
        sums = {name: share * getattr(self, name) for name in _ADDED}
        for name in ("grams", "moments"):
            sums[name] *= kept.double().view(-1, 1, 1, 1)
        return replace(self, **sums)

    def take(self, some: Tensor) -> ChartSums:
        """Return the sums of some charts."""
        sums = {name: getattr(self, name)[some] for name in ("first", "second", "low", "high")}
        sums |= {name: getattr(self, name)[:, :, some] for name in ("grams", "moments", "weights")}
        return ChartSums(**sums, squares=self.squares[:, some])

    @property
    def filled(self) -> Tensor:
        """Which charts have rows, shape (C,)."""
        return self.grams[0, :, :, 0, 0].sum(dim=0) > 0

    @property
    def scatter(self) -> Tensor:
        """Σ wκ oo' (C, d, d) of the offsets o of all inputs from their mean in a chart."""
        total = self.weights[0, 0].clamp(min=1e-300)[:, None, None]
        return self.second - self.first[:, :, None] * self.first[:, None] / total


def _near(
    points: Tensor, around: Tensor, radius: Tensor, rows: RowBatch, numbers: int
) -> Iterator[tuple[Tensor, int, Tensor, Tensor]]:
    """Yield some charts (c,), a group, rows (c, k) of it that are inside them, and which are there.

    Charts of similar size come together; `numbers` are computed for each pair of a chart and a row. The rows
    are points (n, e), those of a group after each other, charts have centres `around` (C, e) and a radius
    (C,).
    """
    tree, sizes, members = cKDTree(points.numpy()), list[IntArray](), list[IntArray]()
    for some in torch.arange(len(around)).split(CHARTS_AT_ONCE):  # lists of numbers take much memory
        inside = tree.query_ball_point(around[some].numpy(), radius[some].numpy(), return_sorted=True)
        sizes.append(np.fromiter(map(len, inside), dtype=np.int64, count=len(inside)))
        each = itertools.chain.from_iterable(inside)
        members.append(np.fromiter(each, dtype=np.int64, count=sizes[-1].sum()))
    member, size = (torch.as_tensor(np.concatenate(each)) for each in (members, sizes))
    chart = torch.arange(len(around)).repeat_interleave(size)
    G = rows.num_groups
    counts = torch.bincount(chart * G + rows.groups[member], minlength=len(around) * G)
    counts, begin = counts.view(-1, G), (counts.cumsum(0) - counts).view(-1, G)
    order = size.argsort(stable=True)
    ends = (size[order] * numbers).cumsum(0) // _NUMBERS_AT_ONCE
    for charts in order.split(torch.unique_consecutive(ends, return_counts=True)[1].tolist()):
        for group in range(G):
            count = counts[charts, group, None]
            place = torch.arange(int(count.max()))
            if len(place):
                there = place < count
                yield charts, group, member[torch.where(there, begin[charts, group, None] + place, 0)], there
