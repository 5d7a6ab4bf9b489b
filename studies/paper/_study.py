"""The command of the experiments: their runs, records, page and figures."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nopg._files import fingerprint, versions_of
from nopg.data import Transitions
from nopg.errors import ArgumentError
from studies.demonstrations import DEMONSTRATIONS, recorded_demonstrations
from studies.paper._catalogue import EXPERIMENTS
from studies.paper._experiment import MODES, mode_of
from studies.paper._page import page, records_of
from studies.records import Record, code_version
from studies.study import Study, seeds_of

_LIBRARIES = ("d3rlpy", "stable-baselines3", "gymnasium")


def _made(run: Record) -> list[Record]:
    """Make a run and return its record."""
    began, cpu = time.perf_counter(), time.process_time()
    results, data = EXPERIMENTS[run.benchmark].measure(run)
    record = replace(
        run,
        commit=code_version("src/nopg"),
        cpu_seconds=time.process_time() - cpu,
        wall_seconds=time.perf_counter() - began,
        results=results,
        setup={
            "data": None if data is None else _identity(data),
            "versions": versions_of(*_LIBRARIES),
        },
    )
    return [record]


def _identity(data: Transitions) -> dict[str, object]:
    """Return the number of rows, and a hash of everything that a method may read."""
    names = ("states", "actions", "rewards", "next_states", "terminated", "truncated", "episodes", "starts")
    return {"rows": len(data), "sha256": fingerprint([getattr(data, name) for name in names])}


def _jobs(given: argparse.Namespace) -> list[Record]:
    """Return the planned runs that are asked for."""
    names = list(EXPERIMENTS) if given.name == "all" else [given.name]
    return [run for name in names for run in _chosen(name, given)]


def _chosen(name: str, given: argparse.Namespace) -> list[Record]:
    runs = EXPERIMENTS[name].plan()
    if given.demonstrations is not None:
        if name != "mountain-car":
            raise ArgumentError(f"{name} does not learn from demonstrations; leave the file out")
        os.environ[DEMONSTRATIONS] = str(given.demonstrations)
        recorded_demonstrations()  # a file that cannot be read is better known now
        file = {"demonstrations": given.demonstrations.name}
        runs = [replace(run, options={**run.options, **file}) for run in runs]
    chosen = [
        run
        for run in runs
        if mode_of(run) in (given.mode or ["ours"])
        and (not given.method or run.method in given.method)
        and (not given.rows or run.rows in given.rows)
        and (not given.seeds or run.seed in given.seeds)
    ]
    if not chosen:
        methods = ", ".join(dict.fromkeys(run.method for run in runs))
        sizes = ", ".join(str(rows) for rows in sorted({run.rows for run in runs}))
        raise ArgumentError(f"{name} has no such run; its methods are {methods}, its sizes {sizes}")
    return chosen


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=[*EXPERIMENTS, "all"])
    parser.add_argument(
        "--mode",
        action="append",
        default=[],
        choices=MODES,
        help="ours (default model, nothing set; default), paper (its model, nothing set), or faithful (its "
        "model with the supplement's settings); repeatable",
    )
    parser.add_argument("--method", action="append", default=[], help="method; repeatable")
    parser.add_argument("--rows", type=int, action="append", default=[], help="dataset size; repeatable")
    parser.add_argument("--seeds", type=seeds_of, default=(), help="such as 0-4 or 0,2; all by default")
    parser.add_argument("--demonstrations", type=Path, help="recorded drives of the mountain car (CSV)")


def _figures(records: Sequence[Record]) -> dict[str, Any]:
    found = {name: records_of(name, records) for name in EXPERIMENTS}
    return {name: EXPERIMENTS[name].draw(own) for name, own in found.items() if own}


PAPER = Study(
    name="paper",
    about="the figures and tables of the paper",
    arguments=_arguments,
    jobs=_jobs,
    run=_made,
    blank=lambda run: run,
    page=page,
    figures=_figures,
    file="studies/pages/reproduction.md",
)
