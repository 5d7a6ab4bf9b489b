"""All commands. A command imports what it needs when it is called, so that help and version are fast."""

from __future__ import annotations

from typing import Annotated

import typer

from nopg._version import __version__
from nopg.cli import _screen
from nopg.cli._controllers import advise, compare, evaluate, export, monitor, report
from nopg.cli._fit import describe, fit, summarize
from nopg.cli._init import init
from nopg.cli._settings import expand_options, option

app = typer.Typer(
    name="nopg",
    no_args_is_help=True,
    rich_markup_mode=None,  # rich takes as long to import as all the rest
    help="Train a controller from logged data of a plant, and predict its return before it runs.",
    epilog="Exit codes: 0 success, 1 failure, 2 wrong usage, 3 the data must be corrected "
    "(`describe --strict`), 4 to 6 check, retrain, revert (`monitor`), 130 stopped by Ctrl-C. "
    "Results go to standard output (`--json` for programs), "
    "messages to standard error.",
)
for command in (init, describe, fit, compare, evaluate, report, export, monitor, advise, summarize):
    app.command()(_screen.guarded(expand_options(command)))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, option("Print the version.", "--version", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, option("Show the traceback of an error.", "--debug")] = False,
) -> None:
    """Set the options that belong to no command."""
    del version
    _screen.DEBUG = debug
