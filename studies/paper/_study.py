"""The experiments as one study: their runs, records, page and figures."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nopg._files import fingerprint, versions_of
from nopg.data import Transitions
from nopg.errors import ArgumentError
from studies.demonstrations import DEMONSTRATIONS, recorded_demonstrations
from studies.paper._catalogue import EXPERIMENTS
from studies.paper._experiment import MODES, Experiment, mode_of
from studies.records import Record, code_version, last_of_each
from studies.study import Study, seeds_of, table

_HEAD = """\
# The paper's experiments

Made by `python -m studies page paper` from `results/studies/paper.jsonl`; do not edit. Every
experiment is one command, which makes the runs that have no record yet.
NOPG-D trains a deterministic, NOPG-S a Gaussian policy, in three ways:

- **default model** (`--mode ours`): `optimize(data, discount)`, local polynomials and a multi-step equation;
- **paper's model** (`--mode paper`): `optimize(data, discount, model="paper")`, nothing else set; records at
  155a069 and e0a0952 have the present prior mass and bandwidths, at 4b9ba1b β = 10⁻⁶ and narrower actions;
- **supplement's settings** (`--mode faithful`): the paper's model, bandwidths of single columns by the
  cross-validation of the authors' released code times the supplement's factors, raw inputs, all its updates,
  β = 0. The supplement does not say to what the variance of NOPG-S is decayed, nor how many entries per row
  are kept; we keep the variance, and all entries but 10⁻³ of their weights.

A cell is the mean return over the trials ± half of its 95 % bootstrap interval, and how many trials solved
the task. Returns are of the last controller of a training; of DDPG and PWIS, as in the paper, of the best one
on the way, which nobody can know without running them all. CPU seconds are those of one trial at the smallest
and the largest size, on one thread. A section lists the commits that made its records; where there are
several, the older records have not been made again yet. The paper's plants are development plants.
"""


def records_of(experiment: str, records: Sequence[Record]) -> list[Record]:
    """Return the last record of every run of an experiment, by options, method, size and seed."""
    found = [record for record in last_of_each(records) if record.benchmark == experiment]
    return sorted(found, key=lambda record: (record.run[-1], *record.run[:-1]))


def page(every: Sequence[Record]) -> str:
    """Return the page of the paper's experiments from all records."""
    records = {name: records_of(name, every) for name in EXPERIMENTS}
    overview = [
        (f"[{name}](#{_anchor(experiment)})", finding.claim, finding.found, _emphasised(finding.verdict))
        for name, experiment in EXPERIMENTS.items()
        for finding in experiment.findings(records[name])
    ]
    lines = [_HEAD, "## In short", "", *table(("experiment", "must be", "found", "verdict"), overview)]
    for name, experiment in EXPERIMENTS.items():
        lines += ["", *_section(experiment, records[name])]
    return "\n".join(lines) + "\n"


def _section(experiment: Experiment, records: list[Record]) -> list[str]:
    lines = [f"## {experiment.title}", "", f"{experiment.place} of the paper. *{experiment.claim}*", ""]
    lines += [f"`python -m studies paper {experiment.name}`{_cost(records)}", ""]
    if records:
        lines += [f"![{experiment.title}](../../docs/figures/{experiment.name}.png)", ""]
    lines += experiment.tables(records)
    if experiment.deviations:
        lines += ["", "Differences from the paper's set-up:", ""]
        lines += [f"{number}. {text}" for number, text in enumerate(experiment.deviations, start=1)]
    return lines


def _cost(records: list[Record]) -> str:
    if not records:
        return ", not run yet"
    hours = sum(record.cpu_seconds for record in records) / 3600
    commits = Counter(record.commit.split(",")[0][:7] for record in records)
    made = ", ".join(f"{count} at {commit}" for commit, count in commits.most_common())
    return f": {len(records)} trials, {hours:.1f} CPU hours; commit: {made}"


def _anchor(experiment: Experiment) -> str:
    kept = "".join(letter for letter in experiment.title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def _emphasised(verdict: str) -> str:
    return f"**{verdict}**" if verdict.startswith(("missed", "not")) else verdict


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
