"""The guard of a saved controller, with settings from a file and from options."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
        help="TOML file with the settings of the guard, e.g. `dwell = 20`.",
        show_default=False,
    ),
]

_NUMBERS = {"most_unknown", "return_unknown", "deadline", "gap_factor"}
_LISTS = {"max_change", "last_resort"}


def read_guard(run: Path, file: Path | None, **options: float | None) -> GuardedController:
    """Return a saved controller with its guard.

    Args:
        run: The controller.
        file: TOML file with the settings of `GuardedController` and `GuardRules` by name, but for fallback
            and log, which are Python's.
        options: Settings from the command line, which take precedence; None if not given.
    """
    from nopg.deploy import GuardedController, GuardRules, load

    rules = {one.name for one in fields(GuardRules)} - {"log_size"}
    given = {} if file is None else read_toml(file)
    check_keys(given, rules | _NUMBERS | _LISTS, str(file))
    settings = {name: _value(name, value, file) for name, value in given.items()}
    settings |= {name: value for name, value in options.items() if value is not None}
    own = {name: settings.pop(name) for name in rules & {*settings}}
    try:
        return GuardedController(load(run), rules=GuardRules(**own), **settings)
    except ArgumentError as error:
        raise ArgumentError(str(error) if file is None else f"{file}: {error}") from None


def _value(name: str, value: Any, file: Path | None) -> Any:
    """Return a setting; refuse one of another type."""
    if name in _NUMBERS:
        return _number(name, value, file)
    if name in _LISTS and isinstance(value, list):
        return [_number(name, one, file) for one in value]
    if name == "last_resort":
        return [_number(name, value, file)]
    if name == "max_change":
        return _number(name, value, file)
    return value


def _number(name: str, value: Any, file: Path | None) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        kind = "a number, or a list with one per action" if name in _LISTS else "a number"
        raise ArgumentError(f"{file}: {name} is {value!r}; give {kind}")
    return float(value)
