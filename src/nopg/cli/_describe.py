"""`nopg describe`: a first look at the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nopg.cli import _data as d
from nopg.cli._screen import FLAWED, OUT, TOLD, guarded, print_json
from nopg.inspect import Description, Grade
from nopg.inspect import describe as look_at

__all__ = ["describe"]


@guarded
def describe(
    data: d.File,
    *,
    state: d.State = None,
    action: d.Action = None,
    reward: d.Reward = None,
    cost: d.Cost = None,
    next_state: d.NextState = None,
    terminated: d.Terminated = None,
    truncated: d.Truncated = None,
    episode: d.Episode = None,
    time: d.Time = None,
    angle: d.Angle = None,
    unit: d.Unit = None,
    bound: d.Bound = None,
    separator: d.Separator = ",",
    decimal: d.Decimal = ".",
    drop_invalid: d.Drop = False,
    config: d.Config = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw it too, into this file (PNG, PDF, SVG).", show_default=False)
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with code 3 if the data must be corrected.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Look at logged data before training: what is in them, and what to correct.

    Example: `nopg describe tank.csv --state level --action valve --cost cost --time t`
    """
    del config
    found = look_at(
        d.read_data(
            data,
            state=state,
            action=action,
            reward=reward,
            cost=cost,
            next_state=next_state,
            terminated=terminated,
            truncated=truncated,
            episode=episode,
            time=time,
            angle=angle,
            unit=unit,
            bound=bound,
            separator=separator,
            decimal=decimal,
            drop_invalid=drop_invalid,
        )
    )
    if as_json:
        print_json(_values(found))
    else:
        OUT.print(str(found), markup=False, soft_wrap=True)
    if figure is not None:
        found.figure().savefig(figure, dpi=150)
        TOLD.print(f"figure: {figure}")
    if strict and found.grade == Grade.STOP:
        raise typer.Exit(FLAWED)


def _values(found: Description) -> dict[str, object]:
    coverage = found.coverage
    return {
        "rows": found.num_rows,
        "copies": found.num_copies,
        "grade": str(found.grade),
        "columns": [
            {
                "name": column.name,
                "role": column.role,
                "unit": column.unit,
                "low": column.low,
                "median": column.median,
                "high": column.high,
                "spread": column.spread,
                "levels": column.levels,
            }
            for column in found.columns
        ],
        "episodes": str(found.episodes),
        "bandwidths": None
        if coverage is None
        else {
            "states": coverage.bandwidths.states.tolist(),
            "actions": coverage.bandwidths.actions.tolist(),
            "source": coverage.bandwidths.source,
        },
        "findings": [
            {
                "number": finding.number,
                "grade": str(finding.grade),
                "topic": finding.topic,
                "what": finding.what,
                "advice": finding.advice,
            }
            for finding in found.findings
        ],
    }
