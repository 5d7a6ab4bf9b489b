"""How the values of columns lie, from one pass over a log; the counts of two sets of rows add up."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.data._transitions import Transitions

_BINS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class ColumnCounts:
    """Ranges of the states, actions and the reward, and counts of rows between fixed edges.

    Attributes:
        edges: In equal distances over what a sample has, shape (k, B + 1).
        counts: Rows below the edges, between each two of them, and above, shape (k, B + 2).
        low: Least values, shape (k,).
        high: Largest ones.
    """

    edges: Tensor
    counts: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def between(cls, low: Tensor, high: Tensor) -> ColumnCounts:
        """Return the counts of no rows, with edges from low (k,) to high (k,)."""
        shares = torch.linspace(0.0, 1.0, _BINS + 1, dtype=torch.float64)
        edges = low[:, None] + (high - low)[:, None] * shares
        nothing = torch.zeros(len(low), _BINS + 2, dtype=torch.long)
        return cls(edges, nothing, torch.full_like(low, torch.inf), torch.full_like(high, -torch.inf))

    def with_rows(self, data: Transitions) -> ColumnCounts:
        """Return the counts with further rows."""
        values = torch.cat([data.states, data.actions, data.rewards[:, None]], dim=1).T.contiguous()
        places = torch.searchsorted(self.edges, values, right=True)
        places -= (values == self.edges[:, -1:]).long()  # the last edge is within
        found = torch.stack([one.bincount(minlength=_BINS + 2) for one in places])
        return self + ColumnCounts(self.edges, found, *values.aminmax(dim=1))

    def __add__(self, other: ColumnCounts) -> ColumnCounts:
        return ColumnCounts(
            self.edges,
            self.counts + other.counts,
            torch.minimum(self.low, other.low),
            torch.maximum(self.high, other.high),
        )

    @property
    def beyond(self) -> Tensor:
        """Number of rows outside the edges, shape (k,)."""
        return self.counts[:, 0] + self.counts[:, -1]

    def quantile(self, share: float) -> Tensor:
        """Return the value (k,) below which a share of the rows lies, to the distance of two edges.

        Example:
            >>> counts = ColumnCounts.between(torch.zeros(1).double(), torch.ones(1).double())
            >>> counts.counts[0, 1:501] += 1
            >>> counts.quantile(0.5)
            tensor([0.2500], dtype=torch.float64)
        """
        before = self.counts.cumsum(dim=1).double()
        wanted = share * before[:, -1:]
        place = torch.searchsorted(before, wanted).clamp(1, _BINS)
        count = self.counts.gather(1, place).clamp(min=1)
        within = ((wanted - before.gather(1, place - 1)) / count).clamp(0.0, 1.0)
        low, high = self.edges.gather(1, place - 1), self.edges.gather(1, place)
        return (low + within * (high - low))[:, 0]
