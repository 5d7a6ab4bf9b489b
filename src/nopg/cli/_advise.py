"""`nopg advise`: which experiment on the plant would tell most about a controller."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nopg.cli._data import parse_bounds
from nopg.cli._log import has_data, read_log
from nopg.cli._options import AsJson, Log, Run
from nopg.cli._screen import ERR, print_json, show
from nopg.errors import ArgumentError

if TYPE_CHECKING:
    from nopg.advice import Experiment


def advise(
    run: Run,
    *,
    bound: Annotated[
        list[str] | None,
        typer.Option(
            help="Bounds of an action or state in experiments, e.g. `valve=0:1`.",
            show_default="those declared with the log; for states else the range of the log",
        ),
    ] = None,
    rows: Annotated[int, typer.Option(help="Number of rows of the experiment.")] = 200,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    log: Log = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the comparison to this file.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare experiments on the plant by what they would tell about the return of a controller.

    Example: `nopg advise tank --bound valve=0.2:0.8 --bound level=0.5:1.5 --rows 200`
    """
    from nopg.advice import advise as compare_experiments
    from nopg.training import load

    result = load(run)
    if log is None and not has_data(run):
        raise ArgumentError(f"{run} was saved without its data; give a log of its plant with --log")
    data = result.evaluator.data if log is None else read_log(log, run, result)
    bounds = dict(parse_bounds(text) for text in bound or [])
    found = compare_experiments(
        data,
        result.policy,
        result.discount,
        action_bounds={name: one for name, one in bounds.items() if name not in data.schema.states},
        state_bounds={name: one for name, one in bounds.items() if name in data.schema.states},
        rows=rows,
        seed=seed,
    )
    if plot is not None:
        found.plot(plot)
        show(f"written: {plot}", ERR)
    if as_json:
        experiments = [_values(one) for one in found.experiments]
        values = {"needed": found.needed, "today": found.today.to_dict(), "experiments": experiments}
        print_json(values | {"notes": found.notes})
    else:
        show(str(found))


def _values(one: Experiment) -> dict[str, Any]:
    """Return an experiment as plain values, with its sentence."""
    values = {field.name: getattr(one, field.name) for field in fields(one) if field.name != "action_box"}
    return {"experiment": str(one), **values, "initial_states": one.initial_states.tolist()}
