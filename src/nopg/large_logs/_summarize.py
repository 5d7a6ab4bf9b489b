"""One pass over a log: a sample, then sums over all rows on several processes or a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import reduce
from typing import Any, Literal, Unpack

import torch

from nopg.data import Repairs, Transitions
from nopg.data.io._files import Paths, extra
from nopg.data.io._roles import Columns
from nopg.errors import ArgumentError
from nopg.large_logs._fleet import Fleet
from nopg.large_logs._log import LargeLog, ShardTask, Sums, joined, merged
from nopg.models import LocalModel
from nopg.models._log_summary import LogSummary
from nopg.models._regression_rows import NUM_GROUPS

_SAMPLE_ROWS = 20_000
# Shares for each worker, between which progress is shown.
_SHARES = 8
# The task of a process, set once when it starts.
_own: list[ShardTask] = []

Engine = Callable[[Callable[[int], bytes], int], Sequence[bytes]]
"""Runs a task for every number below a count, anywhere, and returns the results in their order."""


def summarize(
    path: Paths,
    *,
    workers: int | None = None,
    engine: Literal["processes", "ray"] | Engine = "processes",
    progress: bool = True,
    **columns: Unpack[Columns],
) -> LogSummary:
    """Return a summary of Parquet files of any length, for `optimize`.

    A sample of 20 000 rows tells where charts lie; then all rows are added up in one pass. Memory does not
    grow with the log. The result depends on the number of workers only in the order of additions, and not on
    the engine. Give next-state columns, or the last row of each part of a file is lost.

    Args:
        path: A file, a folder, a glob or several of them.
        workers: Shares that are summed at a time, eight for each; one worker for each core by default.
        engine: Processes of this machine, tasks of a Ray cluster, which sees the same files, or a function
            that runs tasks elsewhere.
        progress: Whether to show rows and time left.
        columns: Roles and settings, as in `nopg.read_parquet`.
    """
    sample, groups, found = _one_pass(LargeLog.of(path, **columns), workers, engine, progress=progress)
    (total,) = found.values()
    return LogSummary(sample.starting_at(total.starts), groups, total.statistics, columns=total.columns)


def summarize_fleet(
    path: Paths,
    plant: str,
    *,
    workers: int | None = None,
    engine: Literal["processes", "ray"] | Engine = "processes",
    progress: bool = True,
    **columns: Unpack[Columns],
) -> Fleet:
    """Return the sums of every plant of Parquet files in which a column says which plant a row is from.

    Charts are placed by a sample of all plants, and each plant has sums of its own around them, in one pass.
    `plant` names the column; the other arguments are those of `summarize`.
    """
    log = LargeLog.of(path, plant=plant, **columns)
    sample, groups, found = _one_pass(log, workers, engine, progress=progress)
    return Fleet(sample, groups, dict(sorted(found.items())))


def _one_pass(
    log: LargeLog, workers: int | None, engine: Literal["processes", "ray"] | Engine, *, progress: bool
) -> tuple[Transitions, torch.Tensor, Sums]:
    """Return a sample of a log with its groups, and the sums of all rows."""
    if not callable(engine) and engine not in {"processes", "ray"}:
        raise ArgumentError(f"there is no engine {engine!r}; choose 'processes' or 'ray', or give a function")
    count = workers or os.cpu_count() or 1
    if count < 1:
        raise ArgumentError(f"workers is {workers}; it must be positive")
    runs = log.sample(_SAMPLE_ROWS)
    sample = joined(runs)
    groups = torch.cat([log.groups(run, NUM_GROUPS) for run in runs])
    num_shards = min(_SHARES * count if count > 1 else 1, len(log.parts))
    shards = [log.parts[k::num_shards] for k in range(num_shards)]
    task = ShardTask(log, LocalModel(sample, groups=groups).steps.lean(), shards)
    if engine == "processes":
        found = _on_processes(task, count, progress=progress)
    else:
        run = _on_ray if engine == "ray" else engine
        found = [pickle.loads(one) for one in run(task, len(shards))]
    total = reduce(merged, found)
    repairs = sum((one.repairs for one in total.values()), Repairs())
    return replace(sample, repairs=repairs), groups, total


def _on_processes(task: ShardTask, workers: int, *, progress: bool) -> list[Sums]:
    """Return the sums of each share, summed on several processes; of a single one in this process."""
    count, rows, began, found = len(task.shards), task.log.num_rows, time.monotonic(), list[Sums]()
    if count == 1:
        return [task.sums(0)]
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawned, initializer=_begin, initargs=(task,)) as pool:
        for number, sums in enumerate(pool.map(_sum, range(count)), start=1):
            found.append(sums)
            if progress:
                done, left = rows * number // count, (time.monotonic() - began) * (count / number - 1) / 60
                line = f"{done:,} of {rows:,} rows ({number / count:.0%}), {left:.1f} min left"
                sys.stderr.write(f"\r{line}   " + "\n" * (number == count))
                sys.stderr.flush()
    return found


def _begin(task: ShardTask) -> None:
    torch.set_num_threads(1)
    _own.append(task)


def _sum(number: int) -> Sums:
    return _own[0].sums(number)


def _on_ray(task: Callable[[int], bytes], count: int) -> list[bytes]:
    """Return the results of tasks 0 to count − 1, on the cluster of `RAY_ADDRESS` or else on this machine."""
    ray, data = extra("ray"), extra("ray.data")
    # Ray repeats tasks that are lost.
    ray.init(ignore_reinit_error=True, log_to_driver=False)
    stored = ray.put(task)

    def run(row: Mapping[str, Any]) -> dict[str, Any]:
        return {"id": row["id"], "result": ray.get(stored)(int(row["id"]))}

    found = data.range(count, override_num_blocks=count).map(run).take_all()
    return [row["result"] for row in sorted(found, key=lambda row: int(row["id"]))]
