"""`python -m studies.paper`: the paper's experiments, from data to figure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from nopg.cli._screen import ERR, OUT, guarded, print_json
from nopg.errors import MissingExtraError
from nopg.report._style import save
from studies.paper import EXPERIMENTS, Choice, Experiment, Finding, Trial, missing_trials, page, run_trials
from studies.paper.figures import draw
from studies.paper.records import Record, read_records

__all__ = ["app", "reproduce"]


@guarded
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="An experiment, or `all`; `--list` shows them.", show_default=False)
    ] = None,
    *,
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments, and end.")] = False,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Seeds per method and size.", show_default="the experiment's")
    ] = None,
    samples: Annotated[
        list[int] | None,
        typer.Option(min=1, help="A size of the data; may be repeated.", show_default="the experiment's"),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="A method; may be repeated.", show_default="all")
    ] = None,
    faithful: Annotated[
        bool, typer.Option("--faithful", help="The supplement's settings instead of ours.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Cut everything short, to see that it runs; kept apart.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Trials at a time, one thread each.")] = 2,
    backend: Annotated[
        str | None,
        typer.Option(
            help="Where joblib runs the trials: `ray` or `dask` for a cluster.", show_default="here"
        ),
    ] = None,
    demonstrations: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Drives of the mountain car (CSV) instead of the package's."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("results/reproduction"),
    figures: Annotated[
        Path | None, typer.Option(help="Folder of the figures.", show_default="OUT/figures")
    ] = None,
    draw_only: Annotated[
        bool, typer.Option("--draw-only", help="Run nothing; draw and tell what is recorded.")
    ] = False,
    write_page: Annotated[
        Path | None, typer.Option("--page", help="Write the page of all experiments here (Markdown).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Run an experiment of the paper, and draw its figure.

    Every trial is one file below OUT, written when it is done: stop the command at any moment, and the same
    command goes on where it was.
    """
    if list_all:
        _list(as_json)
        return
    chosen = _chosen(name)
    if quick and figures is None:
        figures = out / "quick" / "figures"
    choice = Choice(
        modes=("ours", "faithful") if quick else ("faithful",) if faithful else ("ours",),
        trials=trials,
        sizes=None if not samples else tuple(samples),
        methods=None if not method else tuple(method),
        quick=quick,
        demonstrations=None if demonstrations is None else str(demonstrations),
    )
    if not draw_only:
        trials_of_all = [trial for experiment in chosen for trial in experiment.plan(choice)]
        try:
            _run(trials_of_all, out, workers, backend)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what is done is kept; the same command goes on from there") from None
    told = []
    for experiment in chosen:
        place = (out / "quick" if quick else out) / experiment.name
        records = read_records(place)
        findings = experiment.findings(records)
        if not as_json:
            _show(experiment, findings)
        drawn = _draw(experiment, records, figures or out / "figures")
        told.append(
            {
                "experiment": experiment.name,
                "records": len(records),
                "findings": [asdict(finding) for finding in findings],
                "figures": [str(path) for path in drawn],
            }
        )
    if as_json:
        print_json({"experiments": told})
    if write_page is not None:
        pictures = os.path.relpath(figures or out / "figures", write_page.parent)
        write_page.write_text(page(out, pictures), encoding="utf-8")
        ERR.print(f"page: {write_page}")


def _chosen(name: str | None) -> list[Experiment]:
    if name is None:
        raise typer.BadParameter(f"say which: {', '.join(EXPERIMENTS)}, or all", param_hint="NAME")
    if name == "all":
        return list(EXPERIMENTS.values())
    if name not in EXPERIMENTS:
        raise typer.BadParameter(
            f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}, and all", param_hint="NAME"
        )
    return [EXPERIMENTS[name]]


def _run(trials: Sequence[Trial], out: Path, workers: int, backend: str | None) -> None:
    todo = missing_trials(trials, out)
    if len(todo) < len(trials):
        ERR.print(f"{len(trials) - len(todo)} of {len(trials)} trials are recorded already")
    if not todo:
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]} of {task.fields[of]} trials"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=ERR,
        speed_estimate_period=3600,
    )
    with bar:
        total = sum(trial.cost for trial in todo)
        line = bar.add_task(todo[0].experiment, total=total, done=0, of=len(todo))
        running = run_trials(todo, out, workers=workers, backend=backend)
        for number, (trial, record) in enumerate(running, start=1):
            bar.console.print(f"  {_told(trial, record)}")
            bar.update(line, advance=trial.cost, description=trial.experiment, done=number)


def _told(trial: Trial, record: Record) -> str:
    words = f"{trial.experiment}, {trial.mode}: {trial.method}, {trial.size}, seed {trial.seed}"
    evaluations = record["results"].get("evaluations")
    if evaluations:
        words += f": returned {evaluations[-1]['return']:.1f}"
    return f"{words} ({record['wall_seconds']:.0f} s)"


def _show(experiment: Experiment, findings: Sequence[Finding]) -> None:
    """Print what the records say."""
    table = Table(title=f"{experiment.title} ({experiment.place})", title_justify="left")
    for heading in ("must be", "found", "verdict"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(finding.claim, finding.found, finding.verdict)
    OUT.print(table)


def _draw(experiment: Experiment, records: Sequence[Record], figures: Path) -> list[Path]:
    """Draw the records, if there is something to draw with; return what was written."""
    try:
        figure = draw(records, experiment)
    except MissingExtraError as error:
        ERR.print(f"no figure: {error}")
        return []
    if figure is None:
        return []
    written = save(figure, figures / experiment.name)
    for path in written:
        ERR.print(f"figure: {path}")
    return written


def _list(as_json: bool) -> None:
    if as_json:
        print_json({one.name: {"place": one.place, "claim": one.claim} for one in EXPERIMENTS.values()})
        return
    table = Table()
    for heading in ("name", "in the paper", "what it claims"):
        table.add_column(heading, overflow="fold")
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.place, experiment.claim)
    OUT.print(table)


app = typer.Typer(pretty_exceptions_show_locals=False)
app.command()(reproduce)

if __name__ == "__main__":
    app()
