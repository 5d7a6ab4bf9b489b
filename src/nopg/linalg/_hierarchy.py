"""The representatives of the nodes of a model and their cells, from which `MultilevelInverse` is built."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from nopg._spatial import SpatialCells, spatial_order
from nopg.errors import DataError
from nopg.linalg._interpolation import centered_weights
from nopg.linalg._levels import Level, build_level
from nopg.linalg._multilevel import MultilevelInverse
from nopg.linalg._rows import RowPattern, SparsePattern, SparseRows, row_starts
from nopg.neighbors import neighbor_search

# There is one representative for 2 to 4 rows, for more above the maximum.
_MOST_REPRESENTATIVES = 1 << 17
_ROWS_EACH = 2
# Representatives that interpolate a row, and the kernel width between them in units of the typical distance
# from a row to its second nearest representative.
_INTERPOLATING, _WIDTH, _SLACK = 4, 0.7, 1e-2
# log₂ of the number of cells of one level that form a cell of the next.
_COARSENING = 3
_REPRESENTATIVES_AT_ONCE = 1 << 14
_PLACES_AT_ONCE = 1 << 16


class CellHierarchy:
    """Representatives of the nodes, their cells on every level, and the patterns between them; built once.

    Args:
        pattern: Pattern of the rows R of the queries, g for each node.
        group_size: g; the preconditioner uses the first query of a node only.
        places: Places of the nodes' queries in units of the metric, shape (n, d).
    """

    _products: list[tuple[slice, Tensor, Tensor]]

    def __init__(self, pattern: RowPattern, group_size: int, places: Tensor) -> None:
        self.group_size = group_size
        cells = SpatialCells.of(places)

        # Slices of a cell in spatial order are its smaller cells; the middle row represents each.
        wanted = min(len(places) // _ROWS_EACH, _MOST_REPRESENTATIVES)
        finest = max((wanted // cells.count).bit_length() - 1, 0)
        self._representatives, cell = _middles(places, cells.number(places), cells.count, 1 << finest)
        near = self._interpolate(places)
        row_of, columns = self._multiply_patterns(pattern, near)
        self.levels = _build_levels(cells.count, cell, row_of, cell[columns], finest=finest)

    def approximate(
        self, values: Tensor, continues: Tensor, discount: float, visits: Tensor | None
    ) -> MultilevelInverse:
        """Return M for the values (n·g, K) of R.

        Args:
            values: Values of this update.
            continues: 0 at a terminal node, 1 elsewhere, shape (n,).
            discount: γ.
            visits: μ of an earlier update, shape (n,), or None.
        """
        dtype, chosen = values.dtype, self._representatives
        sampled = values[chosen * self.group_size] * continues[chosen].to(dtype)[:, None]
        Z = self._interpolation_rows(dtype)
        shape = values.new_ones(len(chosen))
        if visits is not None:
            shape = Z.apply_transposed(visits.abs().to(dtype))
        return self._inverse(sampled, shape, Z, discount)

    def restored(self, state: Mapping[str, Tensor], discount: float, dtype: torch.dtype) -> MultilevelInverse:
        """Return M from its `state_dict`."""
        sampled, shape = (state.get(name, torch.empty(0, 0)) for name in ("sampled", "shape"))
        entries, rows = self._sampled.num_entries, len(self._representatives)
        if sampled.shape != (entries,) or shape.shape != (rows,):
            raise DataError(
                f"the preconditioner has {entries} entries in {rows} rows, the saved one has "
                f"{sampled.numel()} in {shape.numel()}; it belongs to another model"
            )
        sampled = sampled.reshape(rows, entries // rows)
        if not bool((sampled >= 0).all() and (sampled.sum(dim=1) <= 1.01).all() and (shape >= 0).all()):
            raise DataError("the rows of the saved preconditioner are not probabilities")
        device = self._weights.device
        Z = self._interpolation_rows(dtype)
        return self._inverse(sampled.to(device, dtype), shape.to(device, dtype), Z, discount)

    def move(self, device: torch.device) -> None:
        """Move all that `approximate` reads to a device."""
        for name in ("_representatives", "_weights", "_interpolation", "_sampled", "_pattern"):
            setattr(self, name, getattr(self, name).to(device))
        self._products = [
            (rows, target.to(device), columns.to(device)) for rows, target, columns in self._products
        ]
        self.levels = [level.to(device) for level in self.levels]

    def _interpolation_rows(self, dtype: torch.dtype) -> SparseRows:
        """Return Z."""
        return SparseRows(self._interpolation, self._weights.to(dtype).reshape(-1))

    def _inverse(self, sampled: Tensor, visits: Tensor, Z: SparseRows, discount: float) -> MultilevelInverse:
        """Return M from the rows (m, K) of the representatives and their visits (m,)."""
        entries = sampled.new_zeros(self._pattern.num_entries)
        for rows, target, columns in self._products:
            parts = sampled[rows][:, :, None] * self._weights[columns].to(sampled.dtype)
            entries.index_add_(0, target, parts.reshape(-1))
        S, SZ = SparseRows(self._sampled, sampled.reshape(-1)), SparseRows(self._pattern, entries)
        return MultilevelInverse(S, Z, SZ, levels=self.levels, discount=discount, visits=visits)

    def _interpolate(self, places: Tensor) -> Tensor:
        """Set the pattern and weights of Z; return the representatives near each node."""
        nodes, parts = places[self._representatives], []
        distances, near = neighbor_search(nodes).nearest(places, _INTERPOLATING)
        width = _WIDTH * _geometric_mean(distances[:, min(1, near.shape[1] - 1)])
        self._interpolation = RowPattern(near, len(nodes))
        for z, j in zip(places.split(_PLACES_AT_ONCE), near.split(_PLACES_AT_ONCE), strict=True):
            offsets = (nodes[j.long()] - z[:, None]) / width
            parts.append(centered_weights(offsets, z.new_zeros(j.shape), _SLACK)[0].float())
        self._weights = torch.cat(parts)
        return near

    def _multiply_patterns(self, pattern: RowPattern, near: Tensor) -> tuple[Tensor, Tensor]:
        """Set the patterns of S and SZ; return row and column of each entry of SZ.

        The columns of a row of SZ are the representatives near the candidates of a representative.
        """
        chosen = self._representatives
        indices = pattern.indices[chosen * self.group_size]
        row_ends = torch.arange(len(chosen) + 1, dtype=torch.int32) * indices.shape[1]
        self._sampled = SparsePattern(row_ends, indices.reshape(-1), pattern.num_columns)
        self._products = []
        keys, found, total, near = [], 0, len(chosen), near.long()
        for start in range(0, len(chosen), _REPRESENTATIVES_AT_ONCE):
            rows = slice(start, min(start + _REPRESENTATIVES_AT_ONCE, len(chosen)))
            columns = indices[rows].long()
            key = torch.arange(rows.start, rows.stop)[:, None, None] * total + near[columns]
            some, target = torch.unique(key, return_inverse=True)
            self._products.append((rows, (target + found).reshape(-1).int(), columns.int()))
            keys.append(some)
            found += len(some)
        key = torch.cat(keys)  # ascending
        row, column = key // total, key % total
        counts = torch.bincount(row, minlength=total)
        self._pattern = SparsePattern(row_starts(counts), column.int(), total)
        return row, column


def _build_levels(
    num_cells: int, cell: Tensor, row_of: Tensor, columns: Tensor, *, finest: int
) -> list[Level]:
    """Return the levels from the smallest cells to `num_cells`, by halving the cells `finest` times.

    Args:
        num_cells: Number of the largest cells.
        cell: Smallest cell of each representative, shape (m,).
        row_of: Representative of each entry of SZ.
        columns: Smallest cell of each entry's column.
        finest: log₂ of the number of smallest cells in a largest one.
    """
    levels: list[Level] = []
    split_above = finest
    for split in [*range(max(finest - _COARSENING, 0), 0, -_COARSENING), 0]:
        shift, total = split_above - split, num_cells << split
        level = build_level(cell >> shift, total, row_of, columns >> shift)
        levels.append(level)
        cell, columns, row_of = torch.arange(total), level.pattern.columns.long(), level.pattern.row_of
        split_above = split
    return levels


def _middles(places: Tensor, cells: Tensor, num_cells: int, parts: int) -> tuple[Tensor, Tensor]:
    """Return the middle row (m,) of each part of each cell, and the number (m,) of the part, by part.

    Each cell is sorted in spatial order and cut into equal parts.
    """
    order = spatial_order(places, cells)
    counts = torch.bincount(cells, minlength=num_cells)
    inside = torch.arange(len(order)) - (counts.cumsum(0) - counts)[cells[order]]
    part = cells[order] * parts + inside * parts // counts[cells[order]]  # ascending
    sizes = torch.bincount(part, minlength=num_cells * parts)
    middle = (sizes.cumsum(0) - sizes + sizes // 2)[sizes > 0]
    return order[middle], part[middle]


def _geometric_mean(distances: Tensor) -> float:
    """Return the geometric mean of the positive distances; 1 if there are none."""
    logs = distances[distances > 0].log()
    return math.exp(float(logs.sum()) / len(logs)) if len(logs) else 1.0
