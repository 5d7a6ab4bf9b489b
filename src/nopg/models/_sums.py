"""Sums over rows that fits are functions of: a polynomial over all inputs, and local ones around charts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg._typing import IntArray
from nopg.models._regression_rows import InputSpace, RowBatch, design

# Relative to the largest diagonal entry, and what keeps the sums of no rows regular.
_RIDGE, _NO_ROWS = 1e-9, 1e-300


@dataclass(frozen=True, slots=True)
class GlobalFit:
    """Sums of a linear regression of targets on features; those of two sets of rows add up.

    Attributes:
        grams: Σ wffᵀ of each group, shape (G, q, q).
        moments: Σ wfyᵀ of each group, shape (G, q, t).
        baseline: A regression (q, t) whose residuals are squared; it need not be that of the rows.
        squares: Σ we² of the residuals e of the baseline, shape (t,).
        num_rows: n.
        weight: Σ w.
    """

    grams: Tensor
    moments: Tensor
    baseline: Tensor
    squares: Tensor
    num_rows: int
    weight: float

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
        return GlobalFit(
            self.grams + other.grams,
            self.moments + other.moments,
            self.baseline,
            self.squares + other.squares,
            self.num_rows + other.num_rows,
            self.weight + other.weight,
        )

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


def _regression(gram: Tensor, moment: Tensor) -> Tensor:
    """Return coefficients (…, q, t) from Σ wffᵀ and Σ wfyᵀ; the first feature is 1, whose level is free."""
    ridge = _RIDGE * gram.diagonal(dim1=-2, dim2=-1).amax(dim=-1, keepdim=True).clamp(min=_NO_ROWS)
    penalty = ridge.repeat_interleave(gram.shape[-1], dim=-1)
    penalty[..., 0] = _NO_ROWS
    solved: Tensor = torch.linalg.solve(gram + torch.diag_embed(penalty), moment)
    return solved


# Rows among which those near charts are found at once, and about how many numbers of pairs of a chart and a
# row are computed at once.
_ROWS_AT_ONCE, _NUMBERS_AT_ONCE = 1 << 17, 1 << 21
# Charts whose rows are looked up at once.
_CHARTS_AT_ONCE = 256


def kernel_weights(squared: Tensor, radius: Tensor) -> Tensor:
    """Return (1 − d²/r²)² within the radius, else 0."""
    share = squared / radius.square().clamp(min=torch.finfo(torch.float64).tiny)
    return (1.0 - share).clamp(min=0.0).square()


@dataclass(frozen=True, slots=True, eq=False)
class ChartPlaces:
    """Where charts lie, and what is summed around them.

    Attributes:
        space: Units and angles of the inputs.
        used: Which inputs are regressors, shape (d,).
        metric: Weight of each input in distances, shape (d,).
        degree: Of the local polynomials.
        global_degree: Of the polynomial over all inputs.
        columns: The targets.
        centers: x_c, shape (C, d).
        radii: Of charts from all rows, and wider ones from parts of them, shape (2, C).
        scale: Factor of offsets in units; within the radius local ones are then at most 1, shape (C, d_r).
        baseline: Global fit (q, t) whose residuals are squared; it need not be that of the rows.
    """

    space: InputSpace
    used: Tensor
    metric: Tensor
    degree: int
    global_degree: int
    columns: list[int]
    centers: Tensor
    radii: Tensor
    scale: Tensor
    baseline: Tensor

    @property
    def regressors(self) -> Tensor:
        """Indices of the inputs in use."""
        return self.used.nonzero()[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class ChartSums:
    """Sums over rows near C charts, with the kernels κ of both radii; those of two sets of rows add up.

    φ are the p monomials of the offset o from a chart in use, y the t targets, f the q global features, and e
    the residuals of the baseline.

    Attributes:
        grams: Σ wκφφᵀ by radius, group and chart, shape (2, G, C, p, p).
        moments: Σ wκφ(y, f)ᵀ, shape (2, G, C, p, t + q).
        squares: Σ wκe², shape (2, C, t).
        weights: Σ wκ and Σ (wκ)², shape (2, 2, C).
        first: Σ wκo of the offsets of all inputs in units, with the narrow kernel, shape (C, d).
        second: Σ wκooᵀ, shape (C, d, d).
        low: Least scaled offsets of the rows within the narrow radius, shape (C, d_r).
        high: Largest ones.
    """

    grams: Tensor
    moments: Tensor
    squares: Tensor
    weights: Tensor
    first: Tensor
    second: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, places: ChartPlaces, rows: RowBatch) -> ChartSums:
        """Return the sums of some rows around charts."""
        return cls.empty(places, rows.num_groups).include(places, rows)

    @classmethod
    def empty(cls, places: ChartPlaces, num_groups: int) -> ChartSums:
        """Return the sums of no rows."""
        C, d, d_r, t = (*places.centers.shape, len(places.regressors), len(places.columns))
        p, width = design(torch.zeros(d_r), places.degree).shape[0], t + len(places.baseline)

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
            for near in _near(places, rows.take(some).by_group()):
                self._include(places, near)
        return self

    def _include(self, places: ChartPlaces, near: _Near) -> None:
        some, kappa = near.charts, near.kappa
        offsets = near.apart[..., places.regressors] * places.scale[some][:, None]
        phi = design(offsets, places.degree)
        c, _, p = phi.shape
        both = (phi[:, :, None] * kappa.permute(1, 2, 0)[:, :, :, None]).flatten(2)  # (c, k, 2p)
        found = (both.mT @ torch.cat([phi, near.targets], dim=2)).view(c, 2, p, -1).transpose(0, 1)
        self.grams[:, near.group, some] += found[..., :p]
        self.moments[:, near.group, some] += found[..., p:]
        self.squares[:, some] += (kappa[:, :, None] @ near.errors).squeeze(2)
        self.weights[:, :, some] += torch.stack([kappa.sum(dim=2), kappa.square().sum(dim=2)])
        weighted = near.apart * kappa[0, :, :, None]
        self.first[some] += weighted.sum(dim=1)
        self.second[some] += weighted.mT @ near.apart
        inside = (kappa[0] > 0)[:, :, None]
        self.low[some] = torch.minimum(self.low[some], torch.where(inside, offsets, torch.inf).amin(dim=1))
        self.high[some] = torch.maximum(self.high[some], torch.where(inside, offsets, -torch.inf).amax(dim=1))

    def __add__(self, other: ChartSums) -> ChartSums:
        sums = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        low, high = torch.minimum(self.low, other.low), torch.maximum(self.high, other.high)
        return replace(self, **sums, low=low, high=high)

    def scaled(self, share: float, kept: Tensor) -> ChartSums:
        """Return the sums in which every row of groups (G,) that are kept counts for a share."""
        found = {name: share * getattr(self, name) for name in _ADDED}
        for name in ("grams", "moments"):
            found[name] *= kept.double().view(-1, 1, 1, 1)
        return replace(self, **found)

    def take(self, some: Tensor) -> ChartSums:
        """Return the sums of some charts."""
        return ChartSums(
            self.grams[:, :, some],
            self.moments[:, :, some],
            self.squares[:, some],
            self.weights[:, :, some],
            self.first[some],
            self.second[some],
            self.low[some],
            self.high[some],
        )

    @property
    def filled(self) -> Tensor:
        """Which charts have rows, shape (C,)."""
        return self.grams[0, :, :, 0, 0].sum(dim=0) > 0

    @property
    def scatter(self) -> Tensor:
        """Σ wκ oo' (C, d, d) of the offsets o of all inputs from their mean in a chart."""
        total = self.weights[0, 0].clamp(min=1e-300)[:, None, None]
        return self.second - self.first[:, :, None] * self.first[:, None] / total


