"""The rows of each rank and their order, by cells of the next states."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nopg._ranks import ALONE, Ranks
from nopg._spatial import SpatialCells, spatial_order
from nopg.data import Transitions
from nopg.kernels import GaussianKernel

__all__ = ["SharedRows", "gather_initial_states", "is_sharded", "share_rows", "whole_data"]

# Bandwidths and other statistics of all data are computed from at most this many rows.
_MOST_ROWS = 2_000_000


@dataclass(frozen=True, slots=True)
class SharedRows:
    """The rows of one rank.

    Attributes:
        data: Its transitions; rows with nearby next states are close in memory.
        rows: Index of each row in the data of all ranks as given, shape (n,).
        cells: The cells of the next states; a rank has consecutive cells.
        ranks: The ranks that share the rows.
    """

    data: Transitions
    rows: Tensor
    cells: SpatialCells
    ranks: Ranks


def is_sharded(data: Transitions, ranks: Ranks) -> bool:
    """Return whether the ranks were given different rows."""
    if not ranks.several:
        return False
    digest = hashlib.blake2b(digest_size=6)
    for column in (data.states, data.actions, data.rewards, data.next_states):
        digest.update(column.numpy().tobytes())
    number = int.from_bytes(digest.digest(), "big")
    return not ranks.same(torch.tensor([len(data), number], dtype=torch.float64))


def share_rows(data: Transitions, metric: GaussianKernel, ranks: Ranks = ALONE) -> SharedRows:
    """Sort the rows by the cells of their next states and give each rank its cells.

    Cells, and the order of the rows in each, do not depend on how many ranks there are.

    Args:
        data: All rows, or this rank's part of them.
        metric: Distances are measured in its bandwidths.
        ranks: All ranks.
    """
    places, first = metric.scale(data.next_features), 0
    part = is_sharded(data, ranks)
    if part:
        counts = ranks.gather(torch.tensor([len(data)]))
        first, total = int(counts[: ranks.number].sum()), int(counts.sum())
        cells = SpatialCells.of_every(places, first, total, ranks)
    else:
        cells = SpatialCells.of(places)
    number = cells.number(places)
    owner = number * ranks.count // cells.count
    rows = torch.arange(first, first + len(data))
    if part:
        data, rows = _exchanged(data, rows, owner, ranks)
    elif ranks.several:
        own = (owner == ranks.number).nonzero()[:, 0]
        data, rows = data.take(own), rows[own]
    places = metric.scale(data.next_features)
    order = spatial_order(places, cells.number(places))
    return SharedRows(data.take(order), rows[order], cells, ranks)


def whole_data(data: Transitions, ranks: Ranks) -> Transitions:
    """Return the rows of all ranks, or every k-th of them if there are over two million."""
    if not is_sharded(data, ranks):
        return data
    total = int(ranks.total(len(data)))
    step = -(-total // _MOST_ROWS)
    return _unpacked(data, ranks.gather(_packed(data.take(torch.arange(0, len(data), step)))))


def gather_initial_states(data: Transitions, ranks: Ranks) -> Tensor:
    """Return the raw initial states (n₀, d_s) of the rows of all ranks, the same on every rank.

    An episode of which several ranks hold rows starts where the first of them has it.
    """
    if data.initial_states is not None or not is_sharded(data, ranks):
        return data.starts
    if data.episodes is None:
        return ranks.gather(data.states)
    numbers = data.episodes.unique()  # in the order of `starts`
    everyone = ranks.exchange([numbers] * ranks.count)
    earlier = torch.cat([numbers[:0], *everyone[: ranks.number]])
    return ranks.gather(data.starts[~torch.isin(numbers, earlier)])


def _exchanged(data: Transitions, rows: Tensor, owner: Tensor, ranks: Ranks) -> tuple[Transitions, Tensor]:
    """Send every row to the rank that owns its cell."""
    packed = torch.cat([rows.double()[:, None], _packed(data)], dim=1)
    received = torch.cat(ranks.exchange([packed[owner == rank] for rank in range(ranks.count)]))
    return _unpacked(data, received[:, 1:]), received[:, 0].long()


def _packed(data: Transitions) -> Tensor:
    """Return all columns of all rows as one table (n, c)."""
    columns = [data.states, data.actions, data.rewards[:, None], data.next_states]
    columns += [data.terminated.double()[:, None], data.truncated.double()[:, None]]
    # Reinterpreted bits: an episode number may be too large for float64.
    columns += [] if data.episodes is None else [data.episodes.view(torch.float64)[:, None]]
    columns += [] if data.weights is None else [data.weights[:, None]]
    return torch.cat(columns, dim=1)


def _unpacked(like: Transitions, table: Tensor) -> Transitions:
    """Return the transitions of a table made by `_packed` from data like these."""
    d_s, d_a = like.states.shape[1], like.actions.shape[1]
    states, actions, rewards, next_states, terminated, truncated, rest = table.split(
        [d_s, d_a, 1, d_s, 1, 1, table.shape[1] - 2 * d_s - d_a - 3], dim=1
    )
    extra = list(rest.T)
    return replace(
        like,
        states=states.contiguous(),
        actions=actions.contiguous(),
        rewards=rewards[:, 0].contiguous(),
        next_states=next_states.contiguous(),
        terminated=terminated[:, 0] > 0,
        truncated=truncated[:, 0] > 0,
        episodes=None if like.episodes is None else extra.pop(0).contiguous().view(torch.int64),
        weights=None if like.weights is None else extra.pop(0).contiguous(),
    )
