"""A sparse matrix some of whose rows are replaced by longer ones."""

from __future__ import annotations

from torch import Tensor

from nopg.linalg._rows import SparseRows


class ReplacedRows(SparseRows):
    """A matrix of a fixed pattern with a few rows of another one.

    The fixed pattern stays what solvers share a preconditioner by.

    Args:
        rows: The matrix of the fixed pattern.
        where: The rows to replace, shape (r,).
        others: What replaces them, shape (r, n).
    """

    def __init__(self, rows: SparseRows, where: Tensor, others: SparseRows) -> None:
        super().__init__(rows.pattern, rows.values)
        self.rows, self.where, self.others = rows, where, others

    @property
    def num_entries(self) -> int:
        """Number of entries that a product reads."""
        return self.rows.num_entries + self.others.num_entries

    @property
    def longest_row(self) -> int:
        """Largest number of entries in a row."""
        return max(self.rows.longest_row, self.others.longest_row)

    @property
    def longest_column(self) -> int:
        """At least the largest number of entries in a column."""
        return self.rows.longest_column + self.others.longest_column

    def apply(self, x: Tensor) -> Tensor:
        """Return the product with a vector (n,) or several columns (n, c)."""
        return self.rows.apply(x).index_copy_(0, self.where, self.others.apply(x))

    def apply_transposed(self, y: Tensor) -> Tensor:
        """Return the transposed product with a vector (m,) or several columns (m, c)."""
        rest = y.index_fill(0, self.where, 0.0)
        return self.rows.apply_transposed(rest) + self.others.apply_transposed(y[self.where])

    def sums(self) -> Tensor:
        """Return the sum of each row, shape (m,)."""
        return self.rows.sums().index_copy_(0, self.where, self.others.sums())

    def to_dense(self) -> Tensor:
        """Return the matrix as an (m, n) array; only for small sizes."""
        return self.rows.to_dense().index_copy_(0, self.where, self.others.to_dense())
