"""Approximate nearest neighbours for millions of points, by lists of faiss, checked on every call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from nopg.errors import ArgumentError, MissingExtraError
from nopg.neighbors._brute_force import BruteForce
from nopg.neighbors._distances import rows_at_once, sorted_pairs
from nopg.neighbors._search import NeighborSearch

_ROWS_CHECKED = 1_024
# Where a query needs more than this share of the lists, brute force by matrix products is faster.
_LARGEST_SHARE = 0.125
# k-means on a sample is precise enough: every call is checked.
_ITERATIONS = 10
_POINTS_PER_LIST = 64


class FaissIndex(NeighborSearch):
    """Points (n, d) in 4√n lists around means; a query searches the lists of the nearest means.

    Each call checks itself: 1 024 evenly spaced queries are also searched exactly. While one of them has lost
    more than the tolerance of its ψ-mass, the number of lists per query doubles. Beyond an eighth of the
    lists exact search is as fast, and is used from then on. Calls with up to 1 024 queries are exact.

    Attributes:
        num_probes: Lists searched per query; never decreases.
        tolerance: Share of its ψ-mass that a checked query may lose.
        num_checked: Queries checked in all calls so far.
        largest_loss: Largest share of its ψ-mass that a checked query lost, in [0, 1].

    Example:
        >>> index = FaissIndex(torch.tensor([[0.0], [1.0], [5.0]], dtype=torch.float64))
        >>> distances, indices = index.nearest(torch.tensor([[0.9]], dtype=torch.float64), 2)
        >>> indices.tolist(), index.num_checked
        ([[1, 0]], 0)
    """

    def __init__(self, points: Tensor, *, num_probes: int = 64, tolerance: float = 1e-3) -> None:
        if num_probes < 1:
            raise ArgumentError(f"num_probes is {num_probes}; give at least 1")
        if not tolerance >= 0.0:
            raise ArgumentError(f"tolerance is {tolerance}; give a share of the ψ-mass such as 1e-3")
        self._faiss = _import_faiss()
        self.num_points = len(points)
        self.num_probes = num_probes
        self.tolerance = tolerance
        self.num_checked, self.largest_loss = 0, 0.0
        self._points = points
        self._exact = BruteForce(points)
        self._center = points.mean(dim=0)
        with self._threads():
            self._lists = self._build_lists(points)

    def _build_lists(self, points: Tensor) -> Any:
        n, d = points.shape
        num_lists = max(1, min(n // _POINTS_PER_LIST, round(4 * math.sqrt(n))))
        lists = self._faiss.IndexIVFFlat(self._faiss.IndexFlatL2(d), d, num_lists)
        lists.cp.niter = _ITERATIONS
        lists.cp.min_points_per_centroid = 1
        lists.cp.max_points_per_centroid = _POINTS_PER_LIST
        single = self._to_float32(points)
        lists.train(single)
        lists.add(single)
        return lists

    def nearest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return distances (m, k) and int32 indices (m, k) of points that hold the ψ-mass of the k nearest.

        Distances are exact, nearest first; `largest_loss` bounds the ψ-mass lost at the checked queries.
        """
        m, k = len(queries), min(count, self.num_points)
        if m <= _ROWS_CHECKED or self.is_exact:
            return self._exact.nearest(queries, k)

        rows = torch.linspace(0, m - 1, _ROWS_CHECKED, dtype=torch.float64).long()
        exact = self._exact.nearest(queries[rows], k)
        if not self._raise_probes(queries[rows], exact[0]):
            return self._exact.nearest(queries, k)
        distances, indices = self.probe(queries, k)
        distances[rows], indices[rows] = exact
        return distances, indices

    def _raise_probes(self, queries: Tensor, exact: Tensor) -> bool:
        """Double the lists per query until no loss exceeds the tolerance; False if that is too many."""
        lost = self._largest_loss(queries, exact)
        while not lost <= self.tolerance:  # NaN included
            self.num_probes *= 2
            lost = 0.0 if self.is_exact else self._largest_loss(queries, exact)
        self.num_checked += len(queries)
        self.largest_loss = max(lost, self.largest_loss)
        return not self.is_exact

    def _largest_loss(self, queries: Tensor, exact: Tensor) -> float:
        found, _ = self.probe(queries, exact.shape[1])
        return float(lost_mass(found, exact).max())

    @property
    def num_lists(self) -> int:
        """Number of lists that the points are divided into."""
        return int(self._lists.nlist)

    @property
    def is_exact(self) -> bool:
        """Whether exact search is used instead of the lists."""
        return self.num_probes > _LARGEST_SHARE * self.num_lists

    def probe(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return distances (m, k) and int32 indices (m, k) by the lists, unchecked, nearest first."""
        k = min(count, self.num_points)
        distances = torch.empty(len(queries), k, dtype=torch.float64)
        indices = torch.empty(len(queries), k, dtype=torch.int32)
        self._lists.nprobe = self.num_probes
        step = rows_at_once(k * queries.shape[1])
        for start in range(0, len(queries), step):
            some = slice(start, start + step)
            with self._threads():
                _, found = self._lists.search(self._to_float32(queries[some]), k)
            pairs = torch.as_tensor(found)
            short = (pairs < 0).any(dim=1)  # the lists held fewer than k points
            distances[some], indices[some] = sorted_pairs(queries[some], self._points, pairs.clamp_(min=0))
            if bool(short.any()):
                rows = short.nonzero()[:, 0] + start
                distances[rows], indices[rows] = self._exact.nearest(queries[rows], k)
        return distances, indices

    def count_within(self, queries: Tensor, radii: Tensor) -> Tensor:
        """Return the number of points within radius (m,) of each query, int64, exactly."""
        return self._exact.count_within(queries, radii)

    def _to_float32(self, places: Tensor) -> Any:
        """Return places (m, d) relative to the mean of the points, as a float32 array."""
        return (places - self._center).to(torch.float32).numpy()

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Let faiss use as many threads as torch, then restore its number: the two may share OpenMP."""
        before = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(torch.get_num_threads())
        try:
            yield
        finally:
            self._faiss.omp_set_num_threads(before)


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("faiss-cpu", "faiss") from error
    return faiss


def lost_mass(found: Tensor, exact: Tensor) -> Tensor:
    """Return the share (m,) of Σⱼ exp(−½dⱼ²) over the exact distances (m, k) that the found ones lack.

    Masses are relative to the nearest point of a row, so that rows far from all points count too. Recall
    would count a far neighbour like a near one.

    Example:
        >>> exact, found = torch.tensor([[50.0, 50.0]]), torch.tensor([[50.0, 60.0]])
        >>> round(float(lost_mass(found, exact)), 6)
        0.5
    """
    nearest = exact[:, :1].square()
    mass, whole = ((-0.5 * (d.square() - nearest)).exp().sum(dim=1) for d in (found, exact))
    return (1.0 - mass / whole).clamp(0.0, 1.0)
