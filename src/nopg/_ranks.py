"""The processes that share one equation: alone, or several started by torchrun."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from types import FrameType
from typing import TypeVar

import torch
import torch.distributed as dist

from nopg.errors import RankError

__all__ = ["ALONE", "Ranks", "current_ranks"]

_T = TypeVar("_T")

# A rank that does not respond for this long is lost.
_TIMEOUT = timedelta(seconds=50)


@dataclass(eq=False, slots=True)
class Ranks:
    """The ranks of a run; with one rank every exchange is the identity.

    Attributes:
        number: Index of this rank, from 0.
        count: Number of ranks.
        bytes_sent: Bytes that this rank has sent in `exchange`, for reports.
    """

    number: int = 0
    count: int = 1
    bytes_sent: int = field(default=0, init=False)

    @property
    def several(self) -> bool:
        """Whether there is more than one rank."""
        return self.count > 1

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of every rank's x."""
        return self._reduce(x, dist.ReduceOp.SUM)

    def max(self, x: torch.Tensor) -> torch.Tensor:
        """Return the elementwise maximum of every rank's x."""
        return self._reduce(x, dist.ReduceOp.MAX)

    def total(self, number: float) -> float:
        """Return the sum of every rank's number."""
        return float(self.sum(torch.tensor(number, dtype=torch.float64))) if self.several else number

    def gather(self, x: torch.Tensor, known: Sequence[int] | None = None) -> torch.Tensor:
        """Return the rows (m₀ + m₁ + …, …) of all ranks, in their order; `known` are their row counts."""
        if not self.several:
            return x
        counts = self._counts(len(x)) if known is None else known
        longest = max(counts)
        padded = x.new_zeros(longest, *x.shape[1:])
        padded[: len(x)] = x
        everyone = [torch.empty_like(padded) for _ in range(self.count)]
        _guarded(lambda: dist.all_gather(everyone, padded))
        return torch.cat([part[:count] for part, count in zip(everyone, counts, strict=True)])

    def exchange(self, parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Send parts[k] (m, …) to rank k, and return the parts received from every rank."""
        if not self.several:
            return list(parts)
        lengths = torch.tensor([len(part) for part in parts])
        counts = torch.empty_like(lengths)
        _guarded(lambda: dist.all_to_all_single(counts, lengths))
        return self.exchange_known(parts, counts.tolist())

    def exchange_known(self, parts: Sequence[torch.Tensor], counts: Sequence[int]) -> list[torch.Tensor]:
        """Exchange parts whose row counts every rank knows."""
        if not self.several:
            return list(parts)
        sent = torch.cat(list(parts)).contiguous()
        received = sent.new_empty(sum(counts), *sent.shape[1:])
        lengths = [len(part) for part in parts]
        _guarded(lambda: dist.all_to_all_single(received, sent, list(counts), lengths))
        self.bytes_sent += (len(sent) - lengths[self.number]) * sent[:1].numel() * sent.element_size()
        return list(received.split(list(counts)))

    def wait(self) -> None:
        """Wait for all ranks."""
        if self.several:
            _guarded(dist.barrier)

    def same(self, numbers: torch.Tensor) -> bool:
        """Return whether all ranks hold the same numbers."""
        if not self.several:
            return True
        highest, lowest = self.max(numbers), -self.max(-numbers)
        return bool((highest == lowest).all())

    def _counts(self, count: int) -> list[int]:
        everyone = [torch.zeros(1, dtype=torch.int64) for _ in range(self.count)]
        _guarded(lambda: dist.all_gather(everyone, torch.tensor([count])))
        return [int(number) for number in everyone]

    def _reduce(self, x: torch.Tensor, operation: dist.ReduceOp.RedOpType) -> torch.Tensor:
        if not self.several:
            return x
        total = x.clone()
        _guarded(lambda: dist.all_reduce(total, op=operation))
        return total


ALONE = Ranks()


def current_ranks() -> Ranks:
    """Return the ranks that torchrun started, joined on the first call; `ALONE` without torchrun."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ALONE
    if not dist.is_initialized():
        _guarded(_join)
    return _joined(dist.get_rank(), dist.get_world_size())


def _join() -> None:
    """Join the process group of torchrun."""
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store, rank, count = next(rendezvous("env://", timeout=_TIMEOUT))
    # After a restart the store still holds the addresses of lost ranks.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    fresh = PrefixStore(f"nopg/{attempt}", store)
    dist.init_process_group("gloo", store=fresh, rank=rank, world_size=count, timeout=_TIMEOUT)
    # At interpreter exit the threads of the group may abort the process.
    atexit.register(_leave)
    in_main = threading.current_thread() is threading.main_thread()
    if "TORCHELASTIC_RUN_ID" in os.environ and in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        _report_termination()


def _report_termination() -> None:
    """Print an error when torchrun ends this rank because another one is lost.

    A thread prints it, because the main one may wait inside a library for the lost rank.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGTERM, _ended)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(reader,), name="nopg: end of ranks", daemon=True).start()


def _listen(reader: int) -> None:
    while number := os.read(reader, 1):
        if number[0] == signal.SIGTERM:
            os.write(2, f"{_lost('torchrun ended this one')}\n".encode())
            return


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


@cache
def _joined(number: int, count: int) -> Ranks:
    return Ranks(number, count)


def _guarded(work: Callable[[], _T]) -> _T:
    """Return the result of a collective operation; raise if another rank is lost."""
    try:
        return work()
    except RuntimeError as error:
        raise _lost(str(error).split("] ", 1)[-1].split(". ", 1)[0]) from error


def _ended(_signal: int, _frame: FrameType | None) -> None:
    raise _lost("torchrun ended this one")


def _lost(reason: str) -> RankError:
    rank = dist.get_rank() if dist.is_initialized() else os.environ.get("RANK", "?")
    return RankError(
        f"rank {rank}: another rank is gone or silent ({reason}); start again from the last checkpoint, "
        "or let torchrun do it with --max-restarts"
    )
