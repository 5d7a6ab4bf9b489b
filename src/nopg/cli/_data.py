"""The options that say which columns of a file are what."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nopg._columns import NO_REWARD
from nopg.cli._derived import derive, exogenous_of, missing_of, uses_derived
from nopg.cli._sources import frame_of, kind_of
from nopg.cli._toml import read_toml
from nopg.errors import ArgumentError

if TYPE_CHECKING:
    from nopg.data import Transitions


def _column(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Columns")


def _detail(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Details of the columns and of the file")


def _step(text: str, *names: str, default: str | bool = False) -> Any:
    panel = "Time, missing values and derived columns"
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=default)


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take options from a TOML file; those on the command line take precedence."""
    if path is None:
        return None
    try:
        values = read_toml(path)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from None
    known = {one.name for one in context.command.params if one.name} - {"config"}
    options = {key.replace("-", "_"): value for key, value in values.items()}
    if unknown := [key for key in values if key.replace("-", "_") not in known]:
        names = ", ".join(sorted(name.replace("_", "-") for name in known))
        raise typer.BadParameter(f"{path} says {unknown[0]!r}, which is no option; the options are {names}")
    context.default_map = {**(context.default_map or {}), **options}
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    """A file of logged data and the roles of its columns, as options of a command."""

    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="A CSV, Parquet or Excel file; several CSV or Parquet files, a glob or a folder of them;"
            " a DuckDB or SQLite file with `--sql`; or `minari:ID`.",
            show_default=False,
        ),
    ]
    state: Annotated[list[str] | None, _column("State column; repeat for each.", "--state", "-s")] = None
    action: Annotated[list[str] | None, _column("Action column; repeat for each.", "--action", "-a")] = None
    reward: Annotated[
        str | None,
        _column("Reward column, or a formula such as '-(level - 1)**2 - 0.1*valve**2'.", "--reward", "-r"),
    ] = None
    cost: Annotated[str | None, _column("Cost column, or a formula; the reward is its negative.")] = None
    next_state: Annotated[
        list[str] | None,
        _column("Next-state column, in the order of the states. Default: the state of the next row."),
    ] = None
    terminated: Annotated[str | None, _column("Flag of terminations: the task ends.")] = None
    truncated: Annotated[
        str | None, _column("Flag of truncations: the recording ends, the task goes on.")
    ] = None
    episode: Annotated[str | None, _column("Episode column: rows of one episode share a value.")] = None
    time: Annotated[str | None, _column("Time column.")] = None
    angle: Annotated[
        list[str] | None, _detail("State column that is an angle: `theta` in radians, or `theta=360`.")
    ] = None
    unit: Annotated[list[str] | None, _detail("Unit of a column, e.g. `level=m`.")] = None
    bound: Annotated[list[str] | None, _detail("Bounds of a column, e.g. `valve=0:1`.")] = None
    levels: Annotated[
        list[str] | None, _detail("The only values of an action, e.g. `pump=0,1`; it is then not continuous.")
    ] = None
    separator: Annotated[
        str | None, _detail("Field separator of a CSV file, `tab` for a tab. Default: found.")
    ] = None
    decimal: Annotated[str | None, _detail("Decimal mark of a CSV file. Default: found.")] = None
    encoding: Annotated[str | None, _detail("Encoding of a CSV file, e.g. `cp1252`. Default: found.")] = None
    na: Annotated[
        list[str] | None,
        _detail(
            "Further word or number for a missing value, e.g. `Out of Serv` or `-9999`; repeat for each."
        ),
    ] = None
    time_format: Annotated[
        str | None, _detail("Format of the time stamps, e.g. `%d/%m/%Y %H:%M`. Default: found.")
    ] = None
    sheet: Annotated[str | None, _detail("Sheet of an Excel file. Default: the first.")] = None
    sql: Annotated[
        str | None, _detail("Query of a DuckDB or SQLite file: `SELECT * FROM log ORDER BY t`.")
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            callback=_read_config,
            is_eager=True,
            dir_okay=False,
            exists=True,
            help="TOML file of options, e.g. `state = ['level']`; the command line takes precedence.",
            show_default=False,
        ),
    ] = None

    interval: Annotated[
        float | None, _step("Seconds between two rows.", default="the median step of the time column")
    ] = None
    resample: Annotated[
        Literal["hold", "mean", "nearest"] | None,
        _step("Put the rows on a regular grid of that interval: last values, means, or nearest rows."),
    ] = None
    missing: Annotated[
        list[str] | None,
        _step(
            "Rule for missing values: `refuse`, `drop`, `hold:5` (the last value over up to 5 rows) or "
            "`interpolate:3`; of one column `flow=hold:5`.",
            default="refuse; with a time column hold over up to 5 rows",
        ),
    ] = None
    starts: Annotated[
        Literal["episodes", "rows"] | None,
        _step(
            "Where the task starts: in the first row of every episode, or in every row.",
            default="the former; in every row for one long recording",
        ),
    ] = None
    exogenous: Annotated[
        list[str] | None,
        _step(
            "State that no action moves: `setpoint` moves in rollouts as in the log, `weather=hold` stays."
        ),
    ] = None
    lags: Annotated[
        list[str] | None,
        _step("Number of earlier values of a column that are states, e.g. `valve=3`; or `auto`."),
    ] = None
    difference: Annotated[
        list[str] | None, _step("State whose last change is a state too: `level` adds `level_diff`.")
    ] = None
    integral: Annotated[
        list[str] | None,
        _step("Formula whose sum over time is a state: 'level - setpoint', or total='level - setpoint'."),
    ] = None

    def read(self, *, needs_reward: bool = True) -> Transitions:
        """Return the transitions of the file or of the Minari dataset.

        Args:
            needs_reward: Whether a file without a reward is refused if neither reward nor cost are given;
                else the reward is the formula `NO_REWARD`.
        """
        if self.reward is not None and self.cost is not None:
            raise ArgumentError("a reward and a cost are given; name one of them")
        roles, settings = self._arguments
        formula = self._later_reward
        if formula is not None:
            roles["reward"] = NO_REWARD
        data = self._read(roles, settings, needs_reward=needs_reward)
        data = derive(data, *self._derivations)
        data = data if formula is None else data.with_reward(formula)
        if self.cost is not None:
            formula = data.schema.reward
            negated = replace(data, rewards=-data.rewards)
            data = negated if formula is None else data.with_reward(f"-({formula})")
        return data

    def for_one_pass(self) -> tuple[str | list[str], dict[str, Any]]:
        """Return the files and the arguments of `summarize`; what one pass cannot do is refused."""
        if kind_of(self.data, sql=self.sql) != "parquet":
            raise ArgumentError(f"{self.data[0]} is no Parquet file; convert the log first, e.g. by DuckDB")
        if self.cost is not None or any(self._derivations):
            raise ArgumentError(
                "a summary has no --cost, --lags, --difference or --integral; give a reward, and no derived "
                "columns"
            )
        roles, settings = self._arguments
        return self._paths, roles | settings

    @property
    def _arguments(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The roles and the settings that are given, as readers take them."""
        roles = {
            "states": list(self.state or []),
            "actions": list(self.action or []),
            "reward": self.reward or self.cost,
            "next_states": list(self.next_state or []),
            "terminated": self.terminated,
            "truncated": self.truncated,
            "episode": self.episode,
            "time": self.time,
            "na": list(self.na or []),
            "time_format": self.time_format,
        }
        settings: dict[str, Any] = {
            "angles": _angles(self.angle or []),
            "units": dict(_pair(text, "--unit level=m") for text in self.unit or []),
            "bounds": dict(parse_bounds(text) for text in self.bound or []),
            "levels": dict(_levels(text) for text in self.levels or []),
            "interval": self.interval,
            "resample": self.resample,
            "missing": missing_of(self.missing or []),
            "exogenous": exogenous_of(self.exogenous or []),
            "starts": self.starts,
        }
        given = ({name: value for name, value in one.items() if value} for one in (roles, settings))
        return next(given), next(given)

    @property
    def _derivations(self) -> tuple[list[str], list[str], list[str]]:
        return self.lags or [], self.difference or [], self.integral or []

    @property
    def _later_reward(self) -> str | None:
        """The formula of a reward of derived columns, which the reader does not know."""
        reward = self.reward or self.cost
        return reward if reward and uses_derived(reward, *self._derivations) else None

    def _read(self, roles: dict[str, Any], settings: dict[str, Any], *, needs_reward: bool) -> Transitions:
        from nopg.data import io

        kind = kind_of(self.data, sql=self.sql)
        if kind == "minari":
            if roles:
                raise ArgumentError(
                    f"a Minari dataset names its columns itself; leave {', '.join(roles)} out"
                )
            return io.read_minari(self.data[0].removeprefix("minari:"), **settings)
        if not needs_reward:
            roles = {"reward": False} | roles
        if kind == "parquet":
            return io.read_parquet(self._paths, **roles, **settings)
        return self._read_table(kind, roles | settings)

    def _read_table(self, kind: str, roles: dict[str, Any]) -> Transitions:
        from nopg.data import io

        self._check_roles(kind, roles)
        if kind != "csv":
            return io.from_dataframe(frame_of(self.data[0], sheet=self.sheet, sql=self.sql), **roles)
        return io.read_csv(self._paths, **self._layout, decimal=self.decimal, **roles)

    def _check_roles(self, kind: str, roles: dict[str, Any]) -> None:
        """Refuse a table whose columns nobody has named."""
        from nopg.data.io._csv import column_names

        if not (missing := [name for name in ("states", "actions", "reward") if name not in roles]):
            return
        options = {"states": "--state", "actions": "--action", "reward": "--reward or --cost"}
        has = " has several columns"
        if kind == "csv":
            has = f" has columns {', '.join(column_names(self._paths, **self._layout))}"
        which = ", ".join(options[name] for name in missing)
        raise ArgumentError(f"{' '.join(self.data)}{has}; say which are which with {which}")

    @property
    def _paths(self) -> str | list[str]:
        return self.data[0] if len(self.data) == 1 else list(self.data)

    @property
    def _layout(self) -> dict[str, Any]:
        separator = "\t" if self.separator in {"tab", "\\t"} else self.separator
        return {"separator": separator, "encoding": self.encoding}


def _angles(texts: Sequence[str]) -> dict[str, float]:
    angles = {}
    for text in texts:
        name, _, period = text.partition("=")
        angles[name] = _number(period, "--angle theta=360") if period else 2 * math.pi
    return angles


def parse_bounds(text: str) -> tuple[str, tuple[float, float]]:
    form = "--bound valve=0:1"
    name, interval = _pair(text, form)
    low, colon, high = interval.partition(":")
    if not colon:
        raise ArgumentError(f"{text!r} is no interval; write {form}")
    return name, (_number(low, form), _number(high, form))


def _levels(text: str) -> tuple[str, tuple[float, ...]]:
    form = "--levels pump=0,1"
    name, values = _pair(text, form)
    return name, tuple(_number(one, form) for one in values.split(","))


def _pair(text: str, form: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not (name and value):
        raise ArgumentError(f"{text!r} cannot be read; write {form}")
    return name, value


def _number(text: str, form: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"{text!r} is no number; write {form}") from None
