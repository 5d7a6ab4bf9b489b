"""Another log of the same plant, read with the columns of a saved controller."""

from __future__ import annotations

from collections.abc import Sequence
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
    from nopg.evaluation import match_log

    bundle, schema = open_bundle(run), result.policy.schema
    try:
        data = DataOptions(data=[log], **_roles(bundle, schema, [log])).read()
    except DataError as error:
        names = ", ".join((*schema.states, *schema.actions))
        raise DataError(f"{error}; {run} needs the columns of its own log, {names} among them") from None
    return match_log(result, data, name=log)


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
