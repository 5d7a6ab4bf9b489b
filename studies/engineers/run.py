"""Making the runs of the benchmark: one record per plant, size, log and method."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nopg.errors import NopgError
from studies.engineers import DEVELOPMENT, TASKS, Task
from studies.engineers.best import QuadraticLaw, search
from studies.engineers.methods import CHEAP, METHODS, applies, judge, train
from studies.job_runner import in_processes
from studies.records import FOLDER, Record, append, code_version, read

__all__ = ["REFERENCES", "SEARCH", "SIZES", "STUDY", "Job", "jobs", "missing", "run_all", "run_one"]

STUDY, SEARCH = "engineers", "search"
REFERENCES = ("behaviour", "best")
"""What scores 0 and what scores 100; they do not depend on the size of a log."""
SIZES = (500, 2_000)


@dataclass(frozen=True, slots=True)
class Job:
    """One run.

    Attributes:
        task: Name of the plant.
        method: One of `METHODS`, of `REFERENCES`, or `search`, which is what `best` needs.
        rows: Size of the log; 0 for references and the search.
        log: Seed of the log and of the evaluation; 0 for the search.
    """

    task: str
    method: str
    rows: int = 0
    log: int = 0

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What distinguishes this job from others."""
        return (self.task, self.method, self.rows, self.log)


def jobs(
    logs: Sequence[int],
    *,
    plants: Sequence[str] = (),
    methods: Sequence[str] = (),
    rows: Sequence[int] = SIZES,
) -> list[Job]:
    """Return the jobs, references and cheap methods first, then log after log.

    Args:
        logs: Seeds of the logs.
        plants: Names of the plants; all if empty.
        methods: Methods; all if empty. References are always run.
        rows: Sizes of the logs.
    """
    chosen = [name for name in METHODS if not methods or name in methods]
    groups = [[name for name in chosen if (name in CHEAP) == cheap] for cheap in (True, False)]
    names = [name for name in TASKS if not plants or name in plants]
    found = []
    for group in groups:
        for log in logs:
            for name in names:
                found += [Job(name, SEARCH), *(Job(name, method, 0, log) for method in REFERENCES)]
                found += [
                    Job(name, method, size, log)
                    for size in rows
                    for method in group
                    if applies(method, TASKS[name])
                ]
    return list(dict.fromkeys(found))


def missing(wanted: Sequence[Job], folder: Path = FOLDER) -> list[Job]:
    """Return the jobs without a record, whatever version of the code made it."""
    done = {(one.benchmark, one.method, one.rows, one.seed) for one in read(folder, STUDY)}
    return [job for job in wanted if job.key not in done]


def run_all(todo: Sequence[Job], *, workers: int = 1, folder: Path = FOLDER) -> Iterator[Record]:
    """Make runs and yield their records, each already written to the file of the study."""
    searches = [job for job in todo if job.method == SEARCH]
    others = [job for job in todo if job.method != SEARCH]
    for batch in [todo] if workers == 1 else [searches, others]:
        for record in in_processes(batch, partial(run_one, folder=folder), workers):
            yield _written(record, folder)


def run_one(job: Job, folder: Path = FOLDER) -> Record:
    """Make one run; the search of a plant must have a record before its `best`."""
    torch.set_num_threads(1)
    task = TASKS[job.task]
    if job.method == SEARCH:
        return _searched(job, task)
    if job.method == "behaviour":
        return _record(job, task, **_truth(task.returns(task.controller(), job.log)))
    if job.method == "best":
        found = next(one for one in read(folder, STUDY) if (one.benchmark, one.method) == (job.task, SEARCH))
        law = QuadraticLaw(task, np.array(found.results["weights"]))
        return _record(job, task, **_truth(task.returns(law.behaviour(), job.log)))
    return _trained(job, task)


def _searched(job: Job, task: Task) -> Record:
    began, wall = time.process_time(), time.perf_counter()
    found = search(task)
    results = {
        "weights": found.law.weights,
        "return": found.value,
        "regulator": found.regulator,
        "evaluations": found.evaluations,
    }
    return _record(job, task, results=results, **_seconds(began, wall))


def _trained(job: Job, task: Task) -> Record:
    data = task.log(job.rows, job.log)
    began, wall = time.process_time(), time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = train(job.method, task, data, job.log)
    except NopgError as error:  # refusing the log is an answer
        refused = {"refused": f"{type(error).__name__}: {error}"}
        return _record(job, task, summary=refused, **_seconds(began, wall))
    seconds, results = _seconds(began, wall), dict(found.results)
    if found.policy is not None:
        results["judge"] = judge(found.policy, task, data)
    truth = _truth(task.returns(found.controller, job.log, found.episodes))
    results |= truth.pop("results")
    facts = {"summary": found.summary, "warnings": found.warnings, "results": results}
    return _record(job, task, **facts, **seconds, **truth)


def _truth(returns: Any) -> dict[str, Any]:
    """Return the fields of a record that say what a controller returned."""
    mean, error = float(returns.mean()), float(returns.std(ddof=1)) / math.sqrt(len(returns))
    known = {"discounted": mean, "standard_error": error} if math.isfinite(mean) else {}
    listed = [float(f"{one:.6g}") for one in returns]
    return {**known, "episodes": len(returns), "results": {"returns": listed}}


def _seconds(began: float, wall: float) -> dict[str, float]:
    cpu, passed = time.process_time() - began, time.perf_counter() - wall
    return {"cpu_seconds": round(cpu, 2), "wall_seconds": round(passed, 2)}


def _record(job: Job, task: Task, **values: Any) -> Record:
    return Record(
        study=STUDY,
        benchmark=job.task,
        method=job.method,
        rows=job.rows,
        seed=job.log,
        role="development" if task in DEVELOPMENT else "report",
        commit=code_version("src/nopg"),
        options={"behaviour": task.behaviour, "discount": task.discount},
        **values,
    )


def _written(record: Record, folder: Path) -> Record:
    append(record, folder)
    return record
