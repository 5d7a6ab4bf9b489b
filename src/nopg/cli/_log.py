"""Another log of the same plant, read with the columns of a saved controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nopg.cli._data import DataOptions
from nopg.cli._derived import chosen_lags
from nopg.cli._sources import is_database, names_its_columns
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.bundles import Bundle
    from nopg.data import Schema, Transitions
    from nopg.training import TrainingResult

_LISTS = (
    *("state", "action", "next_state", "na", "unit"),
    *("missing", "exogenous", "lags", "difference", "integral"),
)
_TEXTS = (
    *("reward", "cost", "terminated", "truncated", "episode", "time"),
    *("separator", "decimal", "encoding", "time_format", "sheet", "sql", "resample", "starts"),
)
# Steps in time that differ by more than this share are other steps.
_SAME_INTERVAL = 0.1
# Both halves of a log, to which models are fitted, need twice the rows of a linear law's coefficients.
_ROWS_PER_COEFFICIENT = 4


def roles_of(options: DataOptions, schema: Schema) -> dict[str, Any]:
    """Return the roles of columns, as they are saved with a controller of this schema."""
    roles = {name: getattr(options, name) for name in (*_LISTS, *_TEXTS)}
    roles["lags"] = chosen_lags(schema)  # as chosen, not to be chosen again
    of_time = {options.time, "time"} - {*schema.states, *schema.actions}
    roles["unit"] = [text for text in options.unit or [] if text.partition("=")[0] in of_time]
    return {name: value for name, value in roles.items() if value}


def has_data(run: Path) -> bool:
    """Return whether a controller was saved with its data."""
    from nopg.bundles import open_bundle
    from nopg.training._saved import DATA

    return open_bundle(run).has(DATA)


def read_log(log: str, run: Path, result: TrainingResult) -> Transitions:
    """Return the transitions of a log with the columns of a saved controller, or refuse the log."""
    from nopg.bundles import open_bundle

    bundle, schema = open_bundle(run), result.policy.schema
    try:
        data = DataOptions(data=[log], **_roles(bundle, schema, [log])).read()
    except DataError as error:
        names = ", ".join((*schema.states, *schema.actions))
        raise DataError(f"{error}; {run} needs the columns of its own log, {names} among them") from None
    data = data.derive(formulas=schema.derived)
    check_schema(data.schema, schema, log, run)
    fewest = _ROWS_PER_COEFFICIENT * (1 + len(schema.states) + len(schema.actions))
    if len(data) < fewest:
        raise DataError(f"{log} is too short: it has {len(data)} transitions; give at least {fewest}")
    _check_ranges(data, bundle, result, log)
    return replace(data, schema=schema)


def _roles(bundle: Bundle, schema: Schema, log: Sequence[str]) -> dict[str, Any]:
    """Return how the log of a saved controller was read; by usual names if it was not from a file."""
    roles: dict[str, Any] = {}
    if bundle.manifest.has("log"):
        saved = bundle.manifest.object("log")
        roles |= {name: list(saved.texts(name)) for name in _LISTS if saved.has(name)}
        roles |= {name: saved.text(name) for name in _TEXTS if saved.has(name)}
        roles |= {"interval": schema.interval} if saved.has("resample") else {}
    if not is_database(log):
        roles.pop("sql", None)
    if not names_its_columns(log):
        roles = {"state": list(schema.measured), "action": list(schema.actions)} | roles
        roles |= {} if "cost" in roles else {"reward": roles.get("reward", "reward")}
    return roles


def check_schema(schema: Schema, wanted: Schema, name: str, run: Path) -> None:
    """Refuse other columns, or other units where both are declared."""
    for kind in ("states", "actions"):
        found, columns = (", ".join(getattr(one, kind)) for one in (schema, wanted))
        if found != columns:
            raise DataError(f"the {kind} of {name} are {found}, those of {run} are {columns}")
    steps = schema.interval, wanted.interval
    if steps[0] and steps[1] and abs(steps[0] - steps[1]) > _SAME_INTERVAL * steps[1]:
        raise DataError(
            f"the rows of {name} are {steps[0]:g} s apart, those of {run} {steps[1]:g} s; resample the log"
        )
    for kind in ("units", "angles"):
        here, there = getattr(schema, kind), getattr(wanted, kind)
        for column in sorted(here.keys() & there.keys()):
            if here[column] != there[column]:
                what = "unit" if kind == "units" else "period"
                raise DataError(
                    f"the {what} of {column} is {here[column]} in {name}, {there[column]} in {run}; convert"
                )


def _check_ranges(data: Transitions, bundle: Bundle, result: TrainingResult, log: str) -> None:
    """Refuse a column most of whose values lie more than a range away from the range of the saved log.

    A controller may lead the plant beyond what was logged, but hardly that far: such a column is in other
    units. Angles are left out, as they may count turns.
    """
    import torch

    from nopg.training._saved import DATA

    schema = result.policy.schema
    d_s, support = len(schema.states), result.support
    ends = torch.stack([torch.as_tensor(support.low), torch.as_tensor(support.high)])
    known: dict[str, Any] = {"states": ends[:, :d_s], "actions": ends[:, d_s:]}
    if bundle.has(DATA):
        known = bundle.arrays(DATA)
    for names, kind in ((schema.states, "states"), (schema.actions, "actions"), (("reward",), "rewards")):
        for k, column in enumerate(names if kind in known else ()):
            old = torch.as_tensor(known[kind]).reshape(-1, len(names))[:, k]
            new = getattr(data, kind).reshape(-1, len(names))[:, k]
            low, high = float(old.min()), float(old.max())
            far = ((new < 2 * low - high) | (new > 2 * high - low)).double().mean()
            if column not in (*schema.angles, *schema.derived) and high > low and float(far) > 0.5:
                raise DataError(
                    f"{log}: {column} lies between {float(new.min()):.4g} and {float(new.max()):.4g}, in the "
                    f"log of {bundle.path} between {low:.4g} and {high:.4g}; are the units others? Convert it"
                )
