"""What a command shows: results on standard output, messages on standard error, errors in one line."""

from __future__ import annotations

import inspect
import json
import logging
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nopg._json import plain_values
from nopg.cli._settings import SETTINGS
from nopg.errors import NopgError

if TYPE_CHECKING:
    from nopg.evaluation import Assessment
    from nopg.training import TrainingResult

FAILED, FLAWED, STOPPED = 1, 3, 130
"""Exit codes besides 0 (success) and 2 (wrong usage): failure, flawed data, stopped by Ctrl-C."""

OUT, ERR = Console(highlight=False), Console(stderr=True, highlight=False)
DEBUG = False
"""Whether errors show their traceback; set by `nopg --debug`."""

P = ParamSpec("P")
_OPTIONS: dict[str, str] = {}  # of the command that runs, by parameter
_ARGUMENT = re.compile(r"\b([a-z_]+)=(True|…|'[^']*'|\{[^}]*\})")


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Return a command that shows errors and warnings of the library as one line each."""
    options = _options_of(command)

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        _OPTIONS.clear()
        _OPTIONS.update(options)
        try:
            with _messages():
                command(*args, **kwargs)
        except KeyboardInterrupt as error:
            _message("stopped", "bold", str(error))
            raise typer.Exit(STOPPED) from None
        except (NopgError, OSError, MemoryError) as error:
            if DEBUG:
                ERR.print(traceback.format_exc(), markup=False)
            _message("error", "bold red", _sentence(error))
            raise typer.Exit(FAILED) from None

    return run


def show(text: str | Text, console: Console = OUT, *, style: str | None = None) -> None:
    """Print text, broken between words on a terminal and not at all in a file or pipe."""
    console.print(text, style=style, markup=False, soft_wrap=not console.is_terminal)


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object; NaN and infinities become null."""
    typer.echo(json.dumps(plain_values(value), ensure_ascii=False, indent=1, allow_nan=False))


def print_rows(rows: Mapping[str, str]) -> None:
    """Print names and values, one pair per line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(name), Text(value))  # names of columns may look like markup
    OUT.print(table)


def in_interval(value: float, interval: tuple[float, float] | None) -> str:
    """Return a number with its interval, if it has one."""
    between = "" if interval is None else ", 95 % interval [{:.5g}, {:.5g}]".format(*interval)
    return f"{value:.5g}{between}"


def predicted(result: TrainingResult | Assessment, discount: float) -> str:
    """Return a predicted return with its interval."""
    return f"{in_interval(result.expected_return, result.interval)}, γ = {discount:g}"


def verdict(word: str | None, reasons: Sequence[str] = ()) -> str:
    """Return a verdict with its reasons."""
    if word is None:
        return "none with the paper's model; `nopg report` evaluates the controller on the local model"
    return word + (f": {'; '.join(reasons)}" if reasons else "")


@contextmanager
def _messages() -> Iterator[None]:
    """Show warnings and log records of the library as lines."""
    handler, logger = _Handler(), logging.getLogger("nopg")
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.simplefilter("ignore", DeprecationWarning)  # for those who write code, not commands
            warnings.showwarning = lambda message, *_: _message(
                "warning", "bold yellow", _in_options(str(message))
            )
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            _message("warning", "bold yellow", _in_options(record.getMessage()))
        else:
            show(_in_options(record.getMessage()), ERR, style="dim")


def _message(kind: str, style: str, text: str) -> None:
    show(Text.assemble((f"{kind}:", style), f" {text}" if text else ""), ERR)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and not isinstance(error, NopgError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return _in_options(" ".join(str(error).split()) or type(error).__name__)


def _options_of(command: Callable[..., None]) -> dict[str, str]:
    """Return the option of every parameter of a command."""
    found = {}
    for name, one in inspect.signature(command, eval_str=True).parameters.items():
        (info, *_) = getattr(one.annotation, "__metadata__", (None,))
        named = [text for text in getattr(info, "param_decls", None) or () if text.startswith("--")]
        found[name] = named[0] if named else f"--{name.replace('_', '-')}"
    return found


def _in_options(text: str) -> str:
    """Return a message of the library in which arguments of Python are options, or settings of the file."""

    def said(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("'")
        if name in _OPTIONS:
            return _OPTIONS[name] + ("" if value in {"True", "…"} else f" {value}")
        return f"{name} = {value} in the file of --config" if name in SETTINGS else found[0]

    return _ARGUMENT.sub(said, text)
