"""What a command shows: results on standard output, messages on standard error, errors in one line."""

from __future__ import annotations

import json
import logging
import re
import shutil
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TextIO

import typer

from nopg._files import plain_values
from nopg.cli._settings import SETTINGS
from nopg.errors import NopgError

FAILED, FLAWED, STOPPED = 1, 3, 130
"""Exit codes besides 0 (success) and 2 (wrong usage): failure, flawed data, stopped by Ctrl-C."""

DEBUG = False
"""Whether errors show their traceback; set by `nopg --debug`."""

P = ParamSpec("P")
_ARGUMENT = re.compile(r"(?<![(.])\b([a-z_]+)=(True|…|'[^']*'|\{[^}]*\})")
# Options in place of arguments of Python in messages of the library; other settings are given by --set.
_OPTIONS = {"overwrite": "--overwrite", "policy": "--policy {}", "data": "--set save_data=true"}


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Return a command that shows errors and warnings of the library as one line each."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with _messages():
                command(*args, **kwargs)
        except KeyboardInterrupt as error:
            note(str(error), "stopped")
            raise typer.Exit(STOPPED) from None
        except (NopgError, OSError, MemoryError) as error:
            if DEBUG:
                note(traceback.format_exc())
            text = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, OSError) and not isinstance(error, NopgError) and error.filename:
                text = f"{error.filename}: {error.strerror}"
            note(_in_options(text), "error")
            raise typer.Exit(FAILED) from None

    return run


def note(text: str, kind: str = "") -> None:
    """Print a message on standard error, after its kind if it has one."""
    shown = _fitted(f"{kind}: {text}" if kind else text, sys.stderr)
    typer.secho(shown, err=True, dim=not kind, fg={"error": "red", "warning": "yellow"}.get(kind))


def answer(
    values: Mapping[str, Any], shown: str | Mapping[str, str], *, as_json: bool, then: str = ""
) -> None:
    """Print values as JSON, with null for NaN and infinities, or what is shown of them, then a message."""
    if as_json:
        typer.echo(json.dumps(plain_values(values), ensure_ascii=False, indent=1, allow_nan=False))
        return
    if isinstance(shown, str):
        typer.echo(_fitted(shown, sys.stdout))
    else:
        print_rows(shown)
    if then:
        note(then)


def print_rows(rows: Mapping[str, str]) -> None:
    """Print names and values, one pair per line; those without a value are left out."""
    rows = {name: text for name, text in rows.items() if text}
    indent = 2 + max(map(len, rows))
    for name, text in rows.items():
        lines = _wrapped(text, max(width() - indent, 20)).replace("\n", "\n" + indent * " ")
        typer.echo(typer.style(f"{name:<{indent}}", bold=True) + lines)


def width() -> int:
    """Return the columns of the terminal; 80 in a file or pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 80


def _fitted(text: str, stream: TextIO) -> str:
    return _wrapped(text, shutil.get_terminal_size().columns) if stream.isatty() else text


def _wrapped(text: str, columns: int) -> str:
    lines = (textwrap.wrap(line, columns, break_on_hyphens=False) or [""] for line in text.split("\n"))
    return "\n".join(part for line in lines for part in line)


@contextmanager
def _messages() -> Iterator[None]:
    """Show warnings and log records of the library as lines."""
    handler, logger = logging.Handler(), logging.getLogger("nopg")
    handler.emit = lambda record: note(  # type: ignore[method-assign]
        _in_options(record.getMessage()), "warning" if record.levelno >= logging.WARNING else ""
    )
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.simplefilter("ignore", DeprecationWarning)  # for those who write code, not commands
            warnings.filterwarnings("ignore", "the verdict on this controller is")  # printed with the result
            warnings.showwarning = lambda text, *_: note(_in_options(str(text)), "warning")
            yield
    finally:
        logger.removeHandler(handler)
        logging.disable(logging.NOTSET)
        logger.setLevel(before)


def _in_options(text: str) -> str:
    """Return a message of the library in which arguments of Python are options."""

    def as_option(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("'")
        if name in _OPTIONS:
            return _OPTIONS[name].format(value)
        return f"--set {name}={value}" if name in SETTINGS else found[0]

    return _ARGUMENT.sub(as_option, text)
