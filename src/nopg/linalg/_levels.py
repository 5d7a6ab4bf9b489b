"""One level of aggregation: cells of rows, the pattern between the cells, and its values for one update."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nopg.linalg._rows import SparsePattern, SparseRows, row_starts

# Share of the weight of a cell that is divided evenly among its rows, whatever the visits.
_EVEN_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Level:
    """The cells of one level and the pattern between them; built once.

    Attributes:
        labels: Cell of each row of the level above, shape (m,).
        num_cells: c.
        pattern: Entries between cells, (c, c).
        row_of: Row of each entry of the level above, shape (e,).
        target: Entry of this level that each entry of the level above is added to, shape (e,).
        rows_per_cell: k if the labels are k zeros, k ones and so on; else 0.
    """

    labels: Tensor
    num_cells: int
    pattern: SparsePattern
    row_of: Tensor
    target: Tensor
    rows_per_cell: int

    def to(self, device: torch.device) -> Level:
        """Return the same level on a device."""
        parts = {name: getattr(self, name).to(device) for name in ("labels", "pattern", "row_of", "target")}
        return replace(self, **parts)

    def cell_sums(self, x: Tensor) -> Tensor:
        """Return the sum of x (m,) over the rows of each cell."""
        if self.rows_per_cell:
            return x.view(-1, self.rows_per_cell).sum(dim=1)
        return x.new_zeros(self.num_cells).index_add_(0, self.labels, x)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A level for one update: the weights W (m,) of the rows above, and P between the cells."""

    level: Level
    weights: Tensor
    P: SparseRows

    @classmethod
    def of(cls, level: Level, entries: Tensor, weights: Tensor) -> Aggregation:
        """Return P = WᵀCY for the entries of C on the level above."""
        P = entries.new_zeros(level.pattern.num_entries)
        P.index_add_(0, level.target, entries * weights[level.row_of])
        return cls(level, weights, SparseRows(level.pattern, P))

    def restrict(self, x: Tensor, *, transposed: bool) -> Tensor:
        """Return Wᵀx, or Yᵀx."""
        return self.level.cell_sums(x if transposed else x * self.weights)

    def prolong(self, y: Tensor, *, transposed: bool) -> Tensor:
        """Return Yy, or Wy."""
        k = self.level.rows_per_cell
        # Of a single cell the expanded values are a view, which cannot be written to.
        x = y[:, None].expand(-1, k).reshape(-1).contiguous() if k else y.index_select(0, self.level.labels)
        return x.mul_(self.weights) if transposed else x


def cell_weights(level: Level, visits: Tensor) -> tuple[Tensor, Tensor]:
    """Return W (m,), the share of each row in the visits (m,) of its cell, and the visits of the cells."""
    labels, total = level.labels, level.cell_sums(visits)
    even = 1.0 / level.cell_sums(torch.ones_like(visits))[labels]
    share = visits / torch.where(total > 0, total, 1.0)[labels]
    weights = torch.where(total[labels] > 0, (1 - _EVEN_SHARE) * share + _EVEN_SHARE * even, even)
    return weights, total


def build_level(labels: Tensor, num_cells: int, row_of: Tensor, columns: Tensor) -> Level:
    """Return a level from the entries of the level above.

    Args:
        labels: Cell of each row above.
        num_cells: Number of cells.
        row_of: Row above of each entry.
        columns: Cell of each entry's column.
    """
    keys, target = torch.unique(labels[row_of] * num_cells + columns, return_inverse=True)
    starts = row_starts(torch.bincount(keys // num_cells, minlength=num_cells))
    return Level(
        labels=labels.int(),
        num_cells=num_cells,
        pattern=SparsePattern(starts, (keys % num_cells).int(), num_cells),
        row_of=row_of.int(),
        target=target.int(),
        rows_per_cell=_rows_per_cell(labels, num_cells),
    )


def _rows_per_cell(labels: Tensor, num_cells: int) -> int:
    """Return k if the labels are k zeros, k ones and so on, else 0."""
    k = len(labels) // num_cells
    if k * num_cells != len(labels):
        return 0
    return k if bool((labels == torch.arange(len(labels)) // k).all()) else 0
