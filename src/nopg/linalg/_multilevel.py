"""An approximate inverse of Λ from few representative rows and ever larger cells of the state space.

Rows of P that lead to near places are alike: with S the rows of some representatives and Z weights that
interpolate between the nearest of them, P ≈ ZS. For that matrix Λ is inverted exactly by a small system,

    M = I + γ Z A⁻¹ S,    A = I − γ SZ,

and Mᵀ does the same for Λᵀ. A lives on the representatives. It is inverted in turn by steps

    x ← x + N(y − Ax),    N = I + Y (B⁻¹ − I) Wᵀ,    B = I − γ Wᵀ(SZ)Y,

with Y the indicators of cells of representatives and W weights that sum to 1 on each; B likewise by larger
cells, down to some hundred, where it is inverted. W is the shape of μ inside a cell, from the visits of an
earlier policy, as in iterative aggregation and disaggregation (Takahashi 1975; Bertsekas and Castañon 1989).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from nopg._ranks import ALONE, Ranks
from nopg._spatial import SpatialCells, spatial_order
from nopg.errors import DataError
from nopg.linalg._halo import localize
from nopg.linalg._interpolation import centered_weights
from nopg.linalg._resolvent import Preconditioner
from nopg.linalg._rows import RowPattern, SparsePattern, SparseRows, row_starts
from nopg.linalg._solver import CALL
from nopg.neighbors._samples import SampleIndex

__all__ = ["CellHierarchy"]

# A representative stands for 2 to 4 rows, or more where there would be too many. So many interpolate, and the
# kernel between them is so wide, in units of the distance from a row to its second nearest.
_MOST_REPRESENTATIVES = 1 << 17
_ROWS_EACH, _INTERPOLATING, _WIDTH, _SLACK = 2, 4, 0.7, 1e-2
# So many cells of one level make a cell of the next, as a power of 2.
_COARSENING = 3
# Steps on each level but the last, for every power of ten that the horizon 1/(1 − γ) counts.
_STEPS_PER_DECADE = 2.0
# How much of the weight of a cell all its rows share, whatever the visits.
_SHARED = 0.1
# Calls of torch in one step on one level.
_CALLS = 8
_REPRESENTATIVES_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class _Level:
    """What is fixed of the cells of one level.

    Attributes:
        labels: The cell of each row above, numbered on this rank, shape (m,).
        num_cells: How many cells have rows here.
        pattern: Where entries between cells stand, (c, c).
        row_of: The row of each entry above, shape (e,).
        target: The entry of this level that each entry above goes into, shape (e,).
        each: How many rows above every cell has, where they are consecutive; 0 if they are not alike.
        first: The first cell that has rows here.
        counts: How many cells have rows on each rank.
        ranks: Who shares the rows above; the cells themselves everybody has.
    """

    labels: torch.Tensor
    num_cells: int
    pattern: SparsePattern
    row_of: torch.Tensor
    target: torch.Tensor
    each: int
    first: int
    counts: list[int]
    ranks: Ranks

    def to(self, device: torch.device) -> _Level:
        """Return the same level on a device."""
        return replace(
            self,
            labels=self.labels.to(device),
            pattern=self.pattern.to(device),
            row_of=self.row_of.to(device),
            target=self.target.to(device),
        )

    def summed(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sums of x (m,) over the rows of each cell that has rows here."""
        if self.each:
            return x.view(-1, self.each).sum(dim=1)
        return x.new_zeros(self.num_cells).index_add_(0, self.labels, x)

    def everywhere(self, x: torch.Tensor) -> torch.Tensor:
        """Return a vector over the cells that have rows here as one over all cells."""
        return self.ranks.gather(x, self.counts)


