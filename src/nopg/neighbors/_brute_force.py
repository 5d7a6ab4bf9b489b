"""Exact nearest neighbours by all distances, as matrix products: the fastest where trees no longer prune."""

from __future__ import annotations

from functools import cached_property

import torch

from nopg.neighbors._pairs import pair_squares, rows_at_once, sorted_pairs
from nopg.neighbors._products import QUERIES_AT_ONCE, ProductTable, count_below
from nopg.neighbors._search import NeighborSearch

__all__ = ["BruteForce"]

# Two values this close are a tie, and which one is found does not matter.
_TIE = 1e-9


class BruteForce(NeighborSearch):
    """All distances to points (n, d), in float32, with every answer checked and corrected in float64.

    Products are imprecise where points are close to each other and far from their mean. So some more than k
    points are fetched and their distances computed by differences. A row is certain if its k-th is nearer
    than the last one fetched by more than the bound on the rounding; other rows are searched again in
    float64, and those of them that still are not certain by differences alone.

    Example:
        >>> search = BruteForce(torch.tensor([[0.0], [1.0], [5.0]], dtype=torch.float64))
        >>> distances, indices = search.nearest(torch.tensor([[0.75]], dtype=torch.float64), 2)
        >>> distances.tolist(), indices.tolist()
        ([[0.25, 0.75]], [[1, 0]])
    """

    def __init__(self, points: torch.Tensor) -> None:
        self.num_points = len(points)
        self.points = points
        self._single = ProductTable.of(points, torch.float32)

    @cached_property
    def _double(self) -> ProductTable:
        return ProductTable.of(self.points, torch.float64)

    def nearest(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return distances (m, k) and int32 indices (m, k) of the k nearest points, nearest first."""
        k = min(count, self.num_points)
        distances = torch.empty(len(queries), k, dtype=torch.float64)
        indices = torch.empty(len(queries), k, dtype=torch.int32)
        step = rows_at_once(_fetched(k, self.num_points) * queries.shape[1])
        for start in range(0, len(queries), step):
            some = slice(start, start + step)
            distances[some], indices[some] = self._nearest(queries[some], k)
        return distances, indices

    def _nearest(self, queries: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        distances, indices, certain = self._by_products(self._single, queries, k)
        if not bool(certain.all()):
            rows = (~certain).nonzero()[:, 0]
            distances[rows], indices[rows], certain[rows] = self._by_products(self._double, queries[rows], k)
        if not bool(certain.all()):
            rows = (~certain).nonzero()[:, 0]
            distances[rows], indices[rows] = self._by_differences(queries[rows], k)
        return distances, indices

    def _by_products(
        self, table: ProductTable, queries: torch.Tensor, k: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return distances, indices, and which rows certainly hold the k nearest, ties aside, (m,)."""
        wanted = _fetched(k, self.num_points)
        estimates, indices = table.smallest(queries, wanted)
        squares = pair_squares(queries, self.points, indices)

        # What was not fetched is estimated no nearer than the last, so it is no nearer than that by `error`.
        error = table.error(queries, squares.amax(dim=1))
        precise = (estimates - squares).abs().amax(dim=1) <= error
        outside = estimates.amax(dim=1) - error
        squares, order = squares.sort(dim=1, stable=True)
        kth = squares[:, k - 1]
        complete = (outside >= kth - _TIE * (1.0 + kth)) | (wanted == self.num_points)
        return squares[:, :k].sqrt(), indices.gather(1, order[:, :k]), precise & complete

    def _by_differences(self, queries: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [
            sorted_pairs(some, self.points, self._all_distances(some).topk(k, largest=False).indices)
            for some in queries.split(rows_at_once(self.num_points))
        ]
        distances, indices = zip(*parts, strict=True)
        return torch.cat(distances), torch.cat(indices)

    def _all_distances(self, queries: torch.Tensor) -> torch.Tensor:
        return torch.cdist(queries, self.points, compute_mode="donot_use_mm_for_euclid_dist")

    def count_within(self, queries: torch.Tensor, radii: torch.Tensor) -> torch.Tensor:
        """Return how many points lie within radius (m,) of each query, int64."""
        counts = torch.empty(len(queries), dtype=torch.int64)
        error = self._single.error(queries, radii.square())
        # Few points are in doubt where the error is small; it is not a number after an overflow.
        coarse = ~(error <= 0.01 * radii.square())
        for rows in coarse.nonzero()[:, 0].split(rows_at_once(self.num_points)):
            counts[rows] = (self._all_distances(queries[rows]) <= radii[rows, None]).sum(dim=1)
        for rows in (~coarse).nonzero()[:, 0].split(QUERIES_AT_ONCE):
            counts[rows] = self._count_by_products(queries[rows], radii[rows], error[rows])
        return counts

    def _count_by_products(
        self, queries: torch.Tensor, radii: torch.Tensor, error: torch.Tensor
    ) -> torch.Tensor:
        counts = torch.zeros(len(queries), dtype=torch.int64)
        offset = radii.square() - self._single.norms(queries).square()  # the rim in terms of ‖y‖² − 2xᵀy
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


def _fetched(k: int, num_points: int) -> int:
    """Return how many points are fetched for k: the gap behind the k-th must exceed the rounding."""
    return min(num_points, k + 8 + k // 8)
