"""One pass over a log: a sample, then sums over all rows on several processes."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Literal, Unpack

import torch

from nopg.data import Transitions
from nopg.data.io._files import Paths
from nopg.data.io._roles import Columns
from nopg.errors import ArgumentError
from nopg.large_logs._fleet import Fleet
from nopg.large_logs._log import LargeLog, joined
from nopg.large_logs._pool import on_ray, sum_on_processes
from nopg.large_logs._sums import PassSums, ShardTask
from nopg.models import LocalModel
from nopg.models._log_summary import LogSummary
from nopg.models._regression_rows import NUM_GROUPS

_SAMPLE_ROWS = 20_000

Engine = Callable[[Callable[[int], bytes], int], Sequence[bytes]]
"""Runs a task for every number below a count, anywhere, and returns the results in their order."""


def summarize(
    path: Paths | LargeLog,
    *,
    workers: int | None = None,
    engine: Literal["processes", "ray"] | Engine = "processes",
    progress: bool = True,
    **columns: Unpack[Columns],
) -> LogSummary:
    """Return a summary of Parquet files of any length, for `optimize`.

    A sample of 20 000 rows tells where charts lie; then all rows are added up in one pass. Memory does not
    grow with the log. The result depends on the number of workers only in the order of additions, and not on
    the engine.

    Args:
        path: A file, a folder, a glob or several of them; or a `LargeLog`.
        workers: Shares that are summed at a time; one for each core by default.
        engine: Processes of this machine, tasks of a Ray cluster, which sees the same files, or a function
            that runs tasks elsewhere.
        progress: Whether to show rows, time left and memory.
        columns: Roles and settings, as in `nopg.read_parquet`.
    """
    log = path if isinstance(path, LargeLog) else LargeLog.of(path, **columns)
    sample, groups, found = _one_pass(log, workers, engine, progress=progress)
    (total,) = found.plants.values()
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

    Args:
        path: A file, a folder, a glob or several of them.
        plant: The column with the name or number of a plant.
        workers: As in `summarize`.
        engine: As in `summarize`.
        progress: Whether to show rows, time left and memory.
        columns: Roles and settings, as in `nopg.read_parquet`.
    """
    log = LargeLog.of(path, plant=plant, **columns)
    sample, groups, found = _one_pass(log, workers, engine, progress=progress)
    return Fleet(sample, groups, {name: found.plants[name] for name in sorted(found.plants)})


def _one_pass(
    log: LargeLog,
    workers: int | None,
    engine: Literal["processes", "ray"] | Engine,
    *,
    progress: bool,
) -> tuple[Transitions, torch.Tensor, PassSums]:
    """Return a sample of a log with its groups, and the sums of all rows."""
    if not callable(engine) and engine not in {"processes", "ray"}:
        raise ArgumentError(f"there is no engine {engine!r}; choose 'processes' or 'ray', or give a function")
    count = workers or os.cpu_count() or 1
    if count < 1:
        raise ArgumentError(f"workers is {workers}; it must be positive")
    runs = log.sample(_SAMPLE_ROWS)
    sample = joined(runs)
    groups = torch.cat([log.groups(run, NUM_GROUPS) for run in runs])
    task = ShardTask(log, LocalModel(sample, groups=groups).steps.lean(), log.shards(count))
    if engine == "processes":
        found = sum_on_processes(task, progress=progress)
    else:
        run = on_ray if engine == "ray" else engine
        found = [pickle.loads(one) for one in run(task, len(task.shards))]
    total = reduce(add, found)
    return replace(sample, repairs=total.repairs), groups, total
