"""`nopg report`: what a saved controller will do, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nopg.cli._evaluate import Run
from nopg.cli._plot import Column, Hold, held_values
from nopg.cli._screen import OUT, TOLD, guarded, print_json
from nopg.report import policy_report
from nopg.report._policy_report import report_files
from nopg.training import load

__all__ = ["report"]


@guarded
def report(
    run: Run,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The HTML file; the same as JSON goes beside it.",
            show_default="RUN-report.html",
        ),
    ] = None,
    region: Annotated[
        list[str] | None,
        typer.Option(help="Where it should not go: `level > 2 or abs(speed) > 1`.", show_default=False),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, help="Within how many steps a region counts.", show_default="as far as the discount looks"
        ),
    ] = None,
    column: Column = None,
    hold: Hold = None,
    title: Annotated[str | None, typer.Option(help="Of the page.", show_default="the name of RUN")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Say what a controller will do before it runs: a verdict, maps, paths, risks, limits, in one HTML file.

    It needs no network and opens from a mail. Example: `nopg report tank --region 'level > 1.5' --steps 50`
    """
    name = run.stem if run.suffix == ".zip" else run.name
    path = out or run.with_name(f"{name}-report.html")
    report_files(path, overwrite=overwrite)  # before the work, not after it
    found = policy_report(
        load(run),
        regions=region or (),
        steps=steps,
        columns=column,
        held=held_values(hold),
        title=title or name,
    )
    written = found.save(path, overwrite=overwrite)
    if as_json:
        pictures = {"pictures", "trajectories"}
        facts = {key: value for key, value in found.facts.items() if key not in pictures}
        print_json({"written": [str(file) for file in written], **facts})
        return
    OUT.print(found.sentence, markup=False, soft_wrap=True)
    for told, risk in found.risks.items():
        OUT.print(f"{told}: {risk}", markup=False, soft_wrap=True)
    TOLD.print(f"written: {' and '.join(str(file) for file in written)}", markup=False, soft_wrap=True)
