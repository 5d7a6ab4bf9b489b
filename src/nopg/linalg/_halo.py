"""The entries of a vector that this rank needs and another rank owns."""

from __future__ import annotations

import torch
from torch import Tensor

from nopg._ranks import Ranks

__all__ = ["Halo", "localize"]


class Halo:
    """Extends vectors (n,) of this rank to (n + h,): its own entries, then the remote ones that it needs.

    Args:
        ranks: All ranks; they build the halo together.
        needed: Global indices of the remote entries, ascending, shape (h,).
        starts: First global index of each rank, then the total, shape (ranks + 1,).
    """

    def __init__(self, ranks: Ranks, needed: Tensor, starts: Tensor) -> None:
        self.ranks, self.num_own = ranks, int(starts[ranks.number + 1] - starts[ranks.number])
        owners = torch.searchsorted(starts, needed, right=True) - 1
        self._num_received = torch.bincount(owners, minlength=ranks.count).tolist()
        requested = ranks.exchange(list(needed.split(self._num_received)))
        self._num_sent = [len(part) for part in requested]
        self._sent = torch.cat(requested) - starts[ranks.number]  # own entries that others need

    def extend(self, x: Tensor) -> Tensor:
        """Return x (n, …) followed by the remote entries, (n + h, …)."""
        parts = x.index_select(0, self._sent).split(self._num_sent)
        return torch.cat([x, *self.ranks.exchange_known(parts, self._num_received)])

    def fold(self, y: Tensor) -> Tensor:
        """Return y (n + h, …) as (n, …), remote entries added at their owners: `extend` transposed."""
        own, remote = y[: self.num_own], y[self.num_own :]
        parts = self.ranks.exchange_known(remote.split(self._num_received), self._num_sent)
        return own.index_add(0, self._sent, torch.cat(parts))


def localize(columns: Tensor, starts: Tensor, ranks: Ranks) -> tuple[Tensor, int, Halo | None]:
    """Return local column indices, the number of local columns, and the halo.

    Args:
        columns: Global indices, any shape.
        starts: First global index of each rank, then the total.
        ranks: All ranks.
    """
    first, end = int(starts[ranks.number]), int(starts[ranks.number + 1])
    if not ranks.several:
        return columns, end, None
    remote = (columns < first) | (columns >= end)
    needed = columns[remote].long().unique()
    halo = Halo(ranks, needed, starts)
    local = columns.long() - first
    local[remote] = end - first + torch.searchsorted(needed, columns[remote].long())
    return local.to(columns.dtype), end - first + len(needed), halo
