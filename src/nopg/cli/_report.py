"""`nopg report`: what a saved controller will do, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nopg.cli._options import AsJson, Overwrite, Run, beside, run_name
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
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="name of RUN")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a report on what a controller will do before it runs, as one HTML file.

    The file needs no network. Example: `nopg report tank --region 'level > 1.5' --most 0.01 --steps 50`
    """
    path = out or beside(run, "-report.html")
    show(f"reading {run}", ERR, style="dim")

    from nopg.report import policy_report
    from nopg.report._html import free_path
    from nopg.training import load

    free_path(path, overwrite=overwrite, beside=".json")  # before the work, not after it
    found = policy_report(
        load(run),
        regions=region or (),
        steps=steps,
        most=most,
        title=title or run_name(run),
    )
    written = [str(file) for file in found.save(path, overwrite=overwrite)]
    if as_json:
        facts = {key: value for key, value in found.facts.items() if key != "pictures"}
        print_json({"written": written, **facts})
        return
    show(found.sentence)
    for name, risk in found.facts["risks"].items():
        show(f"{name}: {risk['words']}" + ("" if most is None else f"; the limit is {risk['finding']}"))
    show(f"written: {' and '.join(written)}", ERR)
