"""Reductions over vectors, behind an interface that a sharded version can implement."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

__all__ = ["LocalSpace", "VectorSpace"]


class VectorSpace(ABC):
    """How vectors of an equation are summed and compared; on several ranks these are all-reduces."""

    @abstractmethod
    def sum(self, x: torch.Tensor) -> float:
        """Return Σ xᵢ."""

    @abstractmethod
    def dot(self, x: torch.Tensor, y: torch.Tensor) -> float:
        """Return Σ xᵢyᵢ."""

    @abstractmethod
    def max(self, x: torch.Tensor) -> float:
        """Return max xᵢ."""


class LocalSpace(VectorSpace):
    """Whole vectors in the memory of one process."""

    def sum(self, x: torch.Tensor) -> float:
        """Return Σ xᵢ."""
        return float(x.sum())

    def dot(self, x: torch.Tensor, y: torch.Tensor) -> float:
        """Return Σ xᵢyᵢ."""
        return float(torch.dot(x, y))

    def max(self, x: torch.Tensor) -> float:
        """Return max xᵢ."""
        return float(x.max())
