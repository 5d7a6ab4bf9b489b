"""Exact nearest neighbours by all distances, as matrix products: the fastest where trees do not prune."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from nopg.neighbors._distances import (
    QUERIES_AT_ONCE,
    ProductTable,
    count_below,
    pair_squares,
    rows_at_once,
    sorted_pairs,
)
from nopg.neighbors._search import NeighborSearch

_TIE = 1e-9  # relative difference of squared distances that count as equal


class BruteForce(NeighborSearch):
    """All distances to points (n, d) in float32, checked and corrected in float64.

    Products are imprecise where points are close to each other and far from their mean. So a few more than k
    points are fetched and their distances computed from differences. A row is certain if its k-th point is
    nearer than the last one fetched by more than the bound on the rounding error. Other rows are searched
    again in float64, and those that are still uncertain by differences alone.

    Example:
        >>> search = BruteForce(torch.tensor([[0.0], [1.0], [5.0]], dtype=torch.float64))
        >>> distances, indices = search.nearest(torch.tensor([[0.75]], dtype=torch.float64), 2)
        >>> distances.tolist(), indices.tolist()
        ([[0.25, 0.75]], [[1, 0]])
    """

    def __init__(self, points: Tensor) -> None:
        self.num_points = len(points)
        self.points = points
        self._single = ProductTable.of(points, torch.float32)

    @cached_property
    def _double(self) -> ProductTable:
        return ProductTable.of(self.points, torch.float64)

    def nearest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return distances (m, k) and int32 indices (m, k) of the k nearest points, nearest first."""
        k = min(count, self.num_points)
        distances = torch.empty(len(queries), k, dtype=torch.float64)
        indices = torch.empty(len(queries), k, dtype=torch.int32)
        step = rows_at_once(_num_fetched(k, self.num_points) * queries.shape[1])
        for start in range(0, len(queries), step):
            some = slice(start, start + step)
            distances[some], indices[some] = self._nearest(queries[some], k)
        return distances, indices

    def _nearest(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        distances, indices, certain = self._by_products(self._single, queries, k)
        if len(rows := (~certain).nonzero()[:, 0]):
            distances[rows], indices[rows], certain[rows] = self._by_products(self._double, queries[rows], k)
        if len(rows := (~certain).nonzero()[:, 0]):
            distances[rows], indices[rows] = self._by_differences(queries[rows], k)
        return distances, indices

    def _by_products(self, table: ProductTable, queries: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return distances, indices, and whether a row certainly holds the k nearest, up to ties, (m,)."""
        wanted = _num_fetched(k, self.num_points)
        estimates, indices = table.smallest(queries, wanted)
        squares = pair_squares(queries, self.points, indices)

        # Points not fetched have estimates above the last one fetched, wrong by at most `error`.
        error = table.error(queries, squares.amax(dim=1))
        precise = (estimates - squares).abs().amax(dim=1) <= error
        outside = estimates.amax(dim=1) - error
        squares, order = squares.sort(dim=1, stable=True)
        kth = squares[:, k - 1]
        complete = (outside >= kth - _TIE * (1.0 + kth)) | (wanted == self.num_points)
        return squares[:, :k].sqrt(), indices.gather(1, order[:, :k]), precise & complete

    def _by_differences(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        parts = [
            sorted_pairs(some, self.points, self._all_distances(some).topk(k, largest=False).indices)
            for some in queries.split(rows_at_once(self.num_points))
        ]
        distances, indices = zip(*parts, strict=True)
        return torch.cat(distances), torch.cat(indices)

    def _all_distances(self, queries: Tensor) -> Tensor:
        return torch.cdist(queries, self.points, compute_mode="donot_use_mm_for_euclid_dist")

    def count_within(self, queries: Tensor, radii: Tensor) -> Tensor:
        """Return the number of points within radius (m,) of each query, int64."""
        counts = torch.empty(len(queries), dtype=torch.int64)
        error = self._single.error(queries, radii.square())
        # A small error leaves few points in doubt; after an overflow it is NaN.
        coarse = ~(error <= 0.01 * radii.square())
        for rows in coarse.nonzero()[:, 0].split(rows_at_once(self.num_points)):
            counts[rows] = (self._all_distances(queries[rows]) <= radii[rows, None]).sum(dim=1)
        for rows in (~coarse).nonzero()[:, 0].split(QUERIES_AT_ONCE):
            counts[rows] = self._count_by_products(queries[rows], radii[rows], error[rows])
        return counts

    def _count_by_products(self, queries: Tensor, radii: Tensor, error: Tensor) -> Tensor:
        counts = torch.zeros(len(queries), dtype=torch.int64)
        offset = radii.square() - self._single.norms(queries).square()  # r² in terms of ‖y‖² − 2xᵀy
        inner, outer = ((offset + sign * error).to(torch.float32)[:, None] for sign in (-1, 1))
        for start, block in self._single.blocks(queries):
            certain = count_below(block, inner)
            counts += certain
            rows = (count_below(block, outer) > certain).nonzero()[:, 0]
            if len(rows) == 0:
                continue
            row, column = ((block[rows] <= outer[rows]) & (block[rows] > inner[rows])).nonzero(as_tuple=True)
            row = rows[row]
            squares = pair_squares(queries[row], self.points, start + column[:, None])[:, 0]
            counts += torch.bincount(row[squares.sqrt() <= radii[row]], minlength=len(queries))
        return counts


def _num_fetched(k: int, num_points: int) -> int:
    """Return the number of points to fetch for k: the gap after the k-th must exceed the rounding error."""
    return min(num_points, k + 8 + k // 8)
