"""All commands. A command imports what it needs when it is called, so that help and version are fast."""

from __future__ import annotations

from typing import Annotated

import typer

from nopg._version import __version__
from nopg.cli import _screen
from nopg.cli._advise import advise
from nopg.cli._compare import compare
from nopg.cli._describe import describe
from nopg.cli._evaluate import evaluate
from nopg.cli._export import export
from nopg.cli._fit import fit
from nopg.cli._info import info
from nopg.cli._monitor import monitor
from nopg.cli._options import expand_options
from nopg.cli._plot import plot
from nopg.cli._report import report
from nopg.cli._summarize import summarize

app = typer.Typer(
    name="nopg",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    help="Offline reinforcement learning in closed form: from logged data to a controller.",
    epilog="Exit codes: 0 success, 1 failure, 2 wrong usage, 3 the data must be corrected "
    "(`describe --strict`), 4 to 6 look, retrain, stop (`monitor`), 130 stopped by Ctrl-C. "
    "Results go to standard output (`--json` for programs), "
    "messages to standard error.",
)
for command in (
    describe,
    summarize,
    fit,
    evaluate,
    compare,
    advise,
    plot,
    report,
    export,
    monitor,
    info,
):
    app.command()(_screen.guarded(expand_options(command)))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Set the options that belong to no command."""
    del version
    _screen.DEBUG = debug
