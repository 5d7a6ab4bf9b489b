"""Reductions over vectors whose entries may be spread over several ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg._ranks import ALONE, Ranks

__all__ = ["VectorSpace"]


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """How vectors of an equation are summed and compared; on several ranks these are all-reduces.

    Attributes:
        ranks: Who holds the entries; one rank holds them all.
    """

    ranks: Ranks = ALONE

    def sum(self, x: torch.Tensor) -> float:
        """Return Σ xᵢ."""
        return float(self.ranks.sum(x.sum()))

    def dot(self, x: torch.Tensor, y: torch.Tensor) -> float:
        """Return Σ xᵢyᵢ."""
        return float(self.ranks.sum(torch.dot(x, y)))

    def dots(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the product (k,) of each row of x (k, n) with y (n,)."""
        return self.ranks.sum(x @ y)

    def max(self, x: torch.Tensor) -> float:
        """Return max xᵢ; −∞ where nobody has an entry."""
        return float(self.ranks.max(x.max() if len(x) else x.new_full((), -torch.inf)))
