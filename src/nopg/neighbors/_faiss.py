"""Approximate nearest neighbours for very many points, by the lists of faiss, judged on every call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from nopg.errors import ArgumentError, MissingExtraError
from nopg.neighbors._brute_force import BruteForce
from nopg.neighbors._pairs import rows_at_once, sorted_pairs
from nopg.neighbors._psi_mass import Judgement, lost_mass
from nopg.neighbors._search import NeighborSearch

__all__ = ["FaissIndex"]

_ROWS_JUDGED = 1_024

# Where a query needs more than this share of the lists, brute force by matrix products is faster.
_LARGEST_SHARE = 0.125

# k-means on a sample divides the points well enough; the judgement sees to the rest.
_ITERATIONS = 10
_POINTS_PER_LIST = 64


class FaissIndex(NeighborSearch):
    """Points (n, d) in 4√n lists around means; a query searches the lists of the nearest means.

    Each call judges itself: evenly spread rows are searched exactly as well, and while one of them has
    lost more than the tolerance of its ψ-mass, the number of lists doubles, up to the point where exact
    search is as fast and takes over. What was found stands in `judgement`. Up to 1 024 queries are searched
    exactly.

    Attributes:
        num_probes: Lists that a query searches; grows, never falls.
        tolerance: Share of its ψ-mass that a judged row may lose.
        judgement: On all calls so far; None before the first that had to be judged.

    Example:
        >>> index = FaissIndex(torch.tensor([[0.0], [1.0], [5.0]], dtype=torch.float64))
        >>> distances, indices = index.nearest(torch.tensor([[0.9]], dtype=torch.float64), 2)
        >>> indices.tolist(), index.judgement
        ([[1, 0]], None)
    """

    def __init__(self, points: torch.Tensor, *, num_probes: int = 64, tolerance: float = 1e-3) -> None:
        if num_probes < 1:
            raise ArgumentError(f"num_probes is {num_probes}; give at least 1")
        if not tolerance >= 0.0:
            raise ArgumentError(f"tolerance is {tolerance}; give a share of the ψ-mass such as 1e-3")
        self._faiss = _imported()
        self.num_points = len(points)
        self.num_probes = num_probes
        self.tolerance = tolerance
        self._points = points
        self._exact = BruteForce(points)
        self._center = points.mean(dim=0)
        with self._threads():
            self._lists = self._built(points)

    def _built(self, points: torch.Tensor) -> Any:
        n, d = points.shape
        num_lists = max(1, min(n // _POINTS_PER_LIST, round(4 * math.sqrt(n))))
        lists = self._faiss.IndexIVFFlat(self._faiss.IndexFlatL2(d), d, num_lists)
        lists.cp.niter = _ITERATIONS
        lists.cp.min_points_per_centroid = 1
        lists.cp.max_points_per_centroid = _POINTS_PER_LIST
        single = self._single(points)
        lists.train(single)
        lists.add(single)
        return lists

    def nearest(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return distances (m, k) and int32 indices (m, k) of points that hold the ψ-mass of the k nearest.

        They are the k nearest up to what `judgement` says; distances are exact, nearest first.
        """
        m, k = len(queries), min(count, self.num_points)
        if m <= _ROWS_JUDGED or self._hopeless():
            return self._exact.nearest(queries, k)

        rows = torch.linspace(0, m - 1, _ROWS_JUDGED, dtype=torch.float64).long()
        exact = self._exact.nearest(queries[rows], k)
        self._judge(queries[rows], exact[0])
        if self._hopeless():
            return self._exact.nearest(queries, k)
        distances, indices = self.probe(queries, k)
        distances[rows], indices[rows] = exact
        return distances, indices

    def _judge(self, queries: torch.Tensor, exact: torch.Tensor) -> None:
        """Raise the number of lists until the queries find enough, or until there is no hope; record it."""
        lost = self._lost(queries, exact)
        while not lost <= self.tolerance:  # also where it is not a number
            self.num_probes *= 2
            lost = 0.0 if self._hopeless() else self._lost(queries, exact)

        before = self.judgement
        self.judgement = Judgement(
            num_rows=len(queries) + (before.num_rows if before else 0),
            lost=max(lost, before.lost if before else 0.0),
            num_probes=None if self._hopeless() else self.num_probes,
        )

    def _lost(self, queries: torch.Tensor, exact: torch.Tensor) -> float:
        found, _ = self.probe(queries, exact.shape[1])
        return float(lost_mass(found, exact).max())

    @property
    def num_lists(self) -> int:
        """Lists that the points are divided into."""
        return int(self._lists.nlist)

    def _hopeless(self) -> bool:
        return self.num_probes > _LARGEST_SHARE * self.num_lists

    def probe(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the lists hold, unjudged: distances (m, k) and int32 indices (m, k), nearest first."""
        k = min(count, self.num_points)
        distances = torch.empty(len(queries), k, dtype=torch.float64)
        indices = torch.empty(len(queries), k, dtype=torch.int32)
        self._lists.nprobe = self.num_probes
        step = rows_at_once(k * queries.shape[1])
        for start in range(0, len(queries), step):
            some = slice(start, start + step)
            with self._threads():
                _, found = self._lists.search(self._single(queries[some]), k)
            pairs = torch.as_tensor(found)
            short = (pairs < 0).any(dim=1)  # the lists held fewer than k points
            distances[some], indices[some] = sorted_pairs(queries[some], self._points, pairs.clamp_(min=0))
            if bool(short.any()):
                again = short.nonzero()[:, 0] + start
                distances[again], indices[again] = self._exact.nearest(queries[again], k)
        return distances, indices

    def count_within(self, queries: torch.Tensor, radii: torch.Tensor) -> torch.Tensor:
        """Return how many points lie within radius (m,) of each query, int64; counted over all points."""
        return self._exact.count_within(queries, radii)

    def _single(self, places: torch.Tensor) -> Any:
        """Return places (m, d) around the mean of the points, as faiss takes them."""
        return (places - self._center).to(torch.float32).numpy()

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Let faiss use as many threads as torch, and leave both as they were: they may share OpenMP."""
        before = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(torch.get_num_threads())
        try:
            yield
        finally:
            self._faiss.omp_set_num_threads(before)


def _imported() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("faiss-cpu", "faiss") from error
    return faiss
