"""Run the trials of experiments, each into its own file."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch

from nopg._json import write_json
from nopg._provenance import fingerprint, provenance
from nopg.data import Transitions
from nopg.errors import MissingExtraError, NopgError, SupportWarning
from studies.paper._catalogue import EXPERIMENTS
from studies.paper._comparison import LIBRARIES
from studies.paper._experiment import Trial
from studies.paper._parallel import installed, run_side_by_side, streams
from studies.paper.records import FORMAT, Record

__all__ = ["missing_trials", "run_trial", "run_trials"]

_LOOK_EVERY = 0.5  # seconds
_NEEDED_BY = {"d3rlpy": "ddpg-offline", "stable_baselines3": "ddpg-online"}


def missing_trials(trials: Sequence[Trial], folder: Path) -> list[Trial]:
    """Return those that have no record yet: what a run that was stopped has still to do."""
    return [trial for trial in trials if not trial.path(folder).exists()]


def run_trials(
    trials: Sequence[Trial], folder: Path, *, workers: int, backend: str | None = None
) -> Iterator[tuple[Trial, Record]]:
    """Run trials side by side and yield them with their records as they come.

    Args:
        trials: What to run.
        folder: Of the records; on a cluster one that all machines share.
        workers: How many at a time.
        backend: One of joblib's, such as 'ray'; processes on this machine if None.
    """
    methods = {trial.method for trial in trials}
    for package, method in _NEEDED_BY.items():
        if method in methods and not installed(package):
            raise MissingExtraError(package, "benchmark")
    run = partial(run_trial, folder=folder)
    if streams(backend):
        yield from run_side_by_side(run, trials, workers=workers, backend=backend)
        return
    # This backend answers at the end; the records tell earlier.
    waiting = list(trials)
    with ThreadPoolExecutor(1) as thread:
        all_done = thread.submit(
            lambda: list(run_side_by_side(run, trials, workers=workers, backend=backend))
        )
        while waiting:
            ended = all_done.done()
            if ended:
                all_done.result()  # what went wrong there is raised here
            for trial in [trial for trial in waiting if trial.path(folder).exists()]:
                waiting.remove(trial)
                yield trial, json.loads(trial.path(folder).read_text(encoding="utf-8"))
            if ended and waiting:
                raise NopgError(
                    f"{len(waiting)} trials left no record in {folder}; do all machines share it?"
                )
            time.sleep(_LOOK_EVERY)


def run_trial(trial: Trial, folder: Path) -> tuple[Trial, Record]:
    """Run one trial and keep its record."""
    torch.set_num_threads(1)  # trials run side by side
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # starts outside the data are part of the studies
        measured = EXPERIMENTS[trial.experiment].measure(trial)
    record: Record = {
        "format": FORMAT,
        "experiment": trial.experiment,
        "mode": trial.mode,
        "method": trial.method,
        "size": trial.size,
        "seed": trial.seed,
        "quick": trial.quick,
        "config": measured.config,
        "data": None if measured.data is None else _identity(measured.data),
        "results": measured.results,
        "wall_seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        **provenance(LIBRARIES),
    }
    write_json(trial.path(folder), record)
    return trial, record


def _identity(data: Transitions) -> dict[str, object]:
    """Return how many rows, and a hash of all that a method may read of them."""
    parts = (
        data.states,
        data.actions,
        data.rewards,
        data.next_states,
        data.terminated,
        data.truncated,
        data.episodes,
        data.starts,
    )
    return {"rows": len(data), "sha256": fingerprint(parts)}
