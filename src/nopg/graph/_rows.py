"""Sparse rows with a fixed pattern: many products per update, in both directions."""

from __future__ import annotations

import warnings
from functools import cached_property

import torch

__all__ = ["RowPattern", "SparseRows"]

with warnings.catch_warnings():
    # torch says once that compressed sparse rows are in beta; users need not hear it.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1))


class RowPattern:
    """Where the entries of an (m, n) matrix with up to K entries in each row stand; built once.

    Args:
        indices: Column numbers, ascending in each row, shape (m, K), int32.
        num_columns: n.
        present: Which of the K entries of a row exist, the others being padding, shape (m, K).
    """

    def __init__(self, indices: torch.Tensor, num_columns: int, present: torch.Tensor | None = None) -> None:
        self.indices = indices
        self.num_rows, self.row_length = indices.shape
        self.num_columns = num_columns

        # Flat positions of the entries that exist; products skip the padding.
        if present is None:
            present = torch.ones(1, 1, dtype=torch.bool).expand_as(indices)
        self.positions = None if bool(present.all()) else _compact(present.flatten().nonzero()[:, 0])
        self.starts = _starts(present.sum(dim=1))  # (m + 1,)
        self.columns = self.entries(indices)

    @cached_property
    def transposition(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Row starts and columns of the transposed matrix, and where its values stand in (m, K)."""
        order = torch.argsort(self.columns, stable=True)
        positions = _compact(order) if self.positions is None else self.positions[order]
        starts = _starts(torch.bincount(self.columns, minlength=self.num_columns))
        return starts, (positions // self.row_length).int(), positions

    @cached_property
    def longest_column(self) -> int:
        """The most entries that stand in one column."""
        starts = self.transposition[0]
        return int((starts[1:] - starts[:-1]).max())

    def entries(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values (m, K) of the entries that exist, row after row."""
        flat = values.reshape(-1)
        return flat if self.positions is None else flat.index_select(0, self.positions)


class SparseRows:
    """An (m, n) matrix: a pattern and the values (m, K) of this update."""

    def __init__(self, pattern: RowPattern, values: torch.Tensor) -> None:
        self.pattern = pattern
        self.values = values

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product with a vector (n,) or several columns (n, c)."""
        return self._forward @ x

    def apply_transposed(self, y: torch.Tensor) -> torch.Tensor:
        """Return the transposed product with a vector (m,) or several columns (m, c)."""
        return self._backward @ y

    def sums(self) -> torch.Tensor:
        """Return the sum of each row, shape (m,)."""
        return self.values.sum(dim=1)

    def to_dense(self) -> torch.Tensor:
        """Return the matrix as an (m, n) array; only for small sizes."""
        dense = self.values.new_zeros(self.pattern.num_rows, self.pattern.num_columns)
        return dense.scatter_add_(1, self.pattern.indices.long(), self.values)

    @cached_property
    def _forward(self) -> torch.Tensor:
        pattern = self.pattern
        return torch.sparse_csr_tensor(
            pattern.starts,
            pattern.columns,
            pattern.entries(self.values),
            (pattern.num_rows, pattern.num_columns),
            check_invariants=False,
        )

    @cached_property
    def _backward(self) -> torch.Tensor:
        starts, columns, positions = self.pattern.transposition
        return torch.sparse_csr_tensor(
            starts,
            columns,
            self.values.reshape(-1).index_select(0, positions),
            (self.pattern.num_columns, self.pattern.num_rows),
            check_invariants=False,
        )


def _starts(counts: torch.Tensor) -> torch.Tensor:
    """Return where rows of these lengths start, one after the other, int32."""
    starts = torch.zeros(len(counts) + 1, dtype=torch.int32)
    starts[1:] = counts.cumsum(0)
    return starts


def _compact(positions: torch.Tensor) -> torch.Tensor:
    """Return positions as int32 where they fit: half the memory."""
    return positions.int() if len(positions) == 0 or int(positions.max()) < 2**31 else positions
