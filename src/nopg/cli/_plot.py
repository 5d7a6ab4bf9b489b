"""`nopg plot`: figures of a saved controller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nopg.cli._options import AsJson, Column, Hold, Run, beside, held_values
from nopg.cli._screen import OUT, print_json


def plot(
    run: Run,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the figures.", show_default="RUN-figures")
    ] = None,
    column: Column = None,
    hold: Hold = None,
    as_json: AsJson = False,
) -> None:
    """Draw the training curve and maps of value, visits and policy, hatched outside the data.

    Each figure is written as PNG and PDF, with its numbers as CSV. Example: `nopg plot pendulum`
    """
    from nopg.report import result_pictures, save_pictures
    from nopg.training import load

    result, held = load(run), held_values(hold)
    pictures = result_pictures(result, result.data, columns=column, held=held)
    written = save_pictures(pictures, out or beside(run, "-figures"))
    if as_json:
        print_json({"written": [str(path) for path in written]})
        return
    for path in written:
        if path.suffix == ".png":
            OUT.print(str(path), markup=False, soft_wrap=True)
