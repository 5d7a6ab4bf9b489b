"""The command `nopg`: thin over the API (the extra `cli`)."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command, or name the extra that is missing."""
    try:
        from nopg.cli._app import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit("the command needs typer: pip install 'nopg[cli]'")
    app()
