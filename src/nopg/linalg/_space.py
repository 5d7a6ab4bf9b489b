"""Reductions over vectors whose entries may be spread over several ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nopg._ranks import ALONE, Ranks

__all__ = ["VectorSpace"]


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """Sums and maxima of vectors; on several ranks these are all-reduces.

    Attributes:
        ranks: The ranks that share the entries.
    """

    ranks: Ranks = ALONE

    def sum(self, x: Tensor) -> float:
        """Return Σ xᵢ."""
        return float(self.ranks.sum(x.sum()))

    def dot(self, x: Tensor, y: Tensor) -> float:
        """Return Σ xᵢyᵢ."""
        return float(self.ranks.sum(torch.dot(x, y)))

    def dots(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the product (k,) of each row of x (k, n) with y (n,)."""
        return self.ranks.sum(x @ y)

    def max(self, x: Tensor) -> float:
        """Return max xᵢ; −∞ of an empty vector."""
        return float(self.ranks.max(x.max() if len(x) else x.new_full((), -torch.inf)))
