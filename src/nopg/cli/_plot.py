"""`nopg plot`: figures of a saved controller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nopg.cli._options import AsJson, Run, beside
from nopg.cli._screen import OUT, print_json


def plot(
    run: Run,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the figures.", show_default="RUN-figures")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw the figures of the report: the closed loop before and after, where it differs, the training.

    Each figure is written as PNG and PDF, with its numbers as CSV. Example: `nopg plot pendulum`
    """
    from nopg.report import policy_report, save_pictures
    from nopg.training import load

    written = save_pictures(policy_report(load(run)).pictures, out or beside(run, "-figures"))
    if as_json:
        print_json({"written": [str(path) for path in written]})
        return
    for path in written:
        if path.suffix == ".png":
            OUT.print(str(path), markup=False, soft_wrap=True)
