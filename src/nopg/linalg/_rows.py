"""Sparse rows with a fixed pattern: many products per update, in both directions."""

from __future__ import annotations

import copy
import warnings
from functools import cached_property
from typing import Self

import numpy as np
import torch
from scipy.sparse import csr_array

from nopg.linalg._halo import Halo

__all__ = ["RowPattern", "SparsePattern", "SparseRows", "row_starts"]

with warnings.catch_warnings():
    # torch says once that compressed sparse rows are in beta; users need not hear it.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1))


class SparsePattern:
    """Where the entries of a sparse (m, n) matrix stand, row after row; built once.

    Args:
        starts: Where each row starts among the entries, shape (m + 1,), int32.
        columns: Column number of each entry, ascending in each row, shape (e,), int32.
        num_columns: n, with those of the halo.
        halo: Where the columns that other ranks own come from; None if all are here.
    """

    def __init__(
        self, starts: torch.Tensor, columns: torch.Tensor, num_columns: int, halo: Halo | None = None
    ) -> None:
        self.starts, self.columns, self.num_columns, self.halo = starts, columns, num_columns, halo
        self.num_rows = len(starts) - 1

    @property
    def num_entries(self) -> int:
        """How many entries there are."""
        return len(self.columns)

    @cached_property
    def row_length(self) -> int:
        """The most entries that stand in one row."""
        return int((self.starts[1:] - self.starts[:-1]).max()) if self.num_rows else 0

    @cached_property
    def longest_column(self) -> int:
        """The most entries that stand in one column."""
        starts = self.transposition[0]
        return int((starts[1:] - starts[:-1]).max()) if self.num_columns else 0

    @cached_property
    def transposition(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Row starts and columns of the transposed matrix, and where its entries stand among the values."""
        # By counting, in the memory of the answer; a sort would take four times as much for a while.
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
    def row_of(self) -> torch.Tensor:
        """The row of each entry, shape (e,)."""
        lengths = (self.starts[1:] - self.starts[:-1]).long()
        return torch.repeat_interleave(torch.arange(self.num_rows, device=lengths.device), lengths)

    def to(self, device: torch.device) -> Self:
        """Return the same pattern on a device."""
        if device == self.columns.device:
            return self
        pattern = copy.copy(self)
        pattern.put(device)
        return pattern

    def put(self, device: torch.device) -> None:
        """Bring this pattern to a device."""
        self.starts, self.columns = self.starts.to(device), self.columns.to(device)
        self.__dict__.pop("transposition", None)

    def extend(self, x: torch.Tensor) -> torch.Tensor:
        """Return x, one row per column that this rank owns, as one row per column of the matrix."""
        return x if self.halo is None else self.halo.extend(x)

    def entries(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values of the entries, row after row, shape (e,)."""
        return values

    def _positions_of(self, entries: torch.Tensor) -> torch.Tensor:
        return entries


class RowPattern(SparsePattern):
    """A pattern of up to K entries in each row, whose values are held as an array (m, K).

    Args:
        indices: Column numbers, ascending in each row, shape (m, K), int32.
        num_columns: n.
        present: Which of the K entries of a row exist, the others being padding, shape (m, K).
        halo: As in `SparsePattern`.
    """

    def __init__(
        self,
        indices: torch.Tensor,
        num_columns: int,
        present: torch.Tensor | None = None,
        halo: Halo | None = None,
    ) -> None:
        self.indices = indices
        m, K = indices.shape

        # Flat positions of the entries that exist; products skip the padding.
        self.positions, lengths = None, torch.full((m,), K, device=indices.device)
        if present is not None and not bool(present.all()):
            lengths = present.sum(dim=1)
            self.positions = _compact(present.flatten().nonzero()[:, 0], m * K)
        super().__init__(row_starts(lengths), self.entries(indices), num_columns, halo)

    @cached_property
    def row_length(self) -> int:
        """K."""
        return self.indices.shape[1]

    def put(self, device: torch.device) -> None:
        """Bring this pattern to a device."""
        super().put(device)
        self.indices = self.indices.to(device)
        self.positions = None if self.positions is None else self.positions.to(device)
        self.columns = self.entries(self.indices)  # without padding a view, not a second copy

    def entries(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values (m, K) of the entries that exist, row after row."""
        flat = values.reshape(-1)
        return flat if self.positions is None else flat.index_select(0, self.positions)

    def _positions_of(self, entries: torch.Tensor) -> torch.Tensor:
        return super()._positions_of(entries) if self.positions is None else self.positions[entries]


class SparseRows:
    """An (m, n) matrix: a pattern and the values of this update.

    Attributes:
        transposed_values: The values in the order of the transposed matrix, once they have been put there.

    Args:
        pattern: Where the entries stand.
        values: One number per entry, shape (m, K) or (e,) as the pattern has it.
        instead_of: An earlier matrix of this pattern whose memory may be overwritten.
    """

    transposed_values: torch.Tensor | None

    def __init__(
        self, pattern: SparsePattern, values: torch.Tensor, *, instead_of: SparseRows | None = None
    ) -> None:
        self.pattern = pattern
        self.values = values
        self.transposed_values = None if instead_of is None else instead_of.transposed_values

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product with a vector (n,) or several columns (n, c)."""
        return self._forward @ self.pattern.extend(x)

    def apply_transposed(self, y: torch.Tensor) -> torch.Tensor:
        """Return the transposed product with a vector (m,) or several columns (m, c)."""
        halo = self.pattern.halo
        product = self._backward @ y
        return product if halo is None else halo.fold(product)

    def sums(self) -> torch.Tensor:
        """Return the sum of each row, shape (m,)."""
        if self.values.ndim == 2:
            return self.values.sum(dim=1)
        return self._forward @ self.values.new_ones(self.pattern.num_columns)

    def to_dense(self) -> torch.Tensor:
        """Return the matrix as an (m, n) array; only for small sizes."""
        return self._forward @ torch.eye(
            self.pattern.num_columns, dtype=self.values.dtype, device=self.values.device
        )

    @cached_property
    def _forward(self) -> torch.Tensor:
        pattern = self.pattern
        return torch.sparse_csr_tensor(
            pattern.starts,
            pattern.columns,
            pattern.entries(self.values),
            (pattern.num_rows, pattern.num_columns),
            device=self.values.device,
            check_invariants=False,
        )

    @cached_property
    def _backward(self) -> torch.Tensor:
        starts, columns, positions = self.pattern.transposition
        if self.transposed_values is None or self.transposed_values.dtype != self.values.dtype:
            self.transposed_values = self.values.new_empty(len(positions))
        torch.index_select(self.values.reshape(-1), 0, positions, out=self.transposed_values)
        return torch.sparse_csr_tensor(
            starts,
            columns,
            self.transposed_values,
            (self.pattern.num_columns, self.pattern.num_rows),
            device=self.values.device,
            check_invariants=False,
        )


def row_starts(counts: torch.Tensor) -> torch.Tensor:
    """Return where rows of these lengths start, one after the other, int32."""
    starts = torch.zeros(len(counts) + 1, dtype=torch.int32, device=counts.device)
    starts[1:] = counts.cumsum(0)
    return starts


def _compact(positions: torch.Tensor, end: int) -> torch.Tensor:
    """Return positions below `end` as int32 where they fit: half the memory."""
    return positions.int() if end < 2**31 else positions
