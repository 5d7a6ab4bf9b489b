"""`nopg init`: a file of settings with guessed roles and units, for the user to correct."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from nopg.cli._log import frame_of, kind_of
from nopg.cli._screen import note, print_rows
from nopg.cli._settings import TEMPLATE, Overwrite, argument, check_target, option
from nopg.errors import ArgumentError

_ROWS = 200
_UNIT = re.compile(r"^(.*?)\s*[\[(]([^\])]*)[\])]\s*$")
_NUMBER = re.compile(r"[+-]?[\d.,]+([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}.*|\d{1,2}:\d\d.*")
_WORDS = {
    "time": "time timestamp stamp datetime date zeit zeitstempel datum",
    "episode": "episode run batch trial charge lauf",
    "terminated": "terminated terminal failed",
    "truncated": "truncated timeout",
    "reward": "reward",
    "cost": "cost costs kosten",
    "exogenous": "sp setpoint set goal target reference ref soll sollwert",
    "actions": "u op mv co cmd command action act valve ventil pump pumpe heater heating heizung fan "
    "voltage torque force throttle stellgroesse inflow",
}


class Column(NamedTuple):
    """A column of the first rows.

    Attributes:
        header: Its name in the file.
        cells: Its cells as text, without empty ones.
    """

    header: str
    cells: Sequence[str]

    @property
    def name(self) -> str:
        """A name without unit, fit for a formula."""
        found = _UNIT.match(self.header)
        word = re.sub(r"\W+", "_", found[1] if found else self.header, flags=re.ASCII).strip("_")
        return word if word.isidentifier() else f"c_{word}"

    @property
    def unit(self) -> str:
        """The unit in brackets after the name."""
        found = _UNIT.match(self.header)
        return found[2].strip() if found else ""

    @property
    def is_number(self) -> bool:
        """Whether most cells are numbers."""
        numbers = sum(_NUMBER.fullmatch(one) is not None for one in self.cells)
        return 2 * numbers > len(self.cells)

    def is_a(self, role: str) -> bool:
        """Return whether the name says that the column has a role."""
        words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", self.name).lower())
        if self.header == "t":
            return role == "time"
        return not {*words}.isdisjoint(_WORDS[role].split())


def init(
    data: Annotated[list[str], argument("DATA...", "The files of a log.")],
    *,
    out: Annotated[Path, option("The file of settings.", "--out", "-o", default=True)] = Path("nopg.toml"),
    sql: Annotated[str | None, option("Query of a database.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a file of settings for a log, for you to correct.

    Roles of the columns and their units are guessed.

    Example: `nopg init tank.csv`, then `nopg describe --config nopg.toml`, `nopg fit --config nopg.toml`
    """
    check_target(out, overwrite=overwrite)
    columns = read_columns(data, sql)
    guessed = guess(columns)
    found = guessed | {"data": data} | ({"sql": sql} if sql else {})
    found |= {"out": Path(data[0]).stem.strip("*?-_ ") or "controller", "discount": 0.97}
    out.write_text(filled(found), encoding="utf-8")
    shown = ("states", "exogenous", "actions", "cost", "reward", "time", "episode", "units")
    named = _toml(guessed)
    rows = {name: _toml(found[name]) for name in shown if name in found}
    print_rows(
        rows | {"left out": ", ".join(one.header for one in columns if one.header not in named) or "none"}
    )
    for name in ("states", "actions"):
        if not found.get(name):
            note(f"no column looks like one of the {name}; name them in {out}")
    if not {"cost", "reward"} & {*found}:
        note(f"what is to be small? Say it as cost in {out}")
    note(f"written: {out}; correct it, then nopg describe --config {out}")


def read_columns(data: Sequence[str], sql: str | None) -> list[Column]:
    """Return the columns of the first rows of a log, as text."""
    kind = kind_of(data, sql=sql)
    if kind == "minari":
        raise ArgumentError("a Minari dataset names its columns itself; it needs no file")
    from nopg.data.io._csv import first_rows
    from nopg.data.io._files import find_files

    if kind == "csv":
        names, rows = first_rows(list(data))
    else:
        frame = frame_of(str(find_files(list(data), (".parquet", ".pq"))[0]), sheet=None, sql=sql)
        names, rows = tuple(map(str, frame.columns)), frame.head(_ROWS).astype(str).to_numpy().tolist()
    cells = ([row[k].strip() for row in rows[:_ROWS] if k < len(row)] for k in range(len(names)))
    return [Column(name, [one for one in of if one]) for name, of in zip(names, cells, strict=True) if name]


def guess(columns: Sequence[Column]) -> dict[str, Any]:
    """Return roles and units by the names of the columns and their first rows.

    Example:
        >>> guess([Column("T.PV [°C]", ["1", "2"]), Column("goal", ["3", "3"]), Column("valve", ["0", "1"])])
        {'states': ['T_PV=T.PV [°C]'], 'exogenous': ['goal'], 'actions': ['valve'],
        'cost': '(T_PV - goal)**2', 'units': {'T_PV': '°C'}}
    """
    found: dict[str, Any] = {"states": [], "exogenous": [], "actions": []}
    for one in columns:
        dates = bool(one.cells) and all(_DATE.fullmatch(cell) for cell in one.cells[1:])
        roles = [role for role in _WORDS if one.is_a(role)]
        role = "time" if dates else roles[0] if roles else "states"
        if role not in found or not isinstance(found[role], list):
            found.setdefault(role, one.header)
        elif one.is_number and (role == "exogenous" or len({*one.cells}) > 1):
            found[role].append(one)
    states, goals, actions = found["states"], found["exogenous"], found["actions"]
    units = {one.name: one.unit for one in (*states, *goals, *actions) if one.unit}
    found["states"] = [_listed(one) for one in (*states, *(one for one in goals if one.name != one.header))]
    found |= {"exogenous": [one.name for one in goals], "actions": [_listed(one) for one in actions]}
    if goals and states and not {"cost", "reward"} & {*found}:
        kin = [one for one in states if one.name[:4] == goals[0].name[:4]] or states
        found["cost"] = f"({kin[0].name} - {goals[0].name})**2"
    return {name: value for name, value in found.items() if value} | ({"units": units} if units else {})


def filled(found: Mapping[str, Any]) -> str:
    """Return the file of settings with values in place of examples."""
    text = TEMPLATE
    for name, value in found.items():
        line = f"{name} = {_toml(value)}"
        text = re.sub(rf"^#{name} = .*$", line.replace("\\", r"\\"), text, flags=re.MULTILINE)
    return text


def _listed(column: Column) -> str:
    return column.name if column.name == column.header else f"{column.name}={column.header}"


def _toml(value: Any) -> str:
    """Return a value in TOML."""
    if isinstance(value, Mapping):
        plain = {name: name.isascii() and name.isidentifier() for name in value}
        return "{" + ", ".join(f"{n if plain[n] else _toml(n)} = {_toml(v)}" for n, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
