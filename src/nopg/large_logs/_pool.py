"""Sums of the shares of a log, on the cores of one machine or on a Ray cluster."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, wait
from typing import Any

import torch

from nopg._memory import peak_memory
from nopg.data.io._files import extra
from nopg.large_logs._sums import PassSums, ShardTask

_SECONDS = 1.0
# What a process works with, set once when it starts.
_own: dict[str, Any] = {}


def sum_on_processes(task: ShardTask, *, progress: bool) -> list[PassSums]:
    """Return the sums of each share, one process for each; of a single one in this process.

    Args:
        task: Sums a share by its number.
        progress: Whether to write a line with rows, time left and memory on the standard error.
    """
    count, rows, began = len(task.shards), task.log.num_rows, time.monotonic()
    if count == 1:
        return [task.sums(0)]
    context = multiprocessing.get_context("spawn")
    counters = context.Value("q", 0), context.Value("q", 0)

    def write_line() -> None:
        done, memory = (counter.value for counter in counters)
        share, taken = done / rows, time.monotonic() - began
        left = f"{taken * (1 - share) / share / 60:.1f} min left" if done else "starting"
        sys.stderr.write(
            f"\r{done:,} of {rows:,} rows ({share:.0%}), {left}, {memory / 1e6:.0f} MB a process   "
        )
        sys.stderr.flush()

    with ProcessPoolExecutor(count, context, initializer=_begin, initargs=(task, counters)) as pool:
        waiting = [pool.submit(_sum, number) for number in range(count)]
        while wait(waiting, timeout=_SECONDS).not_done:
            if progress:
                write_line()
        found = [future.result() for future in waiting]
    if progress:
        write_line()
        sys.stderr.write("\n")
    return found


def _begin(task: ShardTask, counters: tuple[Any, Any]) -> None:
    torch.set_num_threads(1)
    _own.update(task=task, counters=counters)


def _sum(number: int) -> PassSums:
    found: PassSums = _own["task"].sums(number, _advance)
    return found


def _advance(rows: int) -> None:
    """Count rows, and keep the largest memory of a process."""
    done, memory = _own["counters"]
    with done.get_lock():
        done.value += rows
    with memory.get_lock():
        memory.value = max(memory.value, peak_memory())


def on_ray(task: Callable[[int], bytes], count: int) -> list[bytes]:
    """Return the results of tasks 0 to count − 1, on the cluster of `RAY_ADDRESS` or else on this machine.

    Tasks that are lost are repeated.
    """
    ray, data = extra("ray"), extra("ray.data")
    ray.init(ignore_reinit_error=True, log_to_driver=False)
    stored = ray.put(task)

    def run(row: Mapping[str, Any]) -> dict[str, Any]:
        return {"id": row["id"], "result": ray.get(stored)(int(row["id"]))}

    found = data.range(count, override_num_blocks=count).map(run).take_all()
    return [row["result"] for row in sorted(found, key=lambda row: int(row["id"]))]
