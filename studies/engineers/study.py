"""The runs of the benchmark: one record per plant, size, log and method."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nopg.errors import NopgError
from studies.engineers.best import QuadraticLaw, search
from studies.engineers.methods import CHEAP, METHODS, applies, judge
from studies.engineers.page import figure, page
from studies.engineers.scores import REFERENCES, SEARCH
from studies.engineers.task import DEVELOPMENT, TASKS, Task
from studies.records import Record, code_version, read
from studies.study import Study, seeds_of

_SIZES = (500, 2_000)


@dataclass(frozen=True, slots=True)
class Job:
    """One run."""

    task: str  # Name of the plant.
    method: str  # One of `METHODS`, of `REFERENCES`, or `search`, which is what `best` needs.
    rows: int = 0  # Size of the log; 0 for references and the search.
    log: int = 0  # Seed of the log and of the evaluation; 0 for the search.


def jobs(
    logs: Sequence[int],
    *,
    plants: Sequence[str] = (),
    methods: Sequence[str] = (),
    rows: Sequence[int] = _SIZES,
) -> list[Job]:
    """Return the jobs, references and cheap methods first, then log after log; all of what is empty."""
    chosen = [name for name in METHODS if not methods or name in methods]
    groups = [[name for name in chosen if (name in CHEAP) == cheap] for cheap in (True, False)]
    names = [name for name in TASKS if not plants or name in plants]
    found = []
    for group in groups:
        for log in logs:
            for name in names:
                if not methods:
                    found += [Job(name, SEARCH), *(Job(name, method, 0, log) for method in REFERENCES)]
                found += [
                    Job(name, method, size, log)
                    for size in rows
                    for method in group
                    if applies(method, TASKS[name])
                ]
    return list(dict.fromkeys(found))


def _run(job: Job) -> list[Record]:
    task = TASKS[job.task]
    if job.method == SEARCH:
        return [_searched(job, task)]
    if job.method == "behaviour":
        return [_record(job, **_truth(task.returns(task.controller(), job.log)))]
    if job.method == "best":
        law = QuadraticLaw(task, np.array(_search_of(job.task).results["weights"]))
        return [_record(job, **_truth(task.returns(law.behaviour(), job.log)))]
    return [_trained(job, task)]


def _search_of(name: str) -> Record:
    """Return the record of the search of a plant, or search."""
    known = (one for one in read(study="engineers") if (one.benchmark, one.method) == (name, SEARCH))
    return next(known, None) or _searched(Job(name, SEARCH), TASKS[name])


def _searched(job: Job, task: Task) -> Record:
    began, wall = time.process_time(), time.perf_counter()
    found = search(task)
    results = {
        "weights": found.law.weights,
        "return": found.value,
        "regulator": found.regulator,
        "evaluations": found.evaluations,
    }
    return _record(job, results=results, **_seconds(began, wall))


def _trained(job: Job, task: Task) -> Record:
    data = task.log(job.rows, job.log)
    began, wall = time.process_time(), time.perf_counter()
    try:
        found = METHODS[job.method](task, data, job.log)
    except NopgError as error:  # refusing the log is an answer
        refused = {"refused": f"{type(error).__name__}: {error}"}
        return _record(job, summary=refused, **_seconds(began, wall))
    seconds, results = _seconds(began, wall), dict(found.results)
    if found.policy is not None:
        results["judge"] = judge(found.policy, task, data)
    truth = _truth(task.returns(found.controller, job.log, found.episodes))
    results |= truth.pop("results")
    facts = {"summary": found.summary, "warnings": found.warnings, "results": results}
    return _record(job, **facts, **seconds, **truth)


def _truth(returns: Any) -> dict[str, Any]:
    """Return the fields of a record that say what a controller returned."""
    mean, error = float(returns.mean()), float(returns.std(ddof=1)) / math.sqrt(len(returns))
    known = {"discounted": mean, "standard_error": error} if math.isfinite(mean) else {}
    listed = [float(f"{one:.6g}") for one in returns]
    return {**known, "episodes": len(returns), "results": {"returns": listed}}


def _seconds(began: float, wall: float) -> dict[str, float]:
    cpu, passed = time.process_time() - began, time.perf_counter() - wall
    return {"cpu_seconds": round(cpu, 2), "wall_seconds": round(passed, 2)}


def _record(job: Job, **values: Any) -> Record:
    task = TASKS[job.task]
    return Record(
        study="engineers",
        benchmark=job.task,
        method=job.method,
        rows=job.rows,
        seed=job.log,
        role="development" if task in DEVELOPMENT else "report",
        commit=code_version("src/nopg"),
        options={"behaviour": task.behaviour, "discount": task.discount},
        **values,
    )


def _key(record: Record) -> Hashable:
    return record.run[1:5]


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plants", nargs="+", default=(), choices=TASKS, help="all by default")
    parser.add_argument("--methods", nargs="+", default=(), choices=METHODS, help="all by default")
    parser.add_argument("--rows", nargs="+", default=_SIZES, type=int, help="sizes of the logs")
    parser.add_argument("--logs", default=tuple(range(10)), type=seeds_of, help="such as 0-2")


ENGINEERS = Study(
    name="engineers",
    about="baselines, rivals and nopg on the same logs of many plants",
    arguments=_arguments,
    jobs=lambda given: jobs(given.logs, plants=given.plants, methods=given.methods, rows=given.rows),
    run=_run,
    blank=_record,
    key=_key,
    page=page,
    figures=lambda records: {"engineers": figure(records)},
    file="docs/benchmark.md",
)
