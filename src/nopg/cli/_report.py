"""`nopg report`: what a saved controller will do, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nopg.cli._guard import GuardFile, read_guard
from nopg.cli._hazards import read_hazards
from nopg.cli._options import AsJson, Column, Hold, Overwrite, Run, beside, held_values, run_name
from nopg.cli._screen import ERR, print_json, show
from nopg.errors import ArgumentError

if TYPE_CHECKING:
    from nopg.report import AssuranceCase


def report(
    run: Run,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The HTML file; a JSON file with the same content is written beside it.",
            show_default="RUN-report.html, with --assurance RUN-assurance.html",
        ),
    ] = None,
    assurance: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with hazards; the page is then a template of a safety case.",
            show_default=False,
        ),
    ] = None,
    guard: GuardFile = None,
    region: Annotated[
        list[str] | None,
        typer.Option(
            help="Region to avoid, e.g. `level > 2 or abs(speed) > 1`; repeat for each.", show_default=False
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of steps within which entering a region counts.",
            show_default="the horizon of the discount",
        ),
    ] = None,
    column: Column = None,
    hold: Hold = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="name of RUN")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a report on what a controller will do before it runs, as one HTML file.

    The file needs no network. Examples: `nopg report tank --region 'level > 1.5' --steps 50`,
    `nopg report tank --assurance hazards.toml --guard guard.toml`
    """
    from nopg.report import policy_report
    from nopg.report._policy_report import report_files
    from nopg.training import load

    path = out or beside(run, f"-{'report' if assurance is None else 'assurance'}.html")
    report_files(path, overwrite=overwrite)  # before the work, not after it
    if assurance is not None:
        if region or column or hold:
            raise ArgumentError(
                "--assurance takes the regions of its file; leave --region, --column, --hold out"
            )
        case = _assurance_case(run, assurance, guard, steps=steps, title=title)
        written = [str(file) for file in case.save(path, overwrite=overwrite)]
        _print_case(case, written, as_json=as_json)
        return
    if guard is not None:
        raise ArgumentError("--guard is for --assurance and for nopg export; leave it out")
    found = policy_report(
        load(run),
        regions=region or (),
        steps=steps,
        columns=column,
        held=held_values(hold),
        title=title or run_name(run),
    )
    written = [str(file) for file in found.save(path, overwrite=overwrite)]
    if as_json:
        facts = {key: value for key, value in found.facts.items() if key not in {"pictures", "trajectories"}}
        print_json({"written": written, **facts})
        return
    show(found.sentence)
    for name, risk in found.risks.items():
        show(f"{name}: {risk}")
    show(f"written: {' and '.join(written)}", ERR)


def _assurance_case(
    run: Path, hazards: Path, guard: Path | None, *, steps: int | None, title: str | None
) -> AssuranceCase:
    from nopg.report import assurance_case
    from nopg.training import load

    named, fallback = read_hazards(hazards)
    return assurance_case(
        load(run),
        named,
        guard=read_guard(run, guard),
        fallback=fallback,
        steps=steps,
        title=title or f"Safety case template: {run_name(run)}",
    )


def _print_case(case: AssuranceCase, written: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"written": written, **case.facts})
        return
    for one in case.hazards:
        show(f"{one.hazard.name}: {one.finding}; {'; '.join(map(str, one.limits))}")
    show("A template: it claims no compliance with any standard.")
    show(f"written: {' and '.join(written)}", ERR)
