"""The fastest search for given points, by the dimension that they fill."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from nopg.errors import ArgumentError, MissingExtraError
from nopg.neighbors._brute_force import BruteForce
from nopg.neighbors._faiss import FaissIndex
from nopg.neighbors._search import NeighborSearch
from nopg.neighbors._tree import NeighborTree

# Measured in studies/pages/neighbors.md: in D dimensions a tree over fewer than about 4ᴰ points is slower
# than brute force, and faiss with enough lists is no faster than brute force below a million points.
_TREE_BASE = 4.0
_LISTS_FROM = 1_000_000
_TREE_UP_TO = 2_000  # any search is fast
_ROWS_SAMPLED = 256


def neighbor_search(
    points: Tensor, kind: Literal["auto", "tree", "brute", "faiss"] = "auto"
) -> NeighborSearch:
    """Return a search among points (n, d) in units of the bandwidth.

    Args:
        points: float64.
        kind: "tree" and "brute" are exact and differ in speed only; "faiss" is approximate and checks the
            ψ-mass it finds. "auto" takes the tree where the points fill few dimensions, else brute force,
            and from a million points on faiss if it is installed.

    Raises:
        MissingExtraError: kind is "faiss" and faiss is not installed.

    Example:
        >>> line = torch.linspace(0.0, 1.0, 5000, dtype=torch.float64)[:, None]
        >>> type(neighbor_search(line)).__name__, type(neighbor_search(line.expand(-1, 20))).__name__
        ('NeighborTree', 'NeighborTree')
    """
    if kind == "auto":
        return _fastest(points)
    searches: dict[str, Callable[[Tensor], NeighborSearch]] = {
        "tree": NeighborTree,
        "brute": BruteForce,
        "faiss": FaissIndex,
    }
    if kind not in searches:
        raise ArgumentError(f"kind is {kind!r}; give 'auto', 'tree', 'brute' or 'faiss'")
    return searches[kind](points)


def _fastest(points: Tensor) -> NeighborSearch:
    n, d = points.shape
    dimensions = math.log(max(n, 1), _TREE_BASE)  # up to which the tree wins
    if n <= _TREE_UP_TO or d <= dimensions:
        return NeighborTree(points)
    exact = BruteForce(points)
    if growth_dimension(exact) <= dimensions:
        return NeighborTree(points)
    if n < _LISTS_FROM:
        return exact
    try:
        return FaissIndex(points)
    except MissingExtraError:
        return exact


def growth_dimension(search: BruteForce) -> float:
    """Return the dimension D that the points fill, from the growth of the number of neighbours with distance.

    In D dimensions the 32nd neighbour is 4^(1/D) times as far as the 8th; D is the median over a sample of
    rows. Recorded states fill fewer dimensions than they have columns, and D decides how much of a tree a
    query visits.

    Example:
        >>> line = torch.linspace(0.0, 1.0, 1000, dtype=torch.float64)
        >>> round(growth_dimension(BruteForce(torch.stack([line, line, 3 * line], dim=1))), 1)
        1.0
    """
    points = search.points
    n = len(points)
    rows = torch.linspace(0, n - 1, min(n, _ROWS_SAMPLED), dtype=torch.float64).long()
    distances, _ = search.nearest(points[rows], 33)  # the nearest is the row itself
    near, far = distances[:, min(8, distances.shape[1] - 1)], distances[:, -1]
    # Eight or more copies of a row have D = 0.
    logs = torch.where(near > 0, (far / near).log(), torch.inf)
    return math.log(4.0) / float(logs.median())
