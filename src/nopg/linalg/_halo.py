"""The entries of a vector that another rank owns and this one needs."""

from __future__ import annotations

import torch

from nopg._ranks import Ranks

__all__ = ["Halo", "localize"]


class Halo:
    """Brings vectors (n,) of this rank to (n + h,): its own entries, then those of others that it needs.

    Args:
        ranks: Who takes part; all of them build the halo together.
        needed: Global numbers of the remote entries that are needed, ascending, shape (h,).
        starts: The first global number of every rank, and their total, shape (ranks + 1,).
    """

    def __init__(self, ranks: Ranks, needed: torch.Tensor, starts: torch.Tensor) -> None:
        self.ranks, self.num_own = ranks, int(starts[ranks.number + 1] - starts[ranks.number])
        owners = torch.searchsorted(starts, needed, right=True) - 1
        self._coming = torch.bincount(owners, minlength=ranks.count).tolist()
        asked = ranks.exchange(list(needed.split(self._coming)))
        self._leaving = [len(part) for part in asked]
        self._wanted = torch.cat(asked) - starts[ranks.number]  # own entries that others need

    @property
    def num_remote(self) -> int:
        """How many entries of others are needed."""
        return sum(self._coming)

    def extend(self, x: torch.Tensor) -> torch.Tensor:
        """Return x (n, …) with the remote entries behind it, (n + h, …)."""
        parts = x.index_select(0, self._wanted).split(self._leaving)
        return torch.cat([x, *self.ranks.exchange_known(parts, self._coming)])

    def fold(self, y: torch.Tensor) -> torch.Tensor:
        """Return y (n + h, …) with remote entries added where they belong, (n, …): `extend`, transposed."""
        own, remote = y[: self.num_own], y[self.num_own :]
        parts = self.ranks.exchange_known(remote.split(self._coming), self._leaving)
        return own.index_add(0, self._wanted, torch.cat(parts))


def localize(
    columns: torch.Tensor, starts: torch.Tensor, ranks: Ranks
) -> tuple[torch.Tensor, int, Halo | None]:
    """Return global column numbers as local ones, how many columns there are here, and the halo.

    Args:
        columns: Global numbers, any shape.
        starts: The first global number of every rank, and their total.
        ranks: Who takes part.
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
