"""The command `nopg`: thin over the API (the extra `cli`)."""

from __future__ import annotations

import sys

from nopg._version import __version__

__all__ = ["main"]


def main() -> None:
    """Run the command, or say what it lacks; the version needs no torch."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"{__version__}\n")
        return
    try:
        from nopg.cli._app import app
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit("the command needs typer: pip install 'nopg[cli]'")
    app()
