"""Neighbours in space as neighbours in memory: the cells of a kd-tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree

# Points from which the medians of the cells are computed.
_POINTS_SAMPLED = 1 << 16
_MAX_DEPTH, _MIN_POINTS = 9, 16
# Up to this many points of a cell keep their order.
_LEAF = 16


@dataclass(frozen=True, slots=True)
class SpatialCells:
    """A complete kd-tree of 2ᵏ cells: each box is split at the median of its widest side.

    Attributes:
        sides: Coordinate that each inner node splits, in heap order, shape (2ᵏ − 1,).
        medians: Value at which it splits, shape (2ᵏ − 1,); points not above it go left.

    Example:
        >>> cells = SpatialCells.of(torch.arange(32.0)[:, None])
        >>> cells.number(torch.tensor([[3.0], [20.0]])).tolist()
        [0, 1]
    """

    sides: torch.Tensor
    medians: torch.Tensor

    @classmethod
    def of(cls, points: torch.Tensor) -> SpatialCells:
        """Return up to 512 cells of points (n, d), with similar numbers of points, 16 or more."""
        depth = min(_MAX_DEPTH, max(len(points) // _MIN_POINTS, 1).bit_length() - 1)
        boxes = [points[:: max(1, len(points) // _POINTS_SAMPLED)].cpu().numpy()]
        sides, medians = [], []
        for _ in range(depth):
            halves = []
            for box in boxes:
                side = int(np.ptp(box, axis=0).argmax()) if len(box) else 0
                column, middle = box[:, side], (len(box) - 1) // 2
                median = float(np.partition(column, middle)[middle]) if len(box) else 0.0
                sides.append(side)
                medians.append(median)
                halves += [box[column <= median], box[column > median]]
            boxes = halves
        return cls(torch.tensor(sides, dtype=torch.int64), torch.tensor(medians, dtype=torch.float64))

    @property
    def depth(self) -> int:
        """k, the number of splits."""
        return (len(self.sides) + 1).bit_length() - 1

    def number(self, points: torch.Tensor) -> torch.Tensor:
        """Return the cell of each point (m, d), shape (m,); the cells of a box have consecutive numbers."""
        node = torch.zeros(len(points), dtype=torch.int64)
        for _ in range(self.depth):
            above = points.gather(1, self.sides[node][:, None])[:, 0] > self.medians[node]
            node = 2 * node + 1 + above.long()
        return node - len(self.sides)

    @property
    def count(self) -> int:
        """Number of cells, 2ᵏ."""
        return len(self.sides) + 1


def spatial_order(points: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """Return an order of points (n, d) in which those that are close in space are close in memory, (n,).

    Args:
        points: The points.
        cells: Cell of each point, shape (n,): points are sorted by cell, and within each cell by a kd-tree.

    Example:
        >>> spatial_order(torch.tensor([[3.0], [0.0], [2.0], [1.0]]), torch.tensor([1, 0, 1, 0])).tolist()
        [1, 3, 0, 2]
    """
    order = cells.argsort(stable=True)
    counts = torch.bincount(cells)
    parts = order.split(counts[counts > 0].tolist())
    return torch.cat([part[_tree_order(points[part])] for part in parts])


def _tree_order(points: torch.Tensor) -> torch.Tensor:
    tree = cKDTree(points.cpu().numpy(), leafsize=_LEAF)
    return torch.as_tensor(np.asarray(tree.indices, dtype=np.int64))