class CellHierarchy:
    """Representatives of the nodes of a model, their cells on every level, where entries stand; built once.

    Args:
        pattern: Of the rows R of the queries, g for each node.
        group_size: g; the first query of a node speaks for all in the preconditioner.
        places: Where the nodes' queries lie, in units of the metric, shape (n, d).
        cells: The largest cells; those of the places if not given.
        ranks: Who shares the nodes.
    """

    def __init__(
        self,
        pattern: RowPattern,
        group_size: int,
        places: torch.Tensor,
        cells: SpatialCells | None,
        ranks: Ranks,
    ) -> None:
        self.ranks, self.group_size = ranks, group_size
        num_nodes = int(ranks.total(len(places)))
        cells = SpatialCells.of(places) if cells is None else cells
        owners = torch.arange(cells.count) * ranks.count // cells.count
        firsts = torch.searchsorted(owners, torch.arange(ranks.count + 1))  # first cell of each rank
        own_cells = int(firsts[ranks.number + 1] - firsts[ranks.number])

        # Slices of a cell in spatial order are its smaller cells; the row in the middle stands for each.
        wanted = min(num_nodes // _ROWS_EACH, _MOST_REPRESENTATIVES)
        finest = max((wanted // cells.count).bit_length() - 1, 0)
        base = cells.number(places) - int(firsts[ranks.number])
        self._representatives, cell = _middles(places, base, own_cells, 1 << finest)
        row_of, columns = self._interpolate(places, pattern)

        self.levels: list[_Level] = []
        first, begun = int(firsts[ranks.number]), finest
        columns = ranks.gather(cell + (first << finest))[columns]
        for depth, split in enumerate([*range(max(finest - _COARSENING, 0), 0, -_COARSENING), 0]):
            shift, total = begun - split, cells.count << split
            if depth == 0:  # the representatives are shared, the cells below are few: every rank has them all
                level = _level(
                    cell >> shift, total, row_of, columns >> shift, ranks=ranks, first=first << split
                )
            else:
                level = _level(torch.arange(cells.count << begun) >> shift, total, row_of, columns >> shift)
            self.levels.append(level)
            columns, begun, row_of = level.pattern.columns.long(), split, level.pattern.row_of

    def approximate(
        self, values: torch.Tensor, continues: torch.Tensor, discount: float, visits: torch.Tensor | None
    ) -> MultilevelInverse:
        """Return M for the values (n·g, K) of R.

        Args:
            values: Of this update.
            continues: 0 at a terminal node, 1 elsewhere, shape (n,).
            discount: γ.
            visits: μ of an earlier update, shape (n,), or None.
        """
        dtype, chosen = values.dtype, self._representatives
        sampled = values[chosen * self.group_size] * continues[chosen].to(dtype)[:, None]
        Z = SparseRows(self._interpolation, self._weights.to(dtype).reshape(-1))
        shape = values.new_ones(len(chosen))
        if visits is not None:
            shape = Z.apply_transposed(visits.abs().to(dtype))
        return self._inverse(sampled, shape, Z, discount)

    def restored(
        self, state: Mapping[str, torch.Tensor], discount: float, dtype: torch.dtype
    ) -> MultilevelInverse:
        """Return M from its state."""
        sampled, shape = (state.get(name, torch.empty(0, 0)) for name in ("sampled", "shape"))
        entries, rows = self._sampled.num_entries, len(self._representatives)
        if sampled.shape != (entries,) or shape.shape != (rows,):
            raise DataError(
                f"the preconditioner has {entries} entries in {rows} rows, what is remembered of it has "
                f"{sampled.numel()} in {shape.numel()}; it is that of another model"
            )
        sampled = sampled.reshape(rows, entries // max(rows, 1))
        if not bool((sampled >= 0).all() and (sampled.sum(dim=1) <= 1.01).all() and (shape >= 0).all()):
            raise DataError("what is remembered of the preconditioner are no probabilities")
        Z = SparseRows(self._interpolation, self._weights.to(dtype).reshape(-1))
        where = self._weights.device
        return self._inverse(sampled.to(where, dtype), shape.to(where, dtype), Z, discount)

    def _inverse(
        self, sampled: torch.Tensor, shape: torch.Tensor, Z: SparseRows, discount: float
    ) -> MultilevelInverse:
        """Return M from the rows (m, K) of the representatives and the shape (m,) of their visits."""
        dtype, visited = sampled.dtype, shape
        S = SparseRows(self._sampled, sampled.reshape(-1))
        between = sampled.new_zeros(self._pattern.num_entries)
        for rows, target, columns in self._products:
            parts = sampled[rows][:, :, None] * self._node_weights[columns].to(dtype)
            between.index_add_(0, target, parts.reshape(-1))

        steps, entries = [], between
        for level in self.levels:
            weights, shape = _shares(level, shape)
            shape = level.everywhere(shape)
            P = sampled.new_zeros(level.pattern.num_entries)
            P.index_add_(0, level.target, entries * weights[level.row_of])
            P = level.ranks.sum(P)
            steps.append(_Step(level, weights, SparseRows(level.pattern, P)))
            entries = P
        coarsest = steps[-1].P.to_dense()
        identity = torch.eye(len(coarsest), dtype=dtype, device=sampled.device)
        inverse = torch.linalg.inv(identity - discount * coarsest)
        return MultilevelInverse(
            S,
            Z,
            SparseRows(self._pattern, between),
            steps=steps,
            inverse=inverse,
            discount=discount,
            visited=visited,
        )

    def _interpolate(self, places: torch.Tensor, pattern: RowPattern) -> tuple[torch.Tensor, torch.Tensor]:
        """Find the representatives that stand for each node; return row and column of the entries of SZ."""
        ranks, chosen = self.ranks, self._representatives
        index = SampleIndex(places[chosen], ranks)
        count = min(_INTERPOLATING, index.num_samples)
        distances, near = index.nearest(places, count)
        width = _WIDTH * _typical(distances[:, min(1, count - 1)], ranks)
        local, across, halo = localize(near, index.starts, ranks)
        self._interpolation = RowPattern(local, across, halo=halo)
        there, parts = self._interpolation.extend(places[chosen]), []
        for z, j in zip(places.split(1 << 16), local.split(1 << 16), strict=True):
            weights, _ = centered_weights(
                (there[j.long()] - z[:, None]) / width, z.new_zeros(j.shape), _SLACK
            )
            parts.append(weights.float())
        self._weights = torch.cat(parts)

        # SZ: of every candidate of a representative, the representatives that stand for it.
        indices = pattern.indices[chosen * self.group_size]
        starts = torch.arange(len(chosen) + 1, dtype=torch.int32) * indices.shape[1]
        self._sampled = SparsePattern(starts, indices.reshape(-1), pattern.num_columns, pattern.halo)
        of_node, self._node_weights = pattern.extend(near.long()), pattern.extend(self._weights)
        self._products: list[tuple[slice, torch.Tensor, torch.Tensor]] = []
        keys, found, total = [], 0, index.num_samples
        for start in range(0, len(chosen), _REPRESENTATIVES_AT_ONCE):
            rows = slice(start, min(start + _REPRESENTATIVES_AT_ONCE, len(chosen)))
            columns = indices[rows].long()
            key = torch.arange(rows.start, rows.stop)[:, None, None] * total + of_node[columns]
            some, target = torch.unique(key, return_inverse=True)
            self._products.append((rows, (target + found).reshape(-1).int(), columns.int()))
            keys.append(some)
            found += len(some)
        key = torch.cat(keys) if keys else torch.zeros(0, dtype=torch.int64)
        row, column = key // total, key % total
        counts = torch.bincount(row, minlength=len(chosen))
        self._pattern, place = _arranged(row, column, row_starts(counts), index.starts, ranks)
        self._products = [
            (rows, place[target.long()].int(), columns) for rows, target, columns in self._products
        ]
        order = place.argsort()
        return row[order], column[order]

    def put(self, device: torch.device) -> None:
        """Bring all that `approximate` reads to a device."""
        self._representatives, self._weights = self._representatives.to(device), self._weights.to(device)
        self._interpolation, self._sampled = self._interpolation.to(device), self._sampled.to(device)
        self._pattern, self._node_weights = self._pattern.to(device), self._node_weights.to(device)
        self._products = [
            (rows, target.to(device), columns.to(device)) for rows, target, columns in self._products
        ]
        self.levels = [level.to(device) for level in self.levels]


@dataclass(frozen=True, slots=True)
class _Step:
    """The cells of one level for this update: the weights W of the rows above, and entries between cells."""

    level: _Level
    weights: torch.Tensor
    P: SparseRows

    def restrict(self, x: torch.Tensor, *, transposed: bool) -> torch.Tensor:
        """Return Wᵀx, or Yᵀx."""
        return self.level.everywhere(self.level.summed(x if transposed else x * self.weights))

    def prolong(self, y: torch.Tensor, *, transposed: bool) -> torch.Tensor:
        """Return Yy, or Wy."""
        first = self.level.first
        y = y[first : first + self.level.num_cells]
        if self.level.each:
            x = y[:, None].expand(-1, self.level.each).reshape(-1)
        else:
            x = y.index_select(0, self.level.labels)
        return x.mul_(self.weights) if transposed else x


class MultilevelInverse(Preconditioner):
    """M for the values of one update; see the module."""

    def __init__(
        self,
        S: SparseRows,
        Z: SparseRows,
        between: SparseRows,
        *,
        steps: list[_Step],
        inverse: torch.Tensor,
        discount: float,
        visited: torch.Tensor,
    ) -> None:
        self._S, self._Z, self._matrices = S, Z, [between, *(step.P for step in steps)]
        self._visited = visited
        self._steps, self._inverse, self._discount = steps, inverse, discount
        self._number = max(round(-_STEPS_PER_DECADE * math.log10(1.0 - discount)), 1)

        times, self.work = 1, S.pattern.num_entries + Z.pattern.num_entries + 4 * CALL
        for step, matrix in zip(steps, self._matrices, strict=False):
            times *= self._number
            self.work += times * (matrix.pattern.num_entries + 4 * len(step.weights) + _CALLS * CALL)
        self.work += times * inverse.numel() // 8  # dense and in order: far cheaper an entry

    def apply(self, x: torch.Tensor, *, transposed: bool) -> torch.Tensor:
        """Return Mx ≈ Λ⁻¹x, or Mᵀx."""
        if transposed:
            moved = self._S.apply_transposed(self._solve(0, self._Z.apply_transposed(x), transposed))
        else:
            moved = self._Z.apply(self._solve(0, self._S.apply(x), transposed))
        return moved.mul_(self._discount).add_(x)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the rows and the visits of the representatives, from which all else follows."""
        return {"sampled": self._S.values.cpu(), "shape": self._visited.cpu()}

    def _solve(self, depth: int, y: torch.Tensor, transposed: bool) -> torch.Tensor:
        """Return about (I − γC)⁻¹y, C between representatives or between the cells of this depth."""
        if depth == len(self._steps):
            return y @ self._inverse if transposed else self._inverse @ y
        C, step = self._matrices[depth], self._steps[depth]
        x, rest = None, y
        for _ in range(self._number):
            if x is not None:
                moved = C.apply_transposed(x) if transposed else C.apply(x)
                rest = torch.add(y, moved, alpha=self._discount).sub_(x)
            coarse = step.restrict(rest, transposed=transposed)
            coarse = self._solve(depth + 1, coarse, transposed).sub_(coarse)
            correction = step.prolong(coarse, transposed=transposed).add_(rest)
            x = correction if x is None else x.add_(correction)
        assert x is not None
        return x


def _middles(
    places: torch.Tensor, cells: torch.Tensor, num_cells: int, parts: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the middle row of each part of each cell, and which part that is, both (m,), by part.

    Each cell is taken in its spatial order and cut into equal parts.
    """
    order = spatial_order(places, cells)
    counts = torch.bincount(cells, minlength=num_cells)
    inside = torch.arange(len(order)) - (counts.cumsum(0) - counts)[cells[order]]
    part = cells[order] * parts + inside * parts // counts[cells[order]]  # ascending
    sizes = torch.bincount(part, minlength=num_cells * parts)
    middle = (sizes.cumsum(0) - sizes + sizes // 2)[sizes > 0]
    return order[middle], part[middle]


def _level(
    labels: torch.Tensor,
    num_cells: int,
    row_of: torch.Tensor,
    columns: torch.Tensor,
    *,
    ranks: Ranks = ALONE,
    first: int = 0,
) -> _Level:
    """Return a level of so many cells from the entries above.

    Args:
        labels: The cell of each row above, from the first that has rows here.
        num_cells: Of all ranks.
        row_of: The row above of each entry.
        columns: The cell of each entry's column.
        ranks: Who shares the rows above.
        first: The first cell that has rows here.
    """
    keys, target = torch.unique((labels[row_of] + first) * num_cells + columns, return_inverse=True)
    counts = ranks.gather(torch.tensor([len(keys)]))
    target += int(counts[: ranks.number].sum())
    keys = ranks.gather(keys)  # ascending, because ranks have ascending cells
    firsts = [*ranks.gather(torch.tensor([first])).tolist(), num_cells]
    own_cells = firsts[ranks.number + 1] - first
    pattern = SparsePattern(
        row_starts(torch.bincount(keys // num_cells, minlength=num_cells)),
        (keys % num_cells).int(),
        num_cells,
    )
    return _Level(
        labels=labels.int(),
        num_cells=own_cells,
        pattern=pattern,
        row_of=row_of.int(),
        target=target.int(),
        each=_alike(labels, own_cells),
        first=first,
        counts=[end - begin for begin, end in pairwise(firsts)],
        ranks=ranks,
    )


def _alike(labels: torch.Tensor, num_cells: int) -> int:
    """Return k where the labels are k zeros, k ones and so on, else 0."""
    each = len(labels) // num_cells if num_cells else 0
    even = each * num_cells == len(labels) and each > 0
    return each if even and bool((labels == torch.arange(len(labels)) // each).all()) else 0


def _typical(distances: torch.Tensor, ranks: Ranks) -> float:
    """Return the geometric mean of the distances of all ranks that are not 0; 1 if all are."""
    logs = distances[distances > 0].log()
    total, count = ranks.sum(
        torch.stack([logs.sum(), torch.tensor(float(len(logs)), dtype=logs.dtype)])
    ).tolist()
    return math.exp(total / count) if count else 1.0


def _shares(level: _Level, shape: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weight of each row in its cell, `shape` (m,) but for an even share, and the cells' sums."""
    labels, total = level.labels, level.summed(shape)
    even = 1.0 / level.summed(torch.ones_like(shape))[labels]
    share = shape / torch.where(total > 0, total, 1.0)[labels]
    return torch.where(total[labels] > 0, (1 - _SHARED) * share + _SHARED * even, even), total


def _arranged(
    row: torch.Tensor, column: torch.Tensor, starts: torch.Tensor, firsts: torch.Tensor, ranks: Ranks
) -> tuple[SparsePattern, torch.Tensor]:
    """Return the pattern of entries at (row, global column), and which entry of it each of these is."""
    local, width, halo = localize(column, firsts, ranks)
    # Columns ascend within a row; those of the halo stand behind.
    order = (row * width + local).argsort()
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    return SparsePattern(starts, local[order].int(), width, halo), place
