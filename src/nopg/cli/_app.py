"""All commands."""

from __future__ import annotations

import typer

from nopg._version import __version__
from nopg.cli._reproduce import reproduce

__all__ = ["app"]

app = typer.Typer(
    name="nopg",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
    help="Offline reinforcement learning in closed form.",
)
app.command()(reproduce)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version, and end."
    ),
) -> None:
    """Take the options that belong to no command."""
    del version
