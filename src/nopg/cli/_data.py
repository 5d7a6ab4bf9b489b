"""The options that say which columns of a file are what."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nopg.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from nopg.data import Transitions

__all__ = ["DataOptions", "parse_bounds"]


def _column(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Columns")


def _detail(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Details of the columns and of the file")


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take options from a TOML file; those on the command line take precedence."""
    if path is None:
        return None
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read as TOML ({error})") from None
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
        str,
        typer.Argument(
            metavar="DATA",
            help="A CSV, Parquet, HDF5 or NPZ file, a folder of Parquet files, or `minari:ID`.",
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
    separator: Annotated[str, _detail("Field separator of a CSV file.")] = ","
    decimal: Annotated[str, _detail("Decimal mark of a CSV file.")] = "."
    drop_invalid: Annotated[
        bool, _detail("Drop rows with NaN or infinite values instead of refusing them.", "--drop-invalid")
    ] = False
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

    def read(self, *, needs_reward: bool = True) -> Transitions:
        """Return the transitions of the file or of the Minari dataset.

        Args:
            needs_reward: Whether a file without a reward is refused if neither reward nor cost are given;
                else the reward is the formula `NO_REWARD`.
        """
        if self.reward is not None and self.cost is not None:
            raise ArgumentError("a reward and a cost are given; name one of them")
        roles = {
            "states": list(self.state or []),
            "actions": list(self.action or []),
            "reward": self.reward or self.cost,
            "next_states": list(self.next_state or []),
            "terminated": self.terminated,
            "truncated": self.truncated,
            "episode": self.episode,
            "time": self.time,
        }
        settings: dict[str, Any] = {
            "angles": _angles(self.angle or []),
            "units": dict(_pair(text, "--unit level=m") for text in self.unit or []),
            "bounds": dict(parse_bounds(text) for text in self.bound or []),
            "levels": dict(_levels(text) for text in self.levels or []),
            "invalid": "drop" if self.drop_invalid else "raise",
        }
        data = self._read(
            {name: value for name, value in roles.items() if value},
            {name: value for name, value in settings.items() if value},
            needs_reward=needs_reward,
        )
        if self.cost is None:
            return data
        formula = data.schema.reward
        return replace(data, rewards=-data.rewards) if formula is None else data.with_reward(f"-({formula})")

    def _read(self, roles: dict[str, Any], settings: dict[str, Any], *, needs_reward: bool) -> Transitions:
        from nopg.data import io

        if self.data.startswith("minari:"):
            if roles:
                raise ArgumentError(
                    f"a Minari dataset names its columns itself; leave {', '.join(roles)} out"
                )
            return io.read_minari(self.data.removeprefix("minari:"), **settings)
        path = Path(self.data)
        suffix = path.suffix.lower()
        if not needs_reward:
            roles = {"reward": False} | roles
        if suffix in {".parquet", ".pq"} or path.is_dir():
            return io.read_parquet(path, **roles, **settings)
        if suffix in {".h5", ".hdf5"}:
            return io.read_hdf5(path, **_keys(roles), **settings)
        if suffix == ".npz":
            return io.read_npz(path, **_keys(roles), **settings)
        if not path.exists():
            raise DataError(f"there is no file {path}; give a CSV, Parquet, HDF5 or NPZ file, or minari:ID")
        if missing := [name for name in ("states", "actions", "reward") if name not in roles]:
            options = {"states": "--state", "actions": "--action", "reward": "--reward or --cost"}
            raise ArgumentError(
                f"{path} has columns {_header(path, self.separator)}; say which are which with "
                + ", ".join(options[name] for name in missing)
            )
        return io.read_csv(path, separator=self.separator, decimal=self.decimal, **roles, **settings)


def _keys(roles: dict[str, Any]) -> dict[str, Any]:
    """Return roles as the readers of arrays take them: one key alone may be that of a matrix."""
    return {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value
        for name, value in roles.items()
    }


def _header(path: Path, separator: str) -> str:
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        return ", ".join(name.strip() for name in lines.readline().split(separator))


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
