"""The paper's experiments: `python -m studies.paper NAME` makes the runs that have no record yet."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nopg.errors import ArgumentError
from studies.demonstrations import DEMONSTRATIONS, recorded_demonstrations
from studies.job_runner import recorded
from studies.paper import EXPERIMENTS
from studies.paper._experiment import MODES, mode_of
from studies.paper._run import made, missing, records_of
from studies.printing import exit_code, note, say
from studies.records import FOLDER, Record
from studies.seeds import seeds_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = _parser().parse_args(arguments)
    return exit_code(lambda: _reproduce(given))


def _reproduce(given: argparse.Namespace) -> None:
    names = list(EXPERIMENTS) if given.name == "all" else [given.name]
    todo = missing([run for name in names for run in _chosen(name, given)], given.results)
    say(f"{len(todo)} runs to make")
    for number, record in enumerate(recorded(todo, made, given.workers, given.results), start=1):
        options = "".join(f", {value}" for value in record.options.values())
        words = f"{record.benchmark}{options}: {record.method}, {record.rows}, seed {record.seed}"
        if evaluations := record.results.get("evaluations"):
            words += f": returned {evaluations[-1]['return']:.1f}"
        note(f"{number} of {len(todo)}: {words} ({record.cpu_seconds:.0f} CPU s)")
    for name in names:
        say(f"{EXPERIMENTS[name].title} ({EXPERIMENTS[name].place})")
        for finding in EXPERIMENTS[name].findings(records_of(name, given.results)):
            say(f"  {finding.verdict}: {finding.claim}; found {finding.found}")


def _chosen(name: str, given: argparse.Namespace) -> list[Record]:
    """Return the planned runs of an experiment that are asked for."""
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m studies.paper",
        description="Make the runs of an experiment of the paper that have no record yet, and print what all "
        "records say. Stop the command at any moment: the same command goes on from there. "
        "`python -m studies page reproduction` writes the page and draws the figures.",
    )
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
    parser.add_argument("--workers", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--demonstrations", type=Path, help="recorded drives of the mountain car (CSV)")
    parser.add_argument("--results", type=Path, default=FOLDER, help="folder of the records")
    return parser


if __name__ == "__main__":
    sys.exit(main())
