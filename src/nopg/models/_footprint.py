"""The memory of an equation, predicted before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass

from nopg._memory import free_memory, gigabytes
from nopg.data import Transitions
from nopg.errors import ArgumentError, MemoryBudgetError

# Default budget as a share of the free memory.
_SHARE_OF_FREE = 0.6
# The interpreter with torch and scipy.
_PROCESS = 450_000_000
_SMALLEST_ROW = 8
# Vectors over the nodes that a solver stores.
_VECTORS = 45


def memory_budget(budget: int | None) -> int:
    """Return the budget in bytes: as given, or 60 % of the free memory."""
    if budget is not None and budget <= 0:
        raise ArgumentError(f"memory_budget is {budget}; give a positive number of bytes, or None")
    return int(_SHARE_OF_FREE * free_memory()) if budget is None else budget


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of the paper's model, its candidate graph and training on it.

    Attributes:
        queries: Rows of the graph, n·g.
        columns: Numbers per transition, 2 d_s + d_a + 1.
    """

    queries: int
    columns: int

    @classmethod
    def of(cls, data: Transitions, queries: int) -> Footprint:
        """Return the footprint of a graph with this many rows over the data."""
        return cls(queries, 2 * data.states.shape[1] + data.actions.shape[1] + 1)

    @property
    def per_candidate(self) -> int:
        """Peak bytes per candidate of a row.

        Its index, its position in the transposed matrix and the row there need 4 bytes each; log ψ, the
        weight and the transposed weight 8 each: training in float32 also ends with a solve in float64. The
        preconditioner needs about 4 more. Rows that are searched again add up to a quarter of the candidates.
        """
        return (12 + 3 * 8 + 4) * 5 // 4

    @property
    def per_row(self) -> int:
        """Bytes per row without its candidates: data, features and vectors of the solver."""
        return 8 * (6 * self.columns) + 8 * _VECTORS

    def bytes(self, candidates: int) -> int:
        """Return the peak memory of the process for rows of K candidates."""
        return _PROCESS + self.queries * (self.per_row + self.per_candidate * candidates)

    def affordable(self, budget: int) -> int:
        """Return the largest K within the budget; raise if it is below 8."""
        K = (budget - _PROCESS - self.queries * self.per_row) // (self.queries * self.per_candidate)
        if K < _SMALLEST_ROW:
            row = self.per_row + self.per_candidate * _SMALLEST_ROW
            fits = max((budget - _PROCESS) // row, 0)
            raise MemoryBudgetError(
                f"{self.queries} rows with {_SMALLEST_ROW} candidates each need "
                f"{gigabytes(self.bytes(_SMALLEST_ROW))}, the budget is {gigabytes(budget)}; {fits} rows "
                "would fit. Raise memory_budget, or train on data.condense(…)"
            )
        return int(K)
