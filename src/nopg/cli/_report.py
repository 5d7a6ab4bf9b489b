"""`nopg report`: what a saved controller will do, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nopg.cli._options import AsJson, Column, Hold, Overwrite, Run, beside, held_values, run_name
from nopg.cli._screen import ERR, print_json, show


def report(
    run: Run,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The HTML file; a JSON file with the same content is written beside it.",
            show_default="RUN-report.html",
        ),
    ] = None,
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
    most: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Largest tolerated probability of entering a region, e.g. 0.01.",
            show_default=False,
        ),
    ] = None,
    column: Column = None,
    hold: Hold = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="name of RUN")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a report on what a controller will do before it runs, as one HTML file.

    The file needs no network. Example: `nopg report tank --region 'level > 1.5' --most 0.01 --steps 50`
    """
    from nopg.report import policy_report
    from nopg.report._policy_report import report_files
    from nopg.training import load

    path = out or beside(run, "-report.html")
    report_files(path, overwrite=overwrite)  # before the work, not after it
    found = policy_report(
        load(run),
        regions=region or (),
        steps=steps,
        most=most,
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
        show(f"{name}: {risk}" + ("" if most is None else f"; the limit is {risk.finding(most)}"))
    show(f"written: {' and '.join(written)}", ERR)
