"""A log as its settings say how to read it: the log of a command, and another log of a saved controller."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nopg._columns import NO_REWARD
from nopg.cli._screen import note
from nopg.cli._settings import LOG, check
from nopg.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from nopg.data import Schema, Transitions
    from nopg.large_logs import LogSummary
    from nopg.training import TrainingResult

_DERIVED = ("lags", "integrals")
_OF_CSV = ("separator", "decimal", "encoding")
# What readers are not given: they read columns; the rest is done to what was read.
_OURS = {"data", "cost", *_DERIVED, *_OF_CSV}
_TABLES = {".xls", ".xlsx", ".xlsm", ".db", ".sqlite", ".duckdb"}
_ROLES = ("states", "actions", "reward", "next_states", "terminated", "truncated", "episode", "time")
# What the schema of a controller says for every log.
_IN_SCHEMA = {"data", "angles", "bounds", "levels", "interval"}


def read(settings: Mapping[str, Any], *, needs_reward: bool = True) -> Transitions:
    """Return the transitions of a log by settings, see `LOG`; one that needs no reward may have none."""
    columns, reward = _columns(settings), settings.get("reward") or settings.get("cost")
    lags, integrals = settings.get("lags", {}), settings.get("integrals", {})
    names = ["_lag"] if lags == "auto" else [f"{name}_lag" for name in lags]
    later = reward and any(name in reward for name in (*names, *integrals))  # of derived columns
    if reward is not None or not needs_reward:
        columns["reward"] = NO_REWARD if later else reward or False
    data = _read(settings, columns)
    if lags == "auto":
        from nopg.models import select_lags

        choice = select_lags(data)
        note(f"lags: {choice}")
        lags = choice.lags
    data = data.derive(lags=lags, integrals=integrals)
    data = data.with_reward(reward) if reward and later else data
    if "cost" in settings:
        formula = data.schema.reward
        negated = replace(data, rewards=-data.rewards)
        data = negated if formula is None else data.with_reward(f"-({formula})")
    return data


def for_one_pass(settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the files and the arguments of `summarize`; what one pass cannot do is refused."""
    if kind_of(settings["data"]) != "parquet":
        raise ArgumentError(
            f"{settings['data'][0]} is not a Parquet file; convert the log first, e.g. by DuckDB"
        )
    if found := [name for name in ("cost", *_DERIVED) if name in settings]:
        raise ArgumentError(f"a summary has no {found[0]}; give a reward, and no derived columns")
    return _paths(settings), _columns(settings)


def saved_summary(data: Sequence[str], plant: str | None) -> LogSummary | None:
    """Return the summary that a folder holds, of one of its plants if it has several; None for other data."""
    from nopg.large_logs import Fleet
    from nopg.large_logs._files import holds_summary, loaded

    folder = data[0]
    found = loaded(folder) if len(data) == 1 and holds_summary(folder) else None
    if isinstance(found, Fleet):
        return found.summary() if plant is None else found.plant(plant)
    if plant is not None:
        raise ArgumentError(
            f"{folder} is not a summary of several plants; make one with nopg summarize --plant"
        )
    return found


