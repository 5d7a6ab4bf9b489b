"""Exact nearest neighbours by a kd-tree: the fastest where the data live in few dimensions."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree

from nopg.errors import ArgumentError
from nopg.neighbors._search import NeighborSearch

__all__ = ["NeighborTree"]

_QUERIES_AT_ONCE = 65_536

# Squares of larger numbers overflow.
_FARTHEST = 1e150


class NeighborTree(NeighborSearch):
    """A kd-tree over points (n, d); ties are broken by the tree, so ask with some slack where it matters.

    Example:
        >>> tree = NeighborTree(torch.tensor([[0.0], [1.0], [5.0]], dtype=torch.float64))
        >>> distances, indices = tree.nearest(torch.tensor([[0.9]], dtype=torch.float64), 2)
        >>> indices.tolist()
        [[1, 0]]
    """

    def __init__(self, points: torch.Tensor) -> None:
        self.num_points = len(points)
        self._tree = cKDTree(_finite(points).numpy())

    def nearest(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return distances (m, k) and int32 indices (m, k) of the k nearest points, nearest first."""
        k = min(count, self.num_points)
        distances = torch.empty(len(queries), k, dtype=torch.float64)
        indices = torch.empty(len(queries), k, dtype=torch.int32)

        # Neighbouring queries walk the same branches: in tree order they find them in the cache.
        order = torch.as_tensor(cKDTree(_finite(queries).numpy(), leafsize=64).indices)
        for rows in order.split(_QUERIES_AT_ONCE):
            d, j = self._tree.query(queries[rows].numpy(), k=k, workers=torch.get_num_threads())
            distances[rows] = torch.as_tensor(np.reshape(d, (len(rows), k)))
            indices[rows] = torch.as_tensor(np.reshape(j, (len(rows), k)).astype(np.int32))
        return distances, indices

    def count_within(self, queries: torch.Tensor, radii: torch.Tensor) -> torch.Tensor:
        """Return how many points lie within radius (m,) of each query, int64."""
        counts = self._tree.query_ball_point(
            queries.numpy(), radii.numpy(), return_length=True, workers=torch.get_num_threads()
        )
        return torch.as_tensor(np.asarray(counts, dtype=np.int64))


def _finite(points: torch.Tensor) -> torch.Tensor:
    """Return the points if they can have neighbours."""
    if not bool((points.abs() < _FARTHEST).all()):  # NaN included
        raise ArgumentError(
            "states lie more bandwidths apart than numbers can hold; give wider bandwidths, or look for "
            "outliers in the data (nopg.describe)"
        )
    return points
