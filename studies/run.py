"""Making the runs of a study, and keeping a record of each."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nopg import Transitions
from nopg.errors import MissingExtraError, NopgError
from studies.job_runner import in_processes
from studies.ours import Outcome, train_nopg
from studies.plan import Job
from studies.plants import BENCHMARKS, Returns
from studies.records import FOLDER, Record, append, code_version, read
from studies.rivals import RIVALS

__all__ = ["missing", "run_all", "run_one"]

# What a change of makes a run of a method out of date; after a change of a plant use --again.
_CODE = {"nopg": ("src/nopg",), "behaviour": ("studies/plants",)}
_RIVAL_CODE = ("studies/rivals.py", "src/nopg/baselines")


def missing(
    jobs: Sequence[Job], *, options: Mapping[str, Any] | None = None, folder: Path = FOLDER
) -> list[Job]:
    """Return the jobs that have no record of the present version of the code.

    Args:
        jobs: The jobs.
        options: Arguments of `nopg.optimize` that are not the default.
        folder: Where the records are.
    """
    done = {record.key for study in {job.study for job in jobs} for record in read(folder, study)}
    nothing = Returns(0.0, 0.0, 0.0, 0)
    return [job for job in jobs if _record(job, options, nothing, seconds=0.0).key not in done]


def run_all(
    jobs: Sequence[Job],
    *,
    workers: int = 1,
    options: Mapping[str, Any] | None = None,
    folder: Path = FOLDER,
) -> Iterator[Record]:
    """Make runs and yield their records, each already written to the file of its study.

    Args:
        jobs: The runs to make; those that have no meaning for a benchmark are left out.
        workers: Number of processes; with 1 everything runs in this one.
        options: Arguments of `nopg.optimize` that are not the default.
        folder: Where the records go.
    """
    for record in in_processes(jobs, partial(run_one, options=options), workers):
        if record is not None:
            append(record, folder)
            yield record


def run_one(job: Job, options: Mapping[str, Any] | None = None) -> Record | None:
    """Make one run; None where no behaviour logged the data of the benchmark."""
    torch.set_num_threads(1)
    benchmark = BENCHMARKS[job.benchmark]
    if job.method == "behaviour":
        returns = benchmark.behaviour_returns(job.seed)
        return None if returns is None else _record(job, options, returns, seconds=0.0)

    data = benchmark.data(job.rows, job.seed)
    began = time.process_time()
    try:
        trained = _train(job, data, benchmark.discount, options)
    except MissingExtraError:
        raise
    except NopgError as error:  # a method that gives up has failed the run
        failed = Outcome(lambda observations: observations, {}, (f"{type(error).__name__}: {error}",))
        none = Returns(math.nan, math.nan, math.nan, 0)
        return _record(job, options, none, seconds=time.process_time() - began, trained=failed)
    seconds = time.process_time() - began
    returns = benchmark.run(trained.policy, job.seed)
    return _record(job, options, returns, seconds=seconds, trained=trained)


def _train(job: Job, data: Transitions, discount: float, options: Mapping[str, Any] | None) -> Outcome:
    if job.method == "nopg":
        return train_nopg(data, discount, job.seed, options)
    return Outcome(RIVALS[job.method](data, discount, job.seed), {}, ())


def _record(
    job: Job,
    options: Mapping[str, Any] | None,
    returns: Returns,
    *,
    seconds: float,
    trained: Outcome | None = None,
) -> Record:
    ours = job.method == "nopg"
    return Record(
        **asdict(job),
        **asdict(returns),
        role=BENCHMARKS[job.benchmark].role,
        commit=code_version(*_CODE.get(job.method, _RIVAL_CODE)),
        options=dict(options or {}) if ours else {},
        cpu_seconds=round(seconds, 3),
        warnings=() if trained is None else trained.warnings,
        summary={} if trained is None else trained.summary,
    )
