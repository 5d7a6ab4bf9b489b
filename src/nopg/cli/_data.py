"""The options that say what the columns of a file are."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from nopg.data import Transitions
from nopg.data.io import read_csv, read_hdf5, read_minari, read_npz, read_parquet
from nopg.errors import ArgumentError, DataError

__all__ = [
    "Action",
    "Angle",
    "Bound",
    "Config",
    "Cost",
    "Decimal",
    "Drop",
    "Episode",
    "File",
    "NextState",
    "Reward",
    "Separator",
    "State",
    "Terminated",
    "Time",
    "Truncated",
    "Unit",
    "read_data",
]

_COLUMNS = "Columns"
_DETAILS = "What to know about them"


def _from_toml(context: typer.Context, path: Path | None) -> Path | None:
    """Take what a file says for options that were not given; words on the command line go first."""
    if path is None:
        return None
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read as TOML ({error})") from None
    names = {parameter.name: parameter for parameter in context.command.params if parameter.name}
    values: dict[str, Any] = {}
    for key, value in told.items():
        name = key.replace("-", "_")
        if name not in names or name == "config":
            known = ", ".join(sorted(name.replace("_", "-") for name in names if name != "config"))
            raise typer.BadParameter(
                f"{path} says {key!r}, which this command does not know; it knows {known}"
            )
        values[name] = value
    context.default_map = {**(context.default_map or {}), **values}
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        callback=_from_toml,
        is_eager=True,
        dir_okay=False,
        exists=True,
        help="A TOML file with these options by name, e.g. `state = ['level']`; options given here go first.",
        show_default=False,
    ),
]
File = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, Parquet, HDF5 or NPZ file, a folder of Parquet files, or `minari:ID`.",
        show_default=False,
    ),
]
State = Annotated[
    list[str] | None,
    typer.Option("--state", "-s", help="A state column; repeat it for each.", rich_help_panel=_COLUMNS),
]
Action = Annotated[
    list[str] | None,
    typer.Option("--action", "-a", help="An action column; repeat it for each.", rich_help_panel=_COLUMNS),
]
Reward = Annotated[
    str | None, typer.Option("--reward", "-r", help="The reward column.", rich_help_panel=_COLUMNS)
]
Cost = Annotated[
    str | None,
    typer.Option(help="A cost column, whose negative is the reward.", rich_help_panel=_COLUMNS),
]
NextState = Annotated[
    list[str] | None,
    typer.Option(
        help="A next-state column, in the order of the states; else the next row's state.",
        rich_help_panel=_COLUMNS,
    ),
]
Terminated = Annotated[
    str | None, typer.Option(help="The flag of terminations: the task ends.", rich_help_panel=_COLUMNS)
]
Truncated = Annotated[
    str | None,
    typer.Option(
        help="The flag of truncations: the recording ends, the task goes on.", rich_help_panel=_COLUMNS
    ),
]
Episode = Annotated[
    str | None,
    typer.Option(
        help="The episode column: rows with the same value belong together.", rich_help_panel=_COLUMNS
    ),
]
Time = Annotated[str | None, typer.Option(help="The time column.", rich_help_panel=_COLUMNS)]
Angle = Annotated[
    list[str] | None,
    typer.Option(
        help="A state column that is an angle: `theta` in radians, `theta=360` otherwise.",
        rich_help_panel=_DETAILS,
    ),
]
Unit = Annotated[
    list[str] | None, typer.Option(help="The unit of a column: `level=m`.", rich_help_panel=_DETAILS)
]
Bound = Annotated[
    list[str] | None,
    typer.Option(help="Lowest and highest value of a column: `valve=0:1`.", rich_help_panel=_DETAILS),
]
Separator = Annotated[str, typer.Option(help="Between the fields of a CSV.", rich_help_panel=_DETAILS)]
Decimal = Annotated[str, typer.Option(help="Before the decimals in a CSV.", rich_help_panel=_DETAILS)]
Drop = Annotated[
    bool,
    typer.Option(
        "--drop-invalid",
        help="Drop rows with NaN or infinities instead of refusing them.",
        rich_help_panel=_DETAILS,
    ),
]


def read_data(
    source: str,
    *,
    state: Sequence[str] | None,
    action: Sequence[str] | None,
    reward: str | None,
    cost: str | None,
    next_state: Sequence[str] | None,
    terminated: str | None,
    truncated: str | None,
    episode: str | None,
    time: str | None,
    angle: Sequence[str] | None,
    unit: Sequence[str] | None,
    bound: Sequence[str] | None,
    separator: str,
    decimal: str,
    drop_invalid: bool,
) -> Transitions:
    """Return the transitions of a file or of a Minari dataset."""
    if reward is not None and cost is not None:
        raise ArgumentError("a reward and a cost are given; name one of them")
    roles = {
        "states": list(state or []),
        "actions": list(action or []),
        "reward": reward or cost,
        "next_states": list(next_state or []),
        "terminated": terminated,
        "truncated": truncated,
        "episode": episode,
        "time": time,
    }
    settings: dict[str, Any] = {
        "angles": _angles(angle or []),
        "units": dict(_pair(told, "--unit level=m") for told in unit or []),
        "bounds": dict(_bounds(told) for told in bound or []),
        "invalid": "drop" if drop_invalid else "raise",
    }
    given = {name: value for name, value in roles.items() if value}
    told = {name: value for name, value in settings.items() if value}
    data = _read(source, given, told, separator=separator, decimal=decimal)
    return data if cost is None else replace(data, rewards=-data.rewards)


def _read(
    source: str, roles: dict[str, Any], settings: dict[str, Any], *, separator: str, decimal: str
) -> Transitions:
    if source.startswith("minari:"):
        if roles:
            raise ArgumentError(f"a Minari dataset names its columns itself; leave {', '.join(roles)} out")
        return read_minari(source.removeprefix("minari:"), **settings)
    path = Path(source)
    kind = path.suffix.lower()
    if kind in {".parquet", ".pq"} or path.is_dir():
        return read_parquet(path, **roles, **settings)
    if kind in {".h5", ".hdf5"}:
        return read_hdf5(path, **_keys(roles), **settings)
    if kind == ".npz":
        return read_npz(path, **_keys(roles), **settings)
    if not path.exists():
        raise DataError(f"there is no file {path}; give a CSV, Parquet, HDF5 or NPZ file, or minari:ID")
    if missing := [name for name in ("states", "actions", "reward") if name not in roles]:
        options = {"states": "--state", "actions": "--action", "reward": "--reward or --cost"}
        raise ArgumentError(
            f"{path} has columns {_header(path, separator)}; say which are which with "
            + ", ".join(options[name] for name in missing)
        )
    return read_csv(path, separator=separator, decimal=decimal, **roles, **settings)


def _keys(roles: dict[str, Any]) -> dict[str, Any]:
    """Return roles as the readers of arrays take them: one key alone may be that of a matrix."""
    return {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value
        for name, value in roles.items()
    }


def _header(path: Path, separator: str) -> str:
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        return ", ".join(name.strip() for name in lines.readline().split(separator))


def _angles(told: Sequence[str]) -> dict[str, float]:
    angles = {}
    for text in told:
        name, _, period = text.partition("=")
        angles[name] = _number(period, "--angle theta=360") if period else 2 * math.pi
    return angles


def _bounds(told: str) -> tuple[str, tuple[float, float]]:
    form = "--bound valve=0:1"
    name, interval = _pair(told, form)
    low, colon, high = interval.partition(":")
    if not colon:
        raise ArgumentError(f"{told!r} is no interval; write {form}")
    return name, (_number(low, form), _number(high, form))


def _pair(told: str, form: str) -> tuple[str, str]:
    name, equals, value = told.partition("=")
    if not (name and equals and value):
        raise ArgumentError(f"{told!r} cannot be read; write {form}")
    return name, value


def _number(text: str, form: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"{text!r} is no number; write {form}") from None
