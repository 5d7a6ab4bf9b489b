"""`nopg init`: a file of settings with guessed roles and units, for the user to correct."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from nopg.cli._log import kind_of
from nopg.cli._screen import note, print_rows
from nopg.cli._settings import TEMPLATE, Overwrite, argument, check_writable, option
from nopg.errors import ArgumentError, DataError

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


def init(
    data: Annotated[list[str], argument("DATA...", "The files of a log.")],
    *,
    out: Annotated[Path, option("The file of settings.", "--out", "-o", default=True)] = Path("nopg.toml"),
    overwrite: Overwrite = False,
) -> None:
    """Guess the columns of a log, and write a file of settings to correct.

    Example: `nopg init tank.csv`, then `nopg describe --config nopg.toml`, `nopg fit --config nopg.toml`
    """
    check_writable(out, overwrite=overwrite)
    columns = read_columns(data)
    guessed = guess(columns)
    name = Path(data[0]).stem.strip("*?-_ ") or "controller"
    out.write_text(filled(guessed | {"data": data, "out": name, "discount": 0.97}), encoding="utf-8")
    shown = {name: _toml(value) for name, value in guessed.items()}
    left = [header for header in columns if not any(header in text for text in shown.values())]
    print_rows(shown | {"left out": ", ".join(left) or "none"})
    for role in ("states", "actions"):
        if role not in guessed:
            note(f"no column looks like one of the {role}; name them in {out}")
    if not {"cost", "reward"} & {*guessed}:
        note(f"no cost is given; name one in {out}")
    note(f"written: {out}; correct it, then nopg describe --config {out}")


def read_columns(data: Sequence[str]) -> dict[str, list[str]]:
    """Return the cells of the first rows of a log as text by column, without empty ones."""
    from nopg.data.io._csv import first_header
    from nopg.data.io._files import extra, find_files

    kind = kind_of(data)
    if kind == "minari":
        raise ArgumentError("a Minari dataset names its columns itself; it needs no file")
    if kind == "csv":
        header = first_header(list(data))
        names, rows = header.names, [row for _, row in header.sample]
    else:
        file = find_files(list(data), (".parquet", ".pq"))[0]
        try:
            frame = next(extra("pyarrow.parquet").ParquetFile(file).iter_batches(_ROWS)).to_pandas()
        except (OSError, ValueError, StopIteration) as error:  # of Arrow
            raise DataError(f"{file} cannot be read, or has no rows ({error})") from error
        names, rows = tuple(map(str, frame.columns)), frame.astype(str).to_numpy().tolist()
    cells = [[row[k].strip() for row in rows[:_ROWS] if k < len(row)] for k in range(len(names))]
    return {name: [one for one in cells[k] if one] for k, name in enumerate(names) if name}


def guess(columns: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return roles and units by the names of the columns and their first rows.

    Example:
        >>> guess({"T.PV [°C]": ["1", "2"], "goal": ["3", "3"], "valve": ["0", "1"]})
        {'states': ['T_PV=T.PV [°C]'], 'exogenous': ['goal'], 'actions': ['valve'],
        'cost': '(T_PV - goal)**2', 'units': {'T_PV': '°C'}}
    """
    lists: dict[str, list[str]] = {"states": [], "exogenous": [], "actions": []}
    found: dict[str, Any] = {}
    for header, cells in columns.items():
        role = _role(header, cells)
        if role not in lists:
            found.setdefault(role, header)
            continue
        numbers = sum(_NUMBER.fullmatch(one) is not None for one in cells)
        if 2 * numbers > len(cells) and (role == "exogenous" or len({*cells}) > 1):
            lists[role].append(header)
    names = {header: _name_and_unit(header) for one in lists.values() for header in one}
    listed = {header: name if name == header else f"{name}={header}" for header, (name, _) in names.items()}
    goals = lists["exogenous"]
    roles: dict[str, Any] = {
        "states": [listed[one] for one in (*lists["states"], *(one for one in goals if listed[one] != one))],
        "exogenous": [names[one][0] for one in goals],
        "actions": [listed[one] for one in lists["actions"]],
    }
    if goals and lists["states"] and not {"cost", "reward"} & {*found}:
        goal, outputs = names[goals[0]][0], [names[one][0] for one in lists["states"]]
        output = next((one for one in outputs if one[:4] == goal[:4]), outputs[0])
        found["cost"] = f"({output} - {goal})**2"
    found["units"] = {name: unit for name, unit in names.values() if unit}
    return {name: value for name, value in (roles | found).items() if value}


def _role(header: str, cells: Sequence[str]) -> str:
    if header == "t" or (cells and all(_DATE.fullmatch(cell) for cell in cells[1:])):
        return "time"
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", _name_and_unit(header)[0])
    words = {*re.findall(r"[a-z]+", spaced.lower())}
    return next((role for role, known in _WORDS.items() if not words.isdisjoint(known.split())), "states")


def _name_and_unit(header: str) -> tuple[str, str]:
    """Return a name that is fit for a formula, and the unit in brackets after it."""
    found = _UNIT.match(header)
    name, unit = (found[1], found[2].strip()) if found else (header, "")
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return word if word.isidentifier() else f"c_{word}", unit


def filled(found: Mapping[str, Any]) -> str:
    """Return the file of settings with values in place of examples."""
    text = TEMPLATE
    for name, value in found.items():
        line = f"{name} = {_toml(value)}"
        text = re.sub(rf"^#{name} = .*$", line.replace("\\", r"\\"), text, flags=re.MULTILINE)
    return text


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        plain = {name: name.isascii() and name.isidentifier() for name in value}
        return "{" + ", ".join(f"{n if plain[n] else _toml(n)} = {_toml(v)}" for n, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
