"""The distance of given pairs, by differences in float64, whatever found the pairs."""

from __future__ import annotations

import torch

__all__ = ["pair_squares", "rows_at_once", "sorted_pairs"]

# A chunk of intermediate results holds about so many numbers: 32 MB in float64.
_NUMBERS_AT_ONCE = 1 << 22


def rows_at_once(numbers_per_row: int) -> int:
    """Return how many rows make up a chunk."""
    return max(1, _NUMBERS_AT_ONCE // max(1, numbers_per_row))


def pair_squares(queries: torch.Tensor, points: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Return ‖query − point‖² of each query and the points its row (m, k) of indices names, (m, k)."""
    squares = torch.empty(indices.shape, dtype=torch.float64)
    step = rows_at_once(indices.shape[1] * points.shape[1])
    for start in range(0, len(indices), step):
        some = slice(start, start + step)
        # In place, since the differences (m, k, d) are the largest array of the search.
        differences = points[indices[some]].sub_(queries[some, None, :])
        torch.linalg.vecdot(differences, differences, out=squares[some])
    return squares


def sorted_pairs(
    queries: torch.Tensor, points: torch.Tensor, indices: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return distances (m, k), nearest first, and the indices in that order."""
    squares, order = pair_squares(queries, points, indices).sort(dim=1, stable=True)
    return squares.sqrt_(), indices.gather(1, order)
