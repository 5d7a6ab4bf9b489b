"""All distances as matrix products ‖x − y‖² = ‖x‖² + ‖y‖² − 2xᵀy: fast, and wrong by a bounded rounding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

__all__ = ["QUERIES_AT_ONCE", "ProductTable", "count_below"]

# A block of distances is read twice right after it was written: 8 MB stay in the cache.
QUERIES_AT_ONCE = 16
_POINTS_AT_ONCE = 131_072
_GROUP = 32


@dataclass(frozen=True, slots=True)
class ProductTable:
    """Points around their mean, ready for products with many queries.

    Attributes:
        points: y, centred, padded with zeros to whole groups, shape (N, d).
        squares: ‖y‖², ∞ for padding, shape (N,).
        center: The mean of the points in float64, shape (d,).
        num_points: n, without the padding.
    """

    points: torch.Tensor
    squares: torch.Tensor
    center: torch.Tensor
    num_points: int

    @classmethod
    def of(cls, points: torch.Tensor, dtype: torch.dtype) -> ProductTable:
        """Return the table of points (n, d) with products in dtype."""
        n, d = points.shape
        padded = torch.zeros(-(-n // _GROUP) * _GROUP, d, dtype=dtype)
        squares = torch.full((len(padded),), torch.inf, dtype=dtype)
        center = points.mean(dim=0)
        padded[:n] = points - center
        squares[:n] = padded[:n].square().sum(dim=1)
        return cls(padded, squares, center, n)

    def norms(self, queries: torch.Tensor) -> torch.Tensor:
        """Return ‖x‖ of the centred queries, (m,)."""
        return (queries - self.center).square().sum(dim=1).sqrt()

    def error(self, queries: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
        """Return a bound on the error of estimates up to the squared distances (m,), (m,).

        A product of length d errs by at most (d + 2)u‖x‖‖y‖ with u the unit roundoff, where ‖y‖ is at most
        ‖x‖ + distance; the factor 2 covers the rounding of the points and of the sums.
        """
        unit = 0.5 * torch.finfo(self.points.dtype).eps
        size = 2.0 * self.norms(queries) + squares.sqrt()
        return 2.0 * (self.points.shape[1] + 4) * unit * size.square()

    def blocks(self, queries: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the number of a block's first point and ‖y‖² − 2xᵀy of queries and the block's points."""
        x = (queries - self.center).to(self.points.dtype)
        for start in range(0, len(self.points), _POINTS_AT_ONCE):
            some = slice(start, start + _POINTS_AT_ONCE)
            yield start, torch.addmm(self.squares[some], x, self.points[some].T, alpha=-2)

    def smallest(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return estimates of the smallest squared distances (m, count) in float64, and their indices."""
        parts = [self._smallest(some, count) for some in queries.split(QUERIES_AT_ONCE)]
        values, indices = (torch.cat(part) for part in zip(*parts, strict=True))
        estimates = values.double() + self.norms(queries).square()[:, None]
        # Padding is chosen only where an overflow left no meaning, which the estimates then show.
        return estimates, indices.clamp_(max=self.num_points - 1)

    def _smallest(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = [], []
        for start, block in self.blocks(queries):
            some, columns = _smallest_of(block, count)
            values.append(some)
            indices.append(columns + start)
        best, order = torch.cat(values, dim=1).topk(count, largest=False, sorted=False)
        return best, torch.cat(indices, dim=1).gather(1, order)


def _smallest_of(block: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the smallest values of each row (m, count), or all where there are fewer, and their columns.

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


def count_below(block: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
    """Return how many values of each row are at most the limit of the row (m, 1), (m,)."""
    # Ones and zeros as numbers add up several times faster than as truth values, and exactly up to 2²⁴.
    return torch.le(block, limits, out=torch.empty_like(block)).sum(dim=1).long()