def to_save(settings: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Return how a log was read, as it is saved with a controller for logs to come."""
    kept = {name: value for name, value in settings.items() if name in LOG and name not in _IN_SCHEMA}
    if "resample" in kept:
        kept["interval"] = schema.interval
    of_time = {settings.get("time"), "time"} - {*schema.states, *schema.actions}
    kept["units"] = {name: unit for name, unit in settings.get("units", {}).items() if name in of_time}
    if "lags" in kept:  # as chosen, not to be chosen again
        kept["lags"] = {
            name: count
            for name in (*schema.measured, *schema.actions)
            if (count := sum(f"{name}_lag{k + 1}" in schema.derived for k in range(len(schema.derived))))
        }
    return {"settings": json.dumps({name: value for name, value in kept.items() if value})}


def read_like(run: Path, result: TrainingResult, given: Mapping[str, Any]) -> Transitions:
    """Return another log, read as that of a saved controller was; what is given goes first."""
    from nopg.bundles import open_bundle

    schema, manifest = result.policy.schema, open_bundle(run).manifest
    settings: dict[str, Any] = {}
    if manifest.has("log"):
        try:
            settings = dict(json.loads(manifest.object("log").text("settings")))
            check(settings, str(run))
        except (ValueError, TypeError, RecursionError) as error:  # ours are ValueErrors too
            raise DataError(f"{run} does not say how its log was read ({error}); train again") from None
    if kind_of(given["data"]) == "csv":
        settings = {"states": list(schema.measured), "actions": list(schema.actions)} | settings
        settings |= {} if "cost" in settings else {"reward": settings.get("reward", "reward")}
    settings["angles"] = {name: one for name, one in schema.angles.items() if name in schema.measured}
    if "reward" in given or "cost" in given:
        settings = {name: value for name, value in settings.items() if name not in {"reward", "cost"}}
    try:
        return read(settings | dict(given))
    except DataError as error:
        names = ", ".join((*schema.states, *schema.actions))
        raise DataError(f"{error}; {run} needs the columns of its own log, {names} among them") from None


def _columns(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of readers."""
    return {name: value for name, value in settings.items() if name in LOG and name not in _OURS and value}


def _read(settings: Mapping[str, Any], columns: dict[str, Any]) -> Transitions:
    from nopg.data import io
    from nopg.data.io._csv import first_header

    kind, paths = kind_of(settings["data"]), _paths(settings)
    if kind == "minari":
        if given := [name for name in _ROLES if columns.get(name)]:
            raise ArgumentError(f"a Minari dataset names its columns itself; leave {', '.join(given)} out")
        columns.pop("reward", None)
        return io.read_minari(str(paths).removeprefix("minari:"), **columns)
    if kind == "parquet":
        return io.read_parquet(paths, **columns)
    layout: dict[str, Any] = {name: settings.get(name) for name in _OF_CSV}
    if layout["separator"] in {"tab", "\\t"}:
        layout["separator"] = "\t"
    options = {"states": "--state", "actions": "--action", "reward": "--reward or --cost"}
    if missing := [option for name, option in options.items() if name not in columns]:
        names = first_header(paths, layout["separator"], layout["encoding"]).names
        raise ArgumentError(
            f"{' '.join(settings['data'])} has columns {', '.join(filter(None, names))}; say which are which "
            f"with {', '.join(missing)}, or let nopg init guess"
        )
    return io.read_csv(paths, **layout, **columns)


def _paths(settings: Mapping[str, Any]) -> str | list[str]:
    data = settings["data"]
    return data[0] if len(data) == 1 else list(data)


def kind_of(data: Sequence[str]) -> str:
    """Return "csv", "parquet" or "minari", which is what data name; only files may be several.

    Example:
        >>> kind_of(["log-*.csv"])
        'csv'
    """
    for text in data:
        if not (text.startswith("minari:") or Path(text).exists() or has_magic(text)):
            raise DataError(f"there is no file {text}; give a CSV or Parquet file, a folder, or minari:ID")
        if Path(text).suffix.lower() in _TABLES:
            raise DataError(f"{text} is a workbook or database; save the table as CSV or Parquet first")
    kinds = list(dict.fromkeys(map(_kind, data)))
    if len(kinds) > 1 or (len(data) > 1 and "minari" in kinds):
        raise ArgumentError(f"the data are of several kinds ({', '.join(kinds)}); give files of one kind")
    return kinds[0]


def _kind(text: str) -> str:
    path = Path(text)
    if text.startswith("minari:"):
        return "minari"
    holds = path.is_dir() and any(True for kind in ("parquet", "pq") for _ in path.rglob(f"*.{kind}"))
    return "parquet" if holds or path.suffix.lower() in {".parquet", ".pq"} else "csv"
