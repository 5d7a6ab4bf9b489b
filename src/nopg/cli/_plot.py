"""`nopg plot`: pictures of a saved controller."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from nopg.cli._evaluate import Run
from nopg.cli._screen import OUT, guarded, print_json
from nopg.errors import ArgumentError
from nopg.report import result_pictures, save_pictures
from nopg.training import load

__all__ = ["Column", "Hold", "held_values", "plot"]

Column = Annotated[
    list[str] | None,
    typer.Option(
        help="A state column to draw over; one for curves, two for maps.",
        show_default="the two along which visits spread most",
    ),
]
Hold = Annotated[
    list[str] | None,
    typer.Option(
        help="The value at which another state column is held: `speed=0`.",
        show_default="that of a typical visited state",
    ),
]


@guarded
def plot(
    run: Run,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the pictures.", show_default="RUN-figures")
    ] = None,
    column: Column = None,
    hold: Hold = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Draw training curve, value, visits and policy, hatched where the data say nothing.

    Each picture is written as PNG and PDF, with its numbers as CSV. Example: `nopg plot pendulum`
    """
    result = load(run)
    folder = out or run.with_name(f"{run.stem if run.suffix == '.zip' else run.name}-figures")
    written = save_pictures(
        result_pictures(result, result.data, columns=column, held=held_values(hold)), folder
    )
    if as_json:
        print_json({"written": [str(path) for path in written]})
        return
    for path in written:
        if path.suffix == ".png":
            OUT.print(str(path), markup=False, soft_wrap=True)


def held_values(texts: Sequence[str] | None) -> dict[str, float]:
    """Return the values of held columns by name, as `--hold` gives them."""
    return dict(_held(text) for text in texts or [])


def _held(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise ArgumentError(f"{text!r} holds no column at a number; write --hold speed=0") from None
