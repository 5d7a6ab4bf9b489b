"""All commands."""

from __future__ import annotations

import typer

from nopg._version import __version__
from nopg.cli import _screen
from nopg.cli._describe import describe
from nopg.cli._evaluate import evaluate
from nopg.cli._export import export
from nopg.cli._fit import fit
from nopg.cli._info import info
from nopg.cli._plot import plot
from nopg.cli._record import record
from nopg.cli._report import report

__all__ = ["app"]

app = typer.Typer(
    name="nopg",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
    help="Offline reinforcement learning in closed form: from logged data to a controller.",
    epilog="Exit codes: 0 done, 1 could not be done, 2 a wrong call, 3 done but the data must be corrected "
    "(`describe --strict`), 130 stopped by Ctrl-C. `--json` prints results for programs; all else goes to "
    "standard error.",
)
for command in (describe, fit, evaluate, plot, report, export, record, info):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version, and end."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    """Take the options that belong to no command."""
    del version
    _screen.DEBUG = debug
