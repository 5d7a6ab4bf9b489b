"""Nearest samples of a query, wherever they are kept."""

from __future__ import annotations

import torch

from nopg._ranks import ALONE, Ranks
from nopg.neighbors._choice import neighbor_search

__all__ = ["SampleIndex"]


class SampleIndex:
    """The samples of all ranks, searched together; every rank asks at the same time, for its own queries.

    Args:
        points: Samples of this rank in units of the bandwidth, shape (n, d).
        ranks: Who shares the samples.

    Attributes:
        num_samples: Of all ranks.
        starts: The first global number of every rank, and their total, shape (ranks + 1,).
    """

    def __init__(self, points: torch.Tensor, ranks: Ranks = ALONE) -> None:
        self.ranks = ranks
        self._search = neighbor_search(points)
        counts = ranks.gather(torch.tensor([len(points)]))
        self.starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        self.num_samples = int(self.starts[-1])
        if ranks.several:
            self._low = ranks.gather(points.amin(dim=0)[None])  # (ranks, d)
            self._high = ranks.gather(points.amax(dim=0)[None])

    def nearest(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return distances (m, k) and global numbers (m, k), int32, of the nearest samples, nearest first."""
        k = min(count, self.num_samples)
        distances, indices = self._own(queries, k)
        if not self.ranks.several:
            return distances, indices

        # Others are asked for the queries whose reach meets the box that holds their samples.
        reach = distances[:, -1]
        asked = [self._within_reach(queries, reach, rank) for rank in range(self.ranks.count)]
        theirs = self.ranks.exchange([queries[rows] for rows in asked])
        answers = [self._own(part, k) for part in theirs]
        found = self.ranks.exchange([torch.stack([d, j.double()], dim=1) for d, j in answers])
        for rows, answer in zip(asked, found, strict=True):
            if len(rows):
                d = torch.cat([distances[rows], answer[:, 0]], dim=1)
                j = torch.cat([indices[rows], answer[:, 1].int()], dim=1)
                distances[rows], order = d.topk(k, dim=1, largest=False, sorted=True)
                indices[rows] = j.gather(1, order)
        return distances, indices

    def count_within(self, queries: torch.Tensor, radii: torch.Tensor) -> torch.Tensor:
        """Return how many samples of all ranks lie within radius (m,) of each query."""
        if not self.ranks.several:
            return self._search.count_within(queries, radii)
        asked = [self._within_reach(queries, radii, rank) for rank in range(self.ranks.count)]
        asked[self.ranks.number] = torch.arange(len(queries))
        packed = torch.cat([queries, radii[:, None]], dim=1)
        theirs = self.ranks.exchange([packed[rows] for rows in asked])
        answers = self.ranks.exchange(
            [self._search.count_within(part[:, :-1], part[:, -1]) for part in theirs]
        )
        total = torch.zeros(len(queries), dtype=torch.int64)
        for rows, answer in zip(asked, answers, strict=True):
            total.index_add_(0, rows, answer)
        return total

    def _own(self, queries: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the k nearest of this rank; infinitely far ones fill up where it has fewer."""
        distances, indices = self._search.nearest(queries, k)
        missing = k - distances.shape[1]
        if missing:
            distances = torch.nn.functional.pad(distances, (0, missing), value=torch.inf)
            indices = torch.nn.functional.pad(indices, (0, missing))
        return distances, indices + int(self.starts[self.ranks.number])

    def _within_reach(self, queries: torch.Tensor, reach: torch.Tensor, rank: int) -> torch.Tensor:
        if rank == self.ranks.number:
            return torch.zeros(0, dtype=torch.int64)
        outside = (self._low[rank] - queries).clamp(min=0) + (queries - self._high[rank]).clamp(min=0)
        return (outside.square().sum(dim=1).sqrt() <= reach).nonzero()[:, 0]
