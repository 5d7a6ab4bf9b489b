"""Sums of the parts of a log on the cores of one machine."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import torch

from nopg._memory import peak_memory
from nopg.large_logs._log import LargeLog, LogPart
from nopg.large_logs._sums import PassSums, sum_parts
from nopg.models._one_step import OneStep

_SECONDS = 1.0
# What a process works with, set once when it starts.
_task: dict[str, Any] = {}


def sum_on_processes(
    log: LargeLog, steps: OneStep, shards: Sequence[Sequence[LogPart]], *, progress: bool
) -> list[PassSums]:
    """Return the sums of each share of the parts, one process for each; of a single one in this process.

    Args:
        log: The log.
        steps: Model of a sample.
        shards: Shares of the parts.
        progress: Whether to write a line with rows, time left and memory on the standard error.
    """
    context = multiprocessing.get_context("spawn")
    counters = context.Value("q", 0), context.Value("q", 0)
    line = _Line(log.num_rows)
    if len(shards) == 1:
        return [sum_parts(log, steps, shards[0])]
    with ProcessPoolExecutor(
        len(shards), context, initializer=_begin, initargs=(log, steps, counters)
    ) as pool:
        waiting = [pool.submit(_sum, shard) for shard in shards]
        while wait(waiting, timeout=_SECONDS).not_done:
            if progress:
                line.write(*(counter.value for counter in counters))
        found = [future.result() for future in waiting]
    if progress:
        line.write(*(counter.value for counter in counters))
        sys.stderr.write("\n")
    return found


def _begin(log: LargeLog, steps: OneStep, counters: tuple[Any, Any]) -> None:
    torch.set_num_threads(1)
    _task.update(log=log, steps=steps, counters=counters)


def _sum(parts: Sequence[LogPart]) -> PassSums:
    return sum_parts(_task["log"], _task["steps"], parts, _advance)


def _advance(rows: int) -> None:
    """Count rows, and keep the largest memory of a process."""
    done, memory = _task["counters"]
    with done.get_lock():
        done.value += rows
    with memory.get_lock():
        memory.value = max(memory.value, peak_memory())


@dataclass(slots=True)
class _Line:
    """One line that is written again and again: rows, time left, memory."""

    rows: int
    began: float = field(default_factory=time.monotonic)

    def write(self, done: int, memory: int) -> None:
        """Write the line."""
        share, taken = done / self.rows, time.monotonic() - self.began
        left = f"{taken * (1 - share) / share / 60:.1f} min left" if done else "starting"
        sys.stderr.write(
            f"\r{done:,} of {self.rows:,} rows ({share:.0%}), {left}, {memory / 1e6:.0f} MB a process   "
        )
        sys.stderr.flush()
