"""Nearest samples of a query among the samples of all ranks."""

from __future__ import annotations

import torch
from torch import Tensor

from nopg._ranks import ALONE, Ranks
from nopg.neighbors._choice import neighbor_search

__all__ = ["SampleIndex"]


class SampleIndex:
    """The samples of all ranks; all ranks search at the same time, each for its own queries.

    Args:
        points: Samples of this rank in units of the bandwidth, shape (n, d).
        ranks: The ranks that share the samples.

    Attributes:
        num_samples: Number of samples of all ranks.
        starts: First global index of each rank, then the total, shape (ranks + 1,).
    """

    def __init__(self, points: Tensor, ranks: Ranks = ALONE) -> None:
        self.ranks = ranks
        self._search = neighbor_search(points)
        counts = ranks.gather(torch.tensor([len(points)]))
        self.starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        self.num_samples = int(self.starts[-1])
        if ranks.several:
            self._low = ranks.gather(points.amin(dim=0)[None])  # (ranks, d)
            self._high = ranks.gather(points.amax(dim=0)[None])

    def nearest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return distances (m, k) and global int32 indices (m, k) of the k nearest samples, nearest first."""
        k = min(count, self.num_samples)
        distances, indices = self._nearest_here(queries, k)
        if not self.ranks.several:
            return distances, indices

        # A query goes to every rank whose bounding box is nearer than the k-th sample found here.
        sent = [self._rows_near(queries, distances[:, -1], rank) for rank in range(self.ranks.count)]
        received = self.ranks.exchange([queries[rows] for rows in sent])
        results = [self._nearest_here(part, k) for part in received]
        found = self.ranks.exchange([torch.stack([d, j.double()], dim=1) for d, j in results])
        for rows, result in zip(sent, found, strict=True):
            if len(rows):
                d = torch.cat([distances[rows], result[:, 0]], dim=1)
                j = torch.cat([indices[rows], result[:, 1].int()], dim=1)
                distances[rows], order = d.topk(k, dim=1, largest=False, sorted=True)
                indices[rows] = j.gather(1, order)
        return distances, indices

    def count_within(self, queries: Tensor, radii: Tensor) -> Tensor:
        """Return the number of samples of all ranks within radius (m,) of each query."""
        if not self.ranks.several:
            return self._search.count_within(queries, radii)
        sent = [self._rows_near(queries, radii, rank) for rank in range(self.ranks.count)]
        sent[self.ranks.number] = torch.arange(len(queries))
        packed = torch.cat([queries, radii[:, None]], dim=1)
        received = self.ranks.exchange([packed[rows] for rows in sent])
        counts = self.ranks.exchange(
            [self._search.count_within(part[:, :-1], part[:, -1]) for part in received]
        )
        total = torch.zeros(len(queries), dtype=torch.int64)
        for rows, count in zip(sent, counts, strict=True):
            total.index_add_(0, rows, count)
        return total

    def _nearest_here(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k nearest samples of this rank; if it has fewer, the rest are at distance ∞."""
        distances, indices = self._search.nearest(queries, k)
        if missing := k - distances.shape[1]:
            distances = torch.nn.functional.pad(distances, (0, missing), value=torch.inf)
            indices = torch.nn.functional.pad(indices, (0, missing))
        return distances, indices + int(self.starts[self.ranks.number])

    def _rows_near(self, queries: Tensor, radii: Tensor, rank: int) -> Tensor:
        """Return the queries whose ball meets the bounding box of the samples of another rank."""
        if rank == self.ranks.number:
            return torch.zeros(0, dtype=torch.int64)
        outside = (self._low[rank] - queries).clamp(min=0) + (queries - self._high[rank]).clamp(min=0)
        return (outside.square().sum(dim=1).sqrt() <= radii).nonzero()[:, 0]
