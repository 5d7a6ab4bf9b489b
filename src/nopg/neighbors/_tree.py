"""Exact nearest neighbours by a kd-tree: the fastest where the data fill few dimensions."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg.errors import ArgumentError
from nopg.neighbors._search import NeighborSearch

_QUERIES_AT_ONCE = 65_536
_LARGEST = 1e150  # squares of larger numbers overflow


class NeighborTree(NeighborSearch):
    """A kd-tree over points (n, d); the order of equally distant points is that of the tree.

    Example:
        >>> tree = NeighborTree(torch.tensor([[0.0], [1.0], [5.0]], dtype=torch.float64))
        >>> distances, indices = tree.nearest(torch.tensor([[0.9]], dtype=torch.float64), 2)
        >>> indices.tolist()
        [[1, 0]]
    """

    def __init__(self, points: Tensor) -> None:
        self.num_points = len(points)
        self._tree = cKDTree(_check_magnitude(points).numpy())

    def nearest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return distances (m, k) and int32 indices (m, k) of the k nearest points, nearest first."""
        k = min(count, self.num_points)
        distances = torch.empty(len(queries), k, dtype=torch.float64)
        indices = torch.empty(len(queries), k, dtype=torch.int32)

        # Nearby queries visit the same branches: in tree order these are in the cache.
        order = torch.as_tensor(cKDTree(_check_magnitude(queries).numpy(), leafsize=64).indices)
        for rows in order.split(_QUERIES_AT_ONCE):
            d, j = self._tree.query(queries[rows].numpy(), k=k, workers=torch.get_num_threads())
            distances[rows] = torch.as_tensor(np.reshape(d, (len(rows), k)))
            indices[rows] = torch.as_tensor(np.reshape(j, (len(rows), k)).astype(np.int32))
        return distances, indices

    def count_within(self, queries: Tensor, radii: Tensor) -> Tensor:
        """Return the number of points within radius (m,) of each query, int64."""
        counts = self._tree.query_ball_point(
            queries.numpy(), radii.numpy(), return_length=True, workers=torch.get_num_threads()
        )
        return torch.as_tensor(np.asarray(counts, dtype=np.int64))


def _check_magnitude(points: Tensor) -> Tensor:
    """Return the points if their squared distances are finite numbers."""
    if not bool((points.abs() < _LARGEST).all()):  # NaN included
        raise ArgumentError(
            "states lie more bandwidths apart than numbers can hold; give wider bandwidths, or look for "
            "outliers in the data (nopg.describe)"
        )
    return points
