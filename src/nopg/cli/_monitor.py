"""`nopg monitor`: watch a controller run."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nopg.cli._data import DataOptions
from nopg.cli._log import _roles
from nopg.cli._options import AsJson, Overwrite, Run, run_name
from nopg.cli._screen import ERR, print_json, print_rows, show

if TYPE_CHECKING:
    from nopg.data import Schema
    from nopg.monitoring import Status

EXIT_CODES = {"ok": 0, "check": 4, "retrain": 5, "revert": 6}


def monitor(
    run: Run,
    data: DataOptions,
    *,
    shadow: Annotated[
        bool | None,
        typer.Option(
            "--shadow/--acting",
            help="Whether another controller acts.",
            show_default="as the actions tell",
        ),
    ] = None,
    false_alarms: Annotated[
        float, typer.Option(help="Probability of a false alarm within the horizon.")
    ] = 0.05,
    horizon: Annotated[int, typer.Option(min=1, help="Number of steps that it holds for.")] = 10_000,
    html: Annotated[
        Path | None, typer.Option(help="Write a page on the run to this file.", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Compare a run with its prediction: has the plant changed, is it where the log was, what does it return?

    Columns are those that RUN was trained on unless others are named. Ends with code 0 for the verdict ok, 4
    check, 5 retrain, 6 revert. Example: `nopg monitor tank new.csv --html tank-run.html`
    """
    from nopg.monitoring import Monitor, write_page
    from nopg.training import load

    result = load(run)
    rows = _with_columns_of(run, result.policy.schema, data).read()
    watching = Monitor(result, false_alarms=false_alarms, horizon=horizon, shadow=shadow)
    status = watching.watch(rows)
    if html is not None:
        page = write_page(watching, html, title=run_name(run), overwrite=overwrite)
        show(f"written: {page}", ERR)
    if as_json:
        print_json(status.to_dict())
    else:
        print_rows(_rows(status))
    raise typer.Exit(EXIT_CODES[status.verdict])


def _with_columns_of(run: Path, schema: Schema, data: DataOptions) -> DataOptions:
    """Return the options with the columns of a saved controller where none are named."""
    from nopg.bundles import open_bundle

    roles = _roles(open_bundle(run), schema, data.data)
    if data.reward or data.cost:
        roles = {name: value for name, value in roles.items() if name not in {"reward", "cost"}}
    angles = ((name, period) for name, period in schema.angles.items() if name not in schema.derived)
    units = ((name, unit) for name, unit in schema.units.items() if name not in schema.derived)
    roles["angle"] = [f"{name}={period!r}" for name, period in angles]
    roles["unit"] = [*roles.get("unit", []), *(f"{name}={unit}" for name, unit in units)]
    usual = {field.name: field.default for field in fields(data)}
    return replace(
        data, **{name: value for name, value in roles.items() if getattr(data, name) == usual[name]}
    )


def _rows(status: Status) -> dict[str, str]:
    """Return what is shown, by name."""
    from nopg.inspect._wording import share_of

    rows = {"verdict": f"{status.verdict} after {status.step} steps"}
    if status.reasons:
        rows["reasons"] = ";\n".join(status.reasons)
    rows["evidence"] = f"{share_of(min(status.evidence / status.threshold, 1.0))} of an alarm"
    if (earned := status.return_check) is not None:
        low, high = earned.interval
        rows["return"] = (
            f"{earned.measured:.5g}, predicted {earned.predicted:.5g} [{low:.5g}, {high:.5g}] from the same "
            f"states over {earned.stretches} stretches"
        )
    if (where := status.operating_region) is not None:
        rows["outside the log"] = f"{share_of(where.outside)} of the last rows"
    if (shadow := status.shadow) is not None:
        apart = ", ".join(f"{name} {value:.4g}" for name, value in shadow.difference.items())
        rows["in shadow"] = f"actions differ by {apart} on average"
        if shadow.predicted is not None and shadow.acting is not None:
            rows["predicted"] = f"return {shadow.predicted:.5g}; of the acting controller {shadow.acting:.5g}"
    return rows
