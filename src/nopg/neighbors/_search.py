"""The interface of a search for nearest neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor


class NeighborSearch(ABC):
    """A search among n points (n, d), given in units of the bandwidth: at distance d, ψ = exp(−½d²).

    Attributes:
        num_points: n.
    """

    num_points: int

    @abstractmethod
    def nearest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return distances (m, k) and int32 indices (m, k) of the k nearest points, nearest first.

        k is the smaller of count and n; distances are computed from differences in float64.
        """

    @abstractmethod
    def count_within(self, queries: Tensor, radii: Tensor) -> Tensor:
        """Return the number of points within radius (m,) of each query, int64."""
