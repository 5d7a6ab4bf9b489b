"""Options that several commands share, and groups of options as dataclasses."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
Run = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A controller saved by `nopg fit`.", show_default=False),
]
Log = Annotated[
    str | None,
    typer.Option(
        help="Another log of the same plant, with the columns of the log of RUN.", show_default=False
    ),
]


def run_name(run: Path) -> str:
    """Return the name of a saved controller without its ending."""
    return run.stem


def beside(run: Path, ending: str) -> Path:
    """Return the path beside a saved controller that has its name and this ending."""
    return run.with_name(f"{run_name(run)}{ending}")


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of its dataclass parameters as options of their own."""
    taken = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {}
    groups |= {name: one.annotation for name, one in taken.items() if is_dataclass(one.annotation)}
    parameters: list[inspect.Parameter] = []
    for name, one in taken.items():
        expanded = {name: one}
        if name in groups:
            expanded = dict(inspect.signature(groups[name], eval_str=True).parameters)
        parameters += (option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in expanded.values())

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run
