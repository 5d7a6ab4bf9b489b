"""Run the trials of experiments; every trial appends its record."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from nopg._provenance import fingerprint, provenance
from nopg.data import Transitions
from nopg.errors import ArgumentError, MissingExtraError, SupportWarning
from studies.paper._catalogue import EXPERIMENTS
from studies.paper._experiment import Trial
from studies.records import Record, append, code_version, last_of_each, read

__all__ = ["missing_trials", "records_of", "run_trial", "run_trials"]

_LIBRARIES = ("d3rlpy", "stable-baselines3", "gymnasium")
_NEEDED_BY = {
    "d3rlpy": {"ddpg-offline", "bc", "td3+bc", "iql", "cql"},
    "stable_baselines3": {"ddpg-online"},
}


def records_of(experiment: str, folder: Path, *, quick: bool = False) -> list[Record]:
    """Return the last record of every trial of an experiment, by options, method, size and seed."""
    found = last_of_each(read(folder, "paper-quick" if quick else "paper"))
    mine = [record for record in found if record.benchmark == experiment]
    return sorted(mine, key=lambda record: (record.run[-1], *record.run[:-1]))


def missing_trials(trials: Sequence[Trial], folder: Path) -> list[Trial]:
    """Return the trials that have no record yet."""
    done = {record.run for study in {trial.study for trial in trials} for record in read(folder, study)}
    return [trial for trial in trials if trial.record().run not in done]


def run_trials(
    trials: Sequence[Trial], folder: Path, *, workers: int, backend: str | None = None
) -> Iterator[Record]:
    """Run trials in parallel and yield their records as they come; with Ray's backend, all at the end.

    Args:
        trials: What to run.
        folder: Folder of the records; on a cluster one that all machines share.
        workers: Number of trials at a time.
        backend: One of joblib's, such as 'ray' or 'dask'; processes on this machine if None.
    """
    methods = {trial.method for trial in trials}
    for package, users in _NEEDED_BY.items():
        if methods & users and not _installed(package):
            raise MissingExtraError(package, "benchmark")
    if not trials:
        return
    joblib = _joblib(backend)
    with joblib.parallel_config(backend=backend or "loky"):
        streams = getattr(joblib.parallel.get_active_backend()[0], "supports_return_generator", False)
    order = "generator_unordered" if streams else "list"
    parallel = joblib.Parallel(n_jobs=workers, backend=backend, batch_size=1, return_as=order)
    yield from parallel(joblib.delayed(partial(run_trial, folder=folder))(trial) for trial in trials)


def run_trial(trial: Trial, folder: Path) -> Record:
    """Run one trial, append its record and return it."""
    torch.set_num_threads(1)  # trials run in parallel
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # starts outside the data are part of the studies
        measured = EXPERIMENTS[trial.experiment].measure(trial)
    record = trial.record(
        commit=code_version("src/nopg"),
        cpu_seconds=time.process_time() - cpu,
        wall_seconds=time.perf_counter() - began,
        results=measured.results,
        setup={
            "config": measured.config,
            "data": None if measured.data is None else _identity(measured.data),
            "versions": provenance(_LIBRARIES)["versions"],
        },
    )
    append(record, folder)
    return record


def _identity(data: Transitions) -> dict[str, object]:
    """Return the number of rows, and a hash of everything that a method may read."""
    names = ("states", "actions", "rewards", "next_states", "terminated", "truncated", "episodes", "starts")
    return {"rows": len(data), "sha256": fingerprint([getattr(data, name) for name in names])}


def _joblib(backend: str | None) -> Any:
    if not _installed("joblib"):
        raise MissingExtraError("joblib", "benchmark")
    import joblib

    if backend == "ray":
        if not _installed("ray"):
            raise ArgumentError("the backend 'ray' needs Ray: pip install ray")
        from ray.util.joblib import register_ray

        register_ray()
    return joblib


def _installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it: some take seconds, and one prints."""
    try:
        return find_spec(package) is not None
    except ValueError:  # set to None in sys.modules
        return False
