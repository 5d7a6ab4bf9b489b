"""Controllers from logs as plants write them, beside the behaviour and a strong reference.

    python -m studies.logs heated-tank --log 0
    python -m studies.logs pipeline --log 0 --method arx
    python -m studies.logs hidden-pendulum --log 0 --lags angle=2,torque=1

The command reads the log, adds the lags, trains with nothing set but the discount, and runs the controller on
the true plant. Behaviour and references of the log are run too, once. `level-tank` and `delay-line` are for
development; nothing is chosen by the true returns of the others.
"""

from __future__ import annotations

import argparse
import ast
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nopg.errors import ArgumentError, NopgError
from studies.logs import LOG_PLANTS
from studies.logs.run import METHODS, STUDY, Run, run_one
from studies.markdown import table
from studies.printing import note, say
from studies.records import FOLDER, Record, append, last_of_each, read

__all__ = ["main"]

_HEADS = ("rows", "log", "method", "true return", "undiscounted", "predicted", "interval", "verdict")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the runs of one log that have no record and print its table."""
    given = _parser().parse_args(arguments)
    plant, folder = LOG_PLANTS[given.plant], Path(given.folder)
    rows = given.rows or plant.sizes[0]
    try:
        lags, options = _lags(given.lags), dict(_option(text) for text in given.option)
        for method in ("behaviour", "references", given.method):
            trains = method == given.method
            run = Run(
                plant.name,
                given.log,
                rows,
                method,
                lags if trains else None,
                given.steps,
                options if trains else {},
            )
            if not _done(run, folder) or (trains and given.again):
                _make(run, folder)
    except NopgError as error:
        note(f"error: {error}")
        return 1
    say(result(read(folder, STUDY), plant.name))
    return 0


def result(records: Sequence[Record], plant: str) -> str:
    """Return the table of one plant."""
    lines = []
    for one in last_of_each(record for record in records if record.benchmark == plant):
        changed = ", ".join(f"{name} {value}" for name, value in one.options.items())
        low, high = one.summary.get("interval", (None, None))
        lines.append(
            (
                f"{one.rows}",
                f"{one.seed}",
                f"{one.method} ({changed})" if changed else one.method,
                _number(one.discounted) + (f" ± {one.standard_error:.2g}" if one.standard_error else ""),
                _number(one.undiscounted),
                _number(one.summary.get("expected_return")),
                "" if low is None else f"{low:.4g} … {high:.4g}",
                str(one.summary.get("verdict", "")),
            )
        )
    return "\n".join(table(_HEADS, lines))


def _make(run: Run, folder: Path) -> None:
    note(f"{run.plant}, log {run.log}, {run.rows} rows: {run.method}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for record in run_one(run):
            append(record, folder)


def _done(run: Run, folder: Path) -> bool:
    names = set(LOG_PLANTS[run.plant].references()) if run.method == "references" else {run.method}
    options = {"lags": run.lags, "steps": run.steps, "config": dict(run.options) or None}
    wanted = {name: value for name, value in options.items() if value is not None}
    found = {
        record.method
        for record in read(folder, STUDY)
        if (record.benchmark, record.rows, record.seed) == (run.plant, run.rows, run.log)
        and dict(record.options) == wanted
    }
    return names <= found


def _lags(text: str | None) -> dict[str, int] | str | None:
    """Return lags from text such as `valve=2,level=1`; "auto" and "none" are themselves."""
    if text is None or text in {"auto", "none"}:
        return text
    try:
        return {name: int(count) for name, _, count in (part.partition("=") for part in text.split(","))}
    except ValueError:
        raise ArgumentError(f"--lags is {text!r}; give e.g. valve=2,level=1, or auto, or none") from None


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m studies.logs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plant", choices=tuple(LOG_PLANTS))
    parser.add_argument(
        "--log", type=int, default=0, help="seed of the log, of the training and of the truth"
    )
    parser.add_argument("--rows", type=int, help="rows of the log; the first size of the plant by default")
    parser.add_argument("--method", choices=METHODS, default="nopg")
    parser.add_argument("--lags", help="such as valve=2,level=1; auto; none; those of the plant by default")
    parser.add_argument("--steps", type=int, help="length of the undiscounted return, such as 1000")
    parser.add_argument("--option", action="append", default=[], help="such as updates=5, for trials")
    parser.add_argument("--folder", default=str(FOLDER), help="folder of the records")
    parser.add_argument("--again", action="store_true", help="repeat a run that has a record")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
