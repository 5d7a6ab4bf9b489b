"""The paper's experiments, from data to figure: `python -m studies.paper NAME`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nopg.errors import MissingExtraError, NopgError
from nopg.report._style import save
from studies.paper import EXPERIMENTS, Choice, Experiment, Trial, missing_trials, page, records_of, run_trials
from studies.paper._experiment import MODES
from studies.paper.figures import draw
from studies.printing import note, say
from studies.records import FOLDER, Record

__all__ = ["main"]

_STOPPED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.list:
        for experiment in EXPERIMENTS.values():
            say(f"{experiment.name} ({experiment.place or 'not in the paper'}): {experiment.claim}")
        return 0
    if given.name is None:
        parser.error(f"name an experiment: {', '.join(EXPERIMENTS)}, or all")
    try:
        _reproduce(given)
    except KeyboardInterrupt:
        note("stopped; the records are kept, and the same command goes on from there")
        return _STOPPED
    except (NopgError, OSError) as error:
        note(f"error: {error}")
        return 1
    return 0


def _reproduce(given: argparse.Namespace) -> None:
    chosen = list(EXPERIMENTS.values()) if given.name == "all" else [EXPERIMENTS[given.name]]
    figures = given.figures or (given.out / "quick" if given.quick else given.out) / "figures"
    if not given.draw_only:
        choice = Choice(
            modes=tuple(given.mode) or (MODES if given.quick else ("ours",)),
            trials=given.trials,
            sizes=tuple(given.samples) or None,
            methods=tuple(given.method) or None,
            quick=given.quick,
            demonstrations=given.demonstrations and str(given.demonstrations),
        )
        trials = [trial for experiment in chosen for trial in experiment.plan(choice)]
        _run(trials, given.out, given.workers, given.backend)
    for experiment in chosen:
        records = records_of(experiment.name, given.out, quick=given.quick)
        say(f"{experiment.title}{experiment.place and f' ({experiment.place})'}")
        for finding in experiment.findings(records):
            say(f"  {finding.verdict}: {finding.claim}; found {finding.found}")
        _draw(experiment, records, figures)
    if given.page is not None:
        pictures = os.path.relpath(figures, given.page.parent)
        given.page.write_text(page(given.out, pictures), encoding="utf-8")
        note(f"page: {given.page}")


def _run(trials: Sequence[Trial], out: Path, workers: int, backend: str | None) -> None:
    todo = missing_trials(trials, out)
    if len(todo) < len(trials):
        note(f"{len(trials) - len(todo)} of {len(trials)} trials are recorded already")
    began, done, total = time.monotonic(), 0, sum(trial.size for trial in todo)
    for number, record in enumerate(run_trials(todo, out, workers=workers, backend=backend), start=1):
        done += record.rows
        left = (time.monotonic() - began) * (total / done - 1) / 60
        note(f"{number} of {len(todo)}, about {left:.0f} min left: {_line(record)}")


def _line(record: Record) -> str:
    options = "".join(f", {value}" for value in record.options.values())
    words = f"{record.benchmark}{options}: {record.method}, {record.rows}, seed {record.seed}"
    if evaluations := record.results.get("evaluations"):
        words += f": returned {evaluations[-1]['return']:.1f}"
    return f"{words} ({record.wall_seconds:.0f} s)"


def _draw(experiment: Experiment, records: Sequence[Record], figures: Path) -> None:
    """Draw the records, if matplotlib is installed."""
    try:
        figure = draw(records, experiment)
    except MissingExtraError as error:
        note(f"no figure: {error}")
        return
    for path in [] if figure is None else save(figure, figures / experiment.name):
        note(f"figure: {path}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m studies.paper",
        description="Run an experiment of the paper and draw its figure. Every trial appends a record when "
        "it is done: stop the command at any moment, and the same command goes on from there.",
    )
    parser.add_argument("name", choices=[*EXPERIMENTS, "all"], nargs="?")
    parser.add_argument("--list", action="store_true", help="list the experiments and end")
    parser.add_argument("--trials", type=int, help="number of seeds per method and size")
    parser.add_argument("--samples", type=int, action="append", default=[], help="dataset size; repeatable")
    parser.add_argument("--method", action="append", default=[], help="method; repeatable")
    parser.add_argument(
        "--mode",
        action="append",
        default=[],
        choices=MODES,
        help="ours (default model, nothing set), paper (its model, nothing set), or faithful (its model with "
        "the supplement's settings); repeatable",
    )
    parser.add_argument("--quick", action="store_true", help="short trials, to see that all runs; kept apart")
    parser.add_argument("--workers", type=int, default=2, help="trials at a time, one thread each")
    parser.add_argument("--backend", help="joblib backend: ray or dask for a cluster; default: this machine")
    parser.add_argument("--demonstrations", type=Path, help="recorded drives of the mountain car (CSV)")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the records")
    parser.add_argument("--figures", type=Path, help="folder of the figures; default: OUT/figures")
    parser.add_argument("--draw-only", action="store_true", help="run nothing; draw the stored records")
    parser.add_argument("--page", type=Path, help="write the page of all experiments here (Markdown)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
