"""What an equation will take in memory, said before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass

from nopg._memory import free_memory, gigabytes
from nopg.data import Transitions
from nopg.errors import ArgumentError, MemoryBudgetError

__all__ = ["Footprint", "memory_budget"]

# By default what is free is not all taken.
_SHARE_OF_FREE = 0.6
# The interpreter with torch and scipy in it.
_PROCESS = 450_000_000
_SMALLEST_ROW = 8
# Vectors over the nodes that a solve keeps: its basis and what it works with.
_VECTORS = 45


def memory_budget(budget: int | None) -> int:
    """Return the bytes that may be taken: as given, or 60 % of what is free."""
    if budget is not None and budget <= 0:
        raise ArgumentError(f"memory_budget is {budget}; give a positive number of bytes, or None")
    return int(_SHARE_OF_FREE * free_memory()) if budget is None else budget


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of the paper's model, its candidate graph and training on it, on one rank.

    Attributes:
        queries: Rows of the graph, n·g.
        columns: Numbers of one transition, 2 d_s + d_a + 1.
    """

    queries: int
    columns: int

    @classmethod
    def of(cls, data: Transitions, queries: int) -> Footprint:
        """Return the footprint of so many rows of a graph over data like these."""
        return cls(queries, 2 * data.states.shape[1] + data.actions.shape[1] + 1)

    @property
    def per_candidate(self) -> int:
        """Bytes that one candidate of one row takes at the peak.

        Its number, its place in the transposed matrix and the row there take 4 each; log ψ, the weight and
        the transposed weight one number each, of 8 bytes: a training in float32 also ends with a solve in
        float64. Some more is for the preconditioner.
        """
        return 12 + 3 * 8 + 4

    @property
    def per_row(self) -> int:
        """Bytes that one row takes apart from its candidates: data, features and vectors of the solver."""
        return 8 * (6 * self.columns) + 8 * _VECTORS

    def bytes(self, candidates: int) -> int:
        """Return the peak of the process for rows of K candidates."""
        return _PROCESS + self.queries * (self.per_row + self.per_candidate * candidates)

    def affordable(self, budget: int) -> int:
        """Return the K that fits the budget; refuse if that is hardly any."""
        K = (budget - _PROCESS - self.queries * self.per_row) // (self.queries * self.per_candidate)
        if K < _SMALLEST_ROW:
            row = self.per_row + self.per_candidate * _SMALLEST_ROW
            fits = max((budget - _PROCESS) // row, 0)
            raise MemoryBudgetError(
                f"{self.queries} rows with {_SMALLEST_ROW} candidates each need "
                f"{gigabytes(self.bytes(_SMALLEST_ROW))}, the budget is {gigabytes(budget)}; {fits} rows "
                "would fit. Raise memory_budget, train on data.condense(…), or share the rows over machines "
                "with torchrun"
            )
        return int(K)
