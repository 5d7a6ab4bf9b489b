"""`nopg describe`: a first look at the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nopg.cli._data import DataOptions
from nopg.cli._options import AsJson
from nopg.cli._screen import ERR, FLAWED, OUT, print_json, show
from nopg.cli._summarize import saved_summary


def describe(
    data: DataOptions,
    *,
    figure: Annotated[
        Path | None,
        typer.Option(help="Save a figure to this file (PNG, PDF, SVG).", show_default=False),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 3 if the data must be corrected.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check logged data before training: ranges, episodes, sampling, and what to correct.

    A first look at a CSV file needs no reward. Of a log of any length give the folder of `nopg summarize`.

    Example: `nopg describe tank.csv --state level --action valve --cost cost --time t`
    """
    from nopg.inspect import Grade
    from nopg.inspect import describe as describe_data

    summary = saved_summary(data.data, plant=None)
    found = describe_data(data.read(needs_reward=False) if summary is None else summary)
    if as_json:
        print_json(found.to_dict())
    else:
        OUT.print(found.to_text(OUT.width), markup=False, soft_wrap=True)
    if figure is not None:
        found.figure().savefig(figure, dpi=150)
        show(f"figure: {figure}", ERR)
    if strict and found.grade == Grade.ERROR:
        raise typer.Exit(FLAWED)