_ADDED = ("grams", "moments", "squares", "weights", "first", "second")


@dataclass(frozen=True, slots=True, eq=False)
class _Near:
    """Up to k rows of one group near each of c charts.

    Attributes:
        charts: Which charts, shape (c,).
        group: The group.
        apart: Offsets of all inputs in units, shape (c, k, d).
        kappa: wκ of both radii, shape (2, c, k); 0 where there is no row.
        targets: y and f, shape (c, k, t + q).
        errors: Squared residuals of the baseline, shape (c, k, t).
    """

    charts: Tensor
    group: int
    apart: Tensor
    kappa: Tensor
    targets: Tensor
    errors: Tensor


def _near(places: ChartPlaces, rows: RowBatch) -> Iterator[_Near]:
    """Yield the rows within the wider radius of charts; rows of a group follow each other."""
    points, around = (places.space.embed(x, places.metric) for x in (rows.inputs, places.centers))
    features = places.space.features(rows.inputs, places.used, places.global_degree)
    y = rows.targets[:, places.columns]
    targets, errors = torch.cat([y, features], dim=1), (y - features @ places.baseline).square()
    coefficients = 2 * design(places.scale[0], places.degree).shape[0] + targets.shape[1]
    for some, group, near, there in _Members(points, around, places.radii[1], rows).blocks(coefficients):
        squared = (points[near] - around[some][:, None]).square().sum(dim=2)
        kappa = kernel_weights(squared, places.radii[:, some, None]) * (rows.weights[near] * there)
        apart = places.space.offsets(places.centers[some][:, None], rows.inputs[near])
        yield _Near(some, group, apart, kappa, targets[near], errors[near])


