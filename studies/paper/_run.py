"""Runs of the experiments, and their records."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from nopg._files import fingerprint, provenance
from nopg.data import Transitions
from nopg.errors import SupportWarning
from studies.paper._catalogue import EXPERIMENTS
from studies.records import FOLDER, Record, code_version, last_of_each, read

_LIBRARIES = ("d3rlpy", "stable-baselines3", "gymnasium")


def records_of(experiment: str, folder: Path = FOLDER) -> list[Record]:
    """Return the last record of every run of an experiment, by options, method, size and seed."""
    found = [record for record in last_of_each(read(folder, "paper")) if record.benchmark == experiment]
    return sorted(found, key=lambda record: (record.run[-1], *record.run[:-1]))


def missing(runs: Sequence[Record], folder: Path) -> list[Record]:
    """Return the runs that have no record yet, whatever version of the code made it."""
    done = {record.run for record in read(folder, "paper")}
    return [run for run in runs if run.run not in done]


def made(run: Record) -> list[Record]:
    """Make a run and return its record."""
    torch.set_num_threads(1)  # runs are made in parallel
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # starts outside the data are part of the studies
        results, data = EXPERIMENTS[run.benchmark].measure(run)
    record = replace(
        run,
        commit=code_version("src/nopg"),
        cpu_seconds=time.process_time() - cpu,
        wall_seconds=time.perf_counter() - began,
        results=results,
        setup={
            "data": None if data is None else _identity(data),
            "versions": provenance(_LIBRARIES)["versions"],
        },
    )
    return [record]


def _identity(data: Transitions) -> dict[str, object]:
    """Return the number of rows, and a hash of everything that a method may read."""
    names = ("states", "actions", "rewards", "next_states", "terminated", "truncated", "episodes", "starts")
    return {"rows": len(data), "sha256": fingerprint([getattr(data, name) for name in names])}
