"""Squared distances: of all pairs by matrix products with bounded rounding, of given pairs exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

# A block of distances is read twice right after it was written: 8 MB stay in the cache.
QUERIES_AT_ONCE = 16
_POINTS_AT_ONCE = 131_072
_GROUP = 32
_NUMBERS_AT_ONCE = 1 << 22  # of a chunk of intermediate results: 32 MB in float64


@dataclass(frozen=True, slots=True)
class ProductTable:
    """Centred points for ‖x − y‖² = ‖x‖² + ‖y‖² − 2xᵀy with many queries x; rounding is bounded.

    Attributes:
        points: y, centred, padded with zeros to whole groups, shape (N, d).
        squares: ‖y‖², ∞ for padding, shape (N,).
        center: The mean of the points in float64, shape (d,).
        num_points: n, without the padding.
    """

    points: Tensor
    squares: Tensor
    center: Tensor
    num_points: int

    @classmethod
    def of(cls, points: Tensor, dtype: torch.dtype) -> ProductTable:
        """Return the table of points (n, d) with products in dtype."""
        n, d = points.shape
        padded = torch.zeros(-(-n // _GROUP) * _GROUP, d, dtype=dtype)
        squares = torch.full((len(padded),), torch.inf, dtype=dtype)
        center = points.mean(dim=0)
        padded[:n] = points - center
        squares[:n] = padded[:n].square().sum(dim=1)
        return cls(padded, squares, center, n)

    def norms(self, queries: Tensor) -> Tensor:
        """Return ‖x‖ of the centred queries, (m,)."""
        return (queries - self.center).square().sum(dim=1).sqrt()

    def error(self, queries: Tensor, squares: Tensor) -> Tensor:
        """Return a bound (m,) on the error of estimates up to the squared distances (m,).

        The error of a product of length d is at most (d + 2)u‖x‖‖y‖ with u the unit roundoff, where ‖y‖ is at
        most ‖x‖ + distance; the factor 2 covers the rounding of the points and of the sums.
        """
        unit = 0.5 * torch.finfo(self.points.dtype).eps
        size = 2.0 * self.norms(queries) + squares.sqrt()
        return 2.0 * (self.points.shape[1] + 4) * unit * size.square()

    def blocks(self, queries: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield the index of the first point of each block, and ‖y‖² − 2xᵀy of the queries and its points."""
        x = (queries - self.center).to(self.points.dtype)
        for start in range(0, len(self.points), _POINTS_AT_ONCE):
            some = slice(start, start + _POINTS_AT_ONCE)
            yield start, torch.addmm(self.squares[some], x, self.points[some].T, alpha=-2)

    def smallest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return estimates of the smallest squared distances (m, count) in float64, and their indices."""
        parts = [self._smallest(some, count) for some in queries.split(QUERIES_AT_ONCE)]
        values, indices = (torch.cat(part) for part in zip(*parts, strict=True))
        estimates = values.double() + self.norms(queries).square()[:, None]
        # Padding is chosen only after an overflow, which the estimates show.
        return estimates, indices.clamp_(max=self.num_points - 1)

    def _smallest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        found = [(start, *_smallest_of(block, count)) for start, block in self.blocks(queries)]
        values = [some for _, some, _ in found]
        indices = [columns + start for start, _, columns in found]
        best, order = torch.cat(values, dim=1).topk(count, largest=False, sorted=False)
        return best, torch.cat(indices, dim=1).gather(1, order)


def _smallest_of(block: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the smallest values (m, count) of each row, or all if there are fewer, and their columns.

    The smallest `count` values lie in the `count` groups with the smallest minima, and minima are cheap.
    """
    if block.shape[1] <= count * _GROUP:
        best = block.topk(min(count, block.shape[1]), largest=False, sorted=False)
        return best.values, best.indices
    minima = block.view(len(block), -1, _GROUP).amin(dim=2)
    groups = minima.topk(count, largest=False, sorted=False).indices
    columns = (groups[:, :, None] * _GROUP + torch.arange(_GROUP)).flatten(start_dim=1)
    values, order = block.gather(1, columns).topk(count, largest=False, sorted=False)
    return values, columns.gather(1, order)


def count_below(block: Tensor, limits: Tensor) -> Tensor:
    """Return the number (m,) of values of each row that are at most the limit (m, 1) of the row."""
    # A sum of floats is several times faster than a sum of booleans, and exact up to 2²⁴.
    return torch.le(block, limits, out=torch.empty_like(block)).sum(dim=1).long()


def rows_at_once(numbers_per_row: int) -> int:
    """Return the number of rows of a chunk."""
    return max(1, _NUMBERS_AT_ONCE // max(1, numbers_per_row))


def pair_squares(queries: Tensor, points: Tensor, indices: Tensor) -> Tensor:
    """Return ‖query − point‖² (m, k) of each query and the points in its row (m, k) of indices."""
    squares = torch.empty(indices.shape, dtype=torch.float64)
    step = rows_at_once(indices.shape[1] * points.shape[1])
    for start in range(0, len(indices), step):
        some = slice(start, start + step)
        # In place: the differences (m, k, d) are the largest array of the search.
        differences = points[indices[some]].sub_(queries[some, None, :])
        torch.linalg.vecdot(differences, differences, out=squares[some])
    return squares


def sorted_pairs(queries: Tensor, points: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return distances (m, k), nearest first, and the indices in that order."""
    squares, order = pair_squares(queries, points, indices).sort(dim=1, stable=True)
    return squares.sqrt_(), indices.gather(1, order)