class _Members:
    """The rows inside each chart, by group.

    Args:
        points: Rows as points of the metric, shape (n, e); rows of a group follow each other.
        around: Centres, shape (C, e).
        radius: Of each chart, shape (C,).
        rows: The rows.
    """

    def __init__(self, points: Tensor, around: Tensor, radius: Tensor, rows: RowBatch) -> None:
        tree, sizes, inside = cKDTree(points.numpy()), list[IntArray](), list[IntArray]()
        for some in torch.arange(len(around)).split(_CHARTS_AT_ONCE):  # lists of numbers take much memory
            found = tree.query_ball_point(around[some].numpy(), radius[some].numpy(), return_sorted=True)
            sizes.append(np.fromiter(map(len, found), dtype=np.int64, count=len(found)))
            every = itertools.chain.from_iterable(found)
            inside.append(np.fromiter(every, dtype=np.int64, count=sizes[-1].sum()))
        self._rows, self._size = (torch.as_tensor(np.concatenate(one)) for one in (inside, sizes))
        G = rows.num_groups
        chart = torch.arange(len(around)).repeat_interleave(self._size)
        pairs = chart * G + rows.groups[self._rows]
        self._counts = torch.bincount(pairs, minlength=len(around) * G).view(-1, G)
        self._begin = (self._counts.view(-1).cumsum(0) - self._counts.view(-1)).view(-1, G)

    def blocks(self, coefficients: int) -> Iterator[tuple[Tensor, int, Tensor, Tensor]]:
        """Yield some charts (c,), a group, rows (c, k) of it that are inside them, and which are there.

        Charts of similar size come together.

        Args:
            coefficients: Numbers that are computed for each pair of a chart and a row.
        """
        order = self._size.argsort(stable=True)
        ends = (self._size[order] * coefficients).cumsum(0) // _NUMBERS_AT_ONCE
        for some in order.split(torch.unique_consecutive(ends, return_counts=True)[1].tolist()):
            for group in range(self._counts.shape[1]):
                counts = self._counts[some, group]
                place = torch.arange(int(counts.max()))
                if len(place):
                    there = place < counts[:, None]
                    at = torch.where(there, self._begin[some, group][:, None] + place, 0)
                    yield some, group, self._rows[at], there
