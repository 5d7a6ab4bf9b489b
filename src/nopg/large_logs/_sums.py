"""What one pass over parts of a log keeps; it adds up."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from nopg.data._hashes import hashed_groups, row_hashes
from nopg.errors import DataError
from nopg.large_logs._log import LargeLog, LogPart
from nopg.models._one_step import OneStep
from nopg.models._statistics import Statistics

__all__ = ["PassSums", "ShardTask", "sum_parts"]

_MOST_STARTS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class PassSums:
    """Sums over rows, and a sample of the states in which the task begins.

    Attributes:
        statistics: Sums of the charts.
        starts: Those with the smallest hashes, shape (m, d_s): the same ones in any order.
    """

    statistics: Statistics
    starts: torch.Tensor

    def __add__(self, other: PassSums) -> PassSums:
        return PassSums(self.statistics + other.statistics, _fewest(self.starts, other.starts))


@dataclass(frozen=True, slots=True, eq=False)
class ShardTask:
    """A function of the number of a share: it sums the share and returns the bytes of its sums.

    Attributes:
        log: The log, whose files every machine sees under the same path.
        steps: Model of a sample.
        shards: Shares of the parts.
    """

    log: LargeLog
    steps: OneStep
    shards: Sequence[Sequence[LogPart]]

    def __call__(self, number: int) -> bytes:
        """Return the sums of a share."""
        torch.set_num_threads(1)
        return pickle.dumps(sum_parts(self.log, self.steps, self.shards[number]))


def sum_parts(
    log: LargeLog, steps: OneStep, parts: Iterable[LogPart], advance: Callable[[int], None] | None = None
) -> PassSums:
    """Return the sums over some parts of a log, one after the other in bounded memory.

    Args:
        log: The log.
        steps: Model of a sample of it.
        parts: The parts.
        advance: Is called with the number of rows that were added.
    """
    found: Statistics | None = None
    starts = torch.zeros(0, steps.num_states, dtype=torch.float64)
    for part in parts:
        data = log.read(part)
        found = steps.statistics(data, hashed_groups(data, steps.rows.num_groups), found)
        starts = _fewest(starts, log.starts(data, part))
        if advance:
            advance(len(data))
    if found is None:
        raise DataError("there are no parts to sum")
    return PassSums(found, starts)


def _fewest(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the distinct states of both with the smallest hashes."""
    states = torch.cat([one, other]).unique(dim=0) if len(other) <= _MOST_STARTS else torch.cat([one, other])
    return states[row_hashes(states).argsort(stable=True)[:_MOST_STARTS]]
