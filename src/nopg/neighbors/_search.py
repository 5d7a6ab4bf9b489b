"""What a search for nearest neighbours offers, whatever it is built on."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from nopg.neighbors._psi_mass import Judgement

__all__ = ["NeighborSearch"]


class NeighborSearch(ABC):
    """A search among n points (n, d), given in units of the bandwidth: at distance d, ψ = exp(−½d²).

    Attributes:
        num_points: n.
        judgement: What an approximate search was found to lose so far; None for exact ones.
    """

    num_points: int
    judgement: Judgement | None = None

    @abstractmethod
    def nearest(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return distances (m, k) and int32 indices (m, k) of the k nearest points, nearest first.

        k is count, or n where there are no more; distances are those of the pairs in float64.
        """

    @abstractmethod
    def count_within(self, queries: torch.Tensor, radii: torch.Tensor) -> torch.Tensor:
        """Return how many points lie within radius (m,) of each query, int64."""
