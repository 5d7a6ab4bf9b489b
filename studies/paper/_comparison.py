"""One entry of the comparison: train, judge, run, and write down all of it."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

from nopg._json import write_json
from nopg._provenance import provenance
from nopg.errors import SupportWarning
from nopg.evaluation import OfflineEvaluator
from studies.baselines import fitted_q_evaluation
from studies.paper._methods import METHODS
from studies.paper._scores import Scores
from studies.paper._tasks import TASKS
from studies.paper.records import Record

__all__ = ["LIBRARIES", "Entry", "read_entries", "run_entry", "scores"]

LIBRARIES = ("d3rlpy", "stable-baselines3", "gymnasium")
"""Whose versions matter to a record besides ours."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one record of the comparison is about.

    Attributes:
        task: Its name.
        samples: How many transitions are logged.
        method: Its name.
        seed: Of the data and of the training.
        updates: Of the training; the method's own number if absent.
        fitted_q: Whether FQE judges the last controller too; it is a training by itself.
        fitted_q_updates: Of that; as many as the discount asks for if absent.
    """

    task: str
    samples: int
    method: str
    seed: int
    updates: int | None = None
    fitted_q: bool = True
    fitted_q_updates: int | None = None

    def path(self, folder: Path) -> Path:
        """Return where its record is kept."""
        return folder / f"{self.task}-{self.samples}" / f"{self.method}-{self.seed}.json"


def run_entry(entry: Entry, folder: Path) -> Record:
    """Run one entry and keep its record; a name in the folder is a complete record."""
    torch.set_num_threads(1)  # entries run side by side
    task, method = TASKS[entry.task], METHODS[entry.method]
    data = task.data(entry.samples, entry.seed)
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # starts outside the data are part of the comparison
        evaluator = OfflineEvaluator(data, task.discount)
        snapshots = method.train(task, data, entry.seed, entry.updates or method.updates)
    runs = [task.evaluate(snapshot.controller, entry.seed) for snapshot in snapshots]
    evaluated = [
        {
            "updates": snapshot.updates,
            "transitions": snapshot.transitions,
            "seconds": snapshot.seconds,
            "return": run.mean,
            "judged": evaluator.evaluate(snapshot.controller).expected_return,
        }
        for snapshot, run in zip(snapshots, runs, strict=True)
    ]
    fitted = None
    if entry.fitted_q:
        count = entry.fitted_q_updates
        fitted = fitted_q_evaluation(
            snapshots[-1].controller, data, discount=task.discount, updates=count, seed=entry.seed
        ).expected_return
    record: Record = {
        "task": entry.task,
        "samples": entry.samples,
        "method": entry.method,
        "seed": entry.seed,
        "snapshots": evaluated,
        "discounted": runs[-1].discounted(task.discount),
        "fitted_q": fitted,
        "wall_seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        **provenance(LIBRARIES),
    }
    write_json(entry.path(folder), record)
    return record


def read_entries(folder: Path, task: str, samples: int) -> list[Record]:
    """Return all records of a task at a size, in order of their names."""
    paths = sorted((folder / f"{task}-{samples}").glob("*.json"))
    return [json.loads(path.read_text()) for path in paths]


def scores(record: Record) -> Scores:
    """Return last, best and offline-selected of a record."""
    snapshots = record["snapshots"]
    return Scores(
        tuple(snapshot["return"] for snapshot in snapshots),
        tuple(snapshot["judged"] for snapshot in snapshots),
    )
