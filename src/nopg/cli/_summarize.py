"""`nopg summarize`: one pass over a log of any length, and the summaries that `nopg fit` takes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nopg.cli._data import DataOptions
from nopg.cli._options import AsJson, Overwrite
from nopg.cli._screen import ERR, print_json, show
from nopg.errors import ArgumentError

if TYPE_CHECKING:
    from nopg.large_logs import LogSummary


def summarize(
    data: DataOptions,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the summary.")],
    plant: Annotated[
        str | None,
        typer.Option(
            help="Column that says which plant a row is from, in a log of several.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of processes.", min=1, show_default="one for each core")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Read Parquet files of any length once, and keep what `nopg fit` needs.

    With `--plant`, plants are reported one by one, and `nopg fit OUT --plant NAME` trains for one of them.

    Example: `nopg summarize 'pumps-*.parquet' --plant pump -o pumps`
    """
    from nopg.large_logs import LogSummary, save_summary, summarize, summarize_fleet
    from nopg.large_logs._files import holds_summary

    if holds_summary(out) and not overwrite:
        raise ArgumentError(f"{out} holds a summary already; give another name, or --overwrite")
    paths, columns = data.for_one_pass()
    with _quiet_readers():
        found = (
            summarize(paths, workers=workers, **columns)
            if plant is None
            else summarize_fleet(paths, plant, workers=workers, **columns)
        )
    save_summary(found, out, overwrite=overwrite)
    report = None if isinstance(found, LogSummary) else found.report()
    if as_json:
        plants = {} if report is None else asdict(report)
        print_json({"summary": str(out), "rows": found.num_rows, "sample": len(found.sample), **plants})
        return
    if report is None:
        show(str(found))
    else:
        show(str(found), ERR, style="dim")
        show(str(report))
    show(f"next: nopg fit {out} -g 0.97 -o controller", ERR, style="dim")


@contextmanager
def _quiet_readers() -> Iterator[None]:
    """Keep readers from telling the same of every part of a log."""
    logger = logging.getLogger("nopg.data.io")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def saved_summary(data: Sequence[str], plant: str | None) -> LogSummary | None:
    """Return the summary that a folder holds, or None where the data are no such folder.

    Args:
        data: Of the command line.
        plant: Name of a plant, where the folder has several.
    """
    from nopg.large_logs import load_fleet, load_summary
    from nopg.large_logs._files import holds_fleet, holds_summary

    if len(data) == 1 and holds_fleet(data[0]):
        fleet = load_fleet(data[0])
        return fleet.summary() if plant is None else fleet.plant(plant)
    if plant is not None:
        raise ArgumentError(
            f"{data[0]} is no summary of several plants; make one with nopg summarize --plant"
        )
    return load_summary(data[0]) if len(data) == 1 and holds_summary(data[0]) else None
