"""Sparse matrices with a fixed pattern, for many products per update in both directions."""

from __future__ import annotations

import copy
import warnings
from functools import cached_property
from typing import Self

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

with warnings.catch_warnings():
    # torch warns once that compressed sparse rows are in beta.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1))


class SparsePattern:
    """The positions of the entries of a sparse (m, n) matrix, row by row; built once.

    Args:
        starts: First entry of each row, shape (m + 1,), int32.
        columns: Column of each entry, ascending in each row, shape (e,), int32.
        num_columns: n.
    """

    def __init__(self, starts: Tensor, columns: Tensor, num_columns: int) -> None:
        self.starts, self.columns, self.num_columns = starts, columns, num_columns
        self.num_rows = len(starts) - 1

    @property
    def num_entries(self) -> int:
        """Number of entries."""
        return len(self.columns)

    @cached_property
    def row_length(self) -> int:
        """Largest number of entries in a row."""
        return int((self.starts[1:] - self.starts[:-1]).max())

    @cached_property
    def longest_column(self) -> int:
        """Largest number of entries in a column."""
        starts = self.transposition[0]
        return int((starts[1:] - starts[:-1]).max())

    @cached_property
    def transposition(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row starts and columns of the transposed matrix, and the position of its entries in the values."""
        # By counting: a sort would need four times as much memory.
        numbers = np.arange(self.num_entries, dtype=np.int32 if self.num_entries < 2**31 else np.int64)
        shape = (self.num_rows, self.num_columns)
        matrix = csr_array((numbers, self.columns.cpu().numpy(), self.starts.cpu().numpy()), shape=shape)
        by_column = matrix.tocsc()
        starts, rows, order = (
            torch.as_tensor(part, device=self.columns.device)
            for part in (by_column.indptr, by_column.indices, by_column.data)
        )
        return starts, rows, self._positions_of(order)

    @property
    def row_of(self) -> Tensor:
        """Row of each entry, shape (e,)."""
        lengths = (self.starts[1:] - self.starts[:-1]).long()
        return torch.repeat_interleave(torch.arange(self.num_rows, device=lengths.device), lengths)

    def to(self, device: torch.device) -> Self:
        """Return the same pattern on a device."""
        if device == self.columns.device:
            return self
        pattern = copy.copy(self)
        pattern.move(device)
        return pattern

    def move(self, device: torch.device) -> None:
        """Move this pattern to a device."""
        self.starts, self.columns = self.starts.to(device), self.columns.to(device)
        self.__dict__.pop("transposition", None)

    def entries(self, values: Tensor) -> Tensor:
        """Return the values of the entries, row by row, shape (e,)."""
        return values

    def _positions_of(self, entries: Tensor) -> Tensor:
        return entries


class RowPattern(SparsePattern):
    """A pattern of up to K entries in each row, whose values are an array (m, K).

    Args:
        indices: Columns, ascending in each row, shape (m, K), int32.
        num_columns: n.
        present: Whether an entry exists or is padding, shape (m, K).
    """

    def __init__(self, indices: Tensor, num_columns: int, present: Tensor | None = None) -> None:
        self.indices = indices
        m, K = indices.shape

        # Flat positions of the entries that exist; products skip the padding.
        self.positions, lengths = None, torch.full((m,), K, device=indices.device)
        if present is not None and not bool(present.all()):
            lengths = present.sum(dim=1)
            positions = present.flatten().nonzero()[:, 0]
            self.positions = positions.int() if m * K < 2**31 else positions  # half the memory
        super().__init__(row_starts(lengths), self.entries(indices), num_columns)

    @cached_property
    def row_length(self) -> int:
        """K."""
        return self.indices.shape[1]

    def move(self, device: torch.device) -> None:
        """Move this pattern to a device."""
        super().move(device)
        self.indices = self.indices.to(device)
        self.positions = None if self.positions is None else self.positions.to(device)
        self.columns = self.entries(self.indices)  # a view if there is no padding

    def entries(self, values: Tensor) -> Tensor:
        """Return the values (m, K) of the entries that exist, row by row."""
        flat = values.reshape(-1)
        return flat if self.positions is None else flat.index_select(0, self.positions)

    def _positions_of(self, entries: Tensor) -> Tensor:
        return super()._positions_of(entries) if self.positions is None else self.positions[entries]


class SparseRows:
    """An (m, n) matrix: a pattern and the values of this update.

    Args:
        pattern: Positions of the entries.
        values: One number per entry, shape (m, K) for a `RowPattern`, else (e,).
        out: An earlier matrix of this pattern whose memory may be overwritten.

    Attributes:
        transposed_values: The values in the order of the transposed matrix, after the first use of it.
    """

    transposed_values: Tensor | None

    def __init__(self, pattern: SparsePattern, values: Tensor, *, out: SparseRows | None = None) -> None:
        self.pattern, self.values = pattern, values
        self.transposed_values = None if out is None else out.transposed_values

    @property
    def num_entries(self) -> int:
        """Number of entries that a product reads."""
        return self.pattern.num_entries

    @property
    def longest_row(self) -> int:
        """Largest number of entries in a row."""
        return self.pattern.row_length

    @property
    def longest_column(self) -> int:
        """Largest number of entries in a column."""
        return self.pattern.longest_column

    def apply(self, x: Tensor) -> Tensor:
        """Return the product with a vector (n,) or several columns (n, c)."""
        return self._forward @ x

    def apply_transposed(self, y: Tensor) -> Tensor:
        """Return the transposed product with a vector (m,) or several columns (m, c)."""
        return self._backward @ y

    def sums(self) -> Tensor:
        """Return the sum of each row, shape (m,)."""
        if self.values.ndim == 2:
            return self.values.sum(dim=1)
        return self._forward @ self.values.new_ones(self.pattern.num_columns)

    def to_dense(self) -> Tensor:
        """Return the matrix as an (m, n) array; only for small sizes."""
        return self._forward @ torch.eye(
            self.pattern.num_columns, dtype=self.values.dtype, device=self.values.device
        )

    @cached_property
    def _forward(self) -> Tensor:
        pattern = self.pattern
        shape = (pattern.num_rows, pattern.num_columns)
        return _csr_tensor(pattern.starts, pattern.columns, pattern.entries(self.values), shape)

    @cached_property
    def _backward(self) -> Tensor:
        starts, columns, positions = self.pattern.transposition
        if self.transposed_values is None or self.transposed_values.dtype != self.values.dtype:
            self.transposed_values = self.values.new_empty(len(positions))
        torch.index_select(self.values.reshape(-1), 0, positions, out=self.transposed_values)
        shape = (self.pattern.num_columns, self.pattern.num_rows)
        return _csr_tensor(starts, columns, self.transposed_values, shape)


def row_starts(counts: Tensor) -> Tensor:
    """Return the starts of consecutive rows of these lengths, int32."""
    starts = torch.zeros(len(counts) + 1, dtype=torch.int32, device=counts.device)
    starts[1:] = counts.cumsum(0)
    return starts


def _csr_tensor(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_csr_tensor(
        starts, columns, values, shape, device=values.device, check_invariants=False
    )
