"""What a command shows: results on standard output, everything else on standard error, errors in one line."""

from __future__ import annotations

import json
import logging
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec

import typer
from rich.console import Console
from rich.table import Table

from nopg._json import plain_values
from nopg.errors import NopgError
from nopg.training import TrainingResult

__all__ = [
    "DEBUG",
    "FAILED",
    "FLAWED",
    "OUT",
    "STOPPED",
    "TOLD",
    "figures_that_matter",
    "guarded",
    "predicted",
    "print_json",
    "verdict",
]

FAILED, FLAWED, STOPPED = 1, 3, 130
"""Exit codes beside 0 (done) and 2 (a wrong call): could not be done; done, but look; stopped by Ctrl-C."""

OUT = Console(highlight=False)
TOLD = Console(stderr=True, highlight=False)
DEBUG = False
"""Whether errors show their traceback; set by `nopg --debug`."""

P = ParamSpec("P")


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Let a command end in one readable line where it fails, and warn in one line too."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with _telling():
                command(*args, **kwargs)
        except KeyboardInterrupt as error:
            TOLD.print(f"[bold]stopped[/bold] {error}".rstrip(), soft_wrap=True)
            raise typer.Exit(STOPPED) from None
        except (NopgError, OSError, MemoryError) as error:
            if DEBUG:
                TOLD.print(traceback.format_exc(), markup=False)
            _tell("error", "bold red", _sentence(error))
            raise typer.Exit(FAILED) from None

    return run


def print_json(value: Mapping[str, Any]) -> None:
    """Print one object of JSON and nothing else; what is no number becomes null."""
    typer.echo(json.dumps(plain_values(value), ensure_ascii=False, indent=1, allow_nan=False))


def figures_that_matter(rows: Mapping[str, str]) -> None:
    """Print names and values, one pair to a line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, value)
    OUT.print(table)


def predicted(result: TrainingResult) -> str:
    """Return the predicted return of a result with its interval."""
    between = ""
    if result.interval is not None:
        between = ", 95 % interval [{:.5g}, {:.5g}]".format(*result.interval)
    return f"{result.expected_return:.5g}{between}, discounted by {result.discount:g}"


def verdict(result: TrainingResult) -> str:
    """Return the verdict on a result with its reasons."""
    if result.verdict is None:
        return "none with the paper's model; `nopg report` evaluates the controller on the local model"
    reasons = result.numbers.reasons
    return result.verdict + (f": {'; '.join(reasons)}" if reasons else "")


@contextmanager
def _telling() -> Iterator[None]:
    """Show warnings, and what the library notes of its choices, as lines."""
    notes = _Notes()
    logger = logging.getLogger("nopg")
    logger.addHandler(notes)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_: _tell("warning", "bold yellow", str(message))
            yield
    finally:
        logger.removeHandler(notes)
        logger.setLevel(before)


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            _tell("warning", "bold yellow", record.getMessage())
        else:
            TOLD.print(record.getMessage(), style="dim", markup=False, soft_wrap=True)


def _tell(kind: str, style: str, text: str) -> None:
    TOLD.print(f"[{style}]{kind}:[/{style}] ", end="")
    TOLD.print(text, markup=False, soft_wrap=True)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and not isinstance(error, NopgError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
