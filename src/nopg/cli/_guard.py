"""The guard of a saved controller, with settings from a file and from options."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nopg.cli._settings import check_keys, read_toml
from nopg.errors import ArgumentError

if TYPE_CHECKING:
    from nopg.deploy import GuardedController

GuardFile = Annotated[
    Path | None,
    typer.Option(
        "--guard",
        metavar="FILE",
        help="TOML file with the rules of the guard, e.g. `dwell = 20`.",
        show_default=False,
    ),
]


def read_guard(run: Path, file: Path | None) -> GuardedController:
    """Return a saved controller with the rules of a TOML file, by the names of `GuardRules`."""
    from nopg.deploy import GuardedController, GuardRules, load

    given = {} if file is None else read_toml(file)
    check_keys(given, {one.name for one in fields(GuardRules)} - {"log_size"}, str(file))
    try:
        return GuardedController(load(run), rules=GuardRules(**given))
    except ArgumentError as error:
        raise ArgumentError(str(error) if file is None else f"{file}: {error}") from None
