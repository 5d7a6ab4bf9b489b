"""CSV files, as spreadsheets, historians and PLCs write them."""

from __future__ import annotations

import csv
import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TextIO, Unpack

import numpy as np

from nopg.data._transitions import Transitions
from nopg.data.io._cells import CellFormat, listed
from nopg.data.io._clock import TIME_UNITS
from nopg.data.io._columns import Counts, Table, record, take_from
from nopg.data.io._dataframe import table_of, to_dataframe
from nopg.data.io._heading import Heading, find_decimal, find_units, read_heading
from nopg.data.io._paths import Paths, find_files, source_name
from nopg.data.io._roles import Columns, Roles, resolve_columns, split_arguments
from nopg.data.io._transitions import to_transitions
from nopg.data.io._values import number_column
from nopg.errors import ArgumentError, DataError

if TYPE_CHECKING:
    import pandas as pd

CSV_SUFFIXES = (".csv", ".tsv")
_log = logging.getLogger(__name__)


def read_csv(
    path: Paths,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    **columns: Unpack[Columns],
) -> Transitions:
    """Read a CSV file or several with names of columns in a line; floats are read to the bit.

    Separator, decimal mark and encoding are found if they are not given, and logged; a file that does not
    show them is refused. Lines before the names are skipped, and a line of units after them is taken as the
    units of the columns; both are noted in `Transitions.repairs`, next to the count of every word that was
    read as a missing value.

    Several files have the same columns, in any order. A new file starts a new episode, unless there is an
    episode or time column.

    Args:
        path: A text file, a glob such as `log-*.csv`, a folder of CSV files, or a list of them. A glob and a
            folder are read in natural order of the names: `log-2.csv` before `log-10.csv`.
        separator: The character between two fields.
        decimal: The decimal mark, "." or ",".
        encoding: Such as "utf-8" or "cp1252".
        columns: As in `from_dataframe`.
    """
    if decimal is not None and decimal not in (".", ","):
        raise ArgumentError(f"decimal is {decimal!r}; give '.' or ','")
    files = find_files(path, CSV_SUFFIXES)
    given, settings = split_arguments(columns, Columns)
    wanted = _asked_for(given)
    headings = [read_heading(file, wanted, separator=separator, encoding=encoding) for file in files]
    _check_names(headings)
    roles = resolve_columns([name for name in headings[0].names if name], str(files[0]), **given)
    parts = [_read_part(heading, roles, decimal) for heading in headings]
    settings["units"] = {**_common_units(parts, headings), **(settings.get("units") or {})}
    lengths = [len(part.table[roles.states[0]]) for part in parts]
    table = {name: np.concatenate([part.table.pop(name) for part in parts]) for name in roles.needed}
    recording = record(
        take_from(table, roles),
        roles,
        source_name(path, files),
        file_starts=tuple(np.cumsum(lengths)[:-1].tolist()),
        counts=sum((part.counts for part in parts), Counter()),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )
    return to_transitions(recording, **settings)


def write_csv(data: Transitions, path: str | os.PathLike[str]) -> None:
    """Write the columns of `to_dataframe` with 17 digits, so that every float is read back to the bit."""
    to_dataframe(data).to_csv(path, index=False, float_format="%.17g")


def column_names(path: Paths, *, separator: str | None = None, encoding: str | None = None) -> list[str]:
    """Return the names of the columns of a CSV file, of the first one if there are several."""
    first = find_files(path, CSV_SUFFIXES)[0]
    return [name for name in read_heading(first, (), separator=separator, encoding=encoding).names if name]


# Roles of columns, several or one.
_LISTS = ("states", "actions", "next_states")
_SINGLE = ("terminated", "truncated", "episode", "time", "weight", "begins")


@dataclass(frozen=True, slots=True)
class _Part:
    """The needed columns of one file, numbers as float64, with what was found in it."""

    table: Table
    counts: Counts
    units: Mapping[str, str]
    notes: tuple[str, ...]


def _asked_for(given: Mapping[str, Any]) -> list[str]:
    """Return the names of columns that the caller has given; a reward may be a formula."""
    names: list[str] = []
    for role in (*_LISTS, *_SINGLE):
        value = given.get(role)
        if isinstance(value, str) and value != "shift":
            names.append(value)
        elif isinstance(value, Sequence):
            names += (name for name in value if isinstance(name, str) and name != "shift")
    return names


def _check_names(headings: Sequence[Heading]) -> None:
    """Refuse files whose columns differ."""
    first = headings[0]
    for other in headings[1:]:
        for here, there in ((first, other), (other, first)):
            if missing := [name for name in here.names if name and name not in there.names]:
                raise DataError(
                    f"{there.file} has no column {missing[0]!r}, which {here.file} has; its columns are "
                    f"{listed(there.names)}. Export the files alike, or read them one by one"
                )


def _common_units(parts: Sequence[_Part], headings: Sequence[Heading]) -> dict[str, str]:
    """Return the units of all files; a column has the same in each."""
    units: dict[str, str] = {}
    origin: dict[str, Heading] = {}
    for part, heading in zip(parts, headings, strict=True):
        for name, unit in part.units.items():
            if units.setdefault(name, unit) != unit:
                first = origin[name].file
                raise DataError(
                    f"{heading.file} has {name!r} in {unit!r}, {first} in {units[name]!r}; convert it first"
                )
            origin.setdefault(name, heading)
    return units


def _read_part(heading: Heading, roles: Roles, decimal: str | None) -> _Part:
    """Return the needed columns of one file."""
    _check_fields(heading)
    mark = decimal or find_decimal(heading, roles.numbers)
    cells = replace(roles.cells, decimal=mark)
    units = find_units(heading, roles.numbers, cells)
    notes = heading.notes
    if (heading.separator, mark) != (",", "."):
        notes += (f"separator {heading.separator!r}, decimal mark {mark!r}",)
    if units is not None:
        shown = ", ".join(f"{name} in {unit}" for name, unit in units.items())
        notes += (f"the line after the names is taken as units: {shown or 'none'}",)
    for note in notes:
        _log.info("%s: %s", heading.file, note)
    frame = _frame(heading, roles, cells, skipped=0 if units is None else 1)
    if len(frame) == 0:
        raise DataError(f"{heading.file}: there are no rows after the header; write at least two")
    return _converted(frame, heading, roles, cells, units=units or {}, notes=notes)


def _converted(
    frame: pd.DataFrame,
    heading: Heading,
    roles: Roles,
    cells: CellFormat,
    *,
    units: Mapping[str, str],
    notes: tuple[str, ...],
) -> _Part:
    table, counts = table_of(frame, roles), Counter[tuple[str, str]]()
    for name in roles.numbers:
        table[name], words = number_column(table[name], name, str(heading.file), cells)
        counts.update({(name, what): count for what, count in words.items()})
    described = {*roles.states, *roles.actions}
    known = {name: unit for name, unit in units.items() if name in described}
    if roles.time is not None and units.get(roles.time) in TIME_UNITS:
        known[roles.time] = units[roles.time]
    if roles.reward is not None and roles.reward in units:
        known["reward"] = units[roles.reward]
    return _Part(table, counts, known, notes)


def _check_fields(heading: Heading) -> None:
    """Refuse a line with another number of fields than the header.

    pandas would fill or cut it without a word where only some columns are read.
    """
    file, count = heading.file, len(heading.names)
    try:
        with file.open(encoding=heading.encoding, newline="") as stream:
            reader = csv.reader(_rows_after(stream, heading.lines), delimiter=heading.separator)
            for fields in reader:
                if heading.trailing and len(fields) == count + 1 and not fields[-1].strip():
                    continue
                if fields and len(fields) != count:
                    raise DataError(
                        f"{file}: the header has {count} fields, line {heading.lines + reader.line_num} has "
                        f"{len(fields)}; repair it (is {heading.separator!r} the separator?)"
                    )
    except csv.Error as error:
        raise DataError(f"{file} is not a table of text ({error}); export it again") from error


def _rows_after(stream: TextIO, lines: int) -> Iterator[str]:
    for _ in range(lines):
        stream.readline()
    return iter(stream)


def _frame(heading: Heading, roles: Roles, cells: CellFormat, *, skipped: int) -> pd.DataFrame:
    """Return the needed columns: numbers as float64 if all are, else as text."""
    import pandas as pd

    # A column without a name still needs one of its own.
    names = [name or f"\0{k}" for k, name in enumerate(heading.names)] + ["\0end"] * heading.trailing
    layout: dict[str, Any] = {
        "sep": heading.separator,
        "decimal": cells.decimal,
        "header": None,
        "names": names,
        "usecols": list(roles.needed),
        "skipinitialspace": True,
        "keep_default_na": False,
        "na_values": [""],
        "low_memory": False,
    }
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        layout["float_precision"] = "round_trip"  # the old parser is off in the last digit
    times: dict[str, str] = {}
    if roles.time is not None and cells.time_format is not None:
        times = {roles.time: "object"}  # 20240331 is text here
    # As float64 from the start: read as a whole number, −0 would lose its sign.
    for kind in ("float64", "object"):
        try:
            with heading.file.open(encoding=heading.encoding, newline="") as stream:
                _rows_after(stream, heading.lines)
                for _ in range(skipped):
                    next(csv.reader(stream, delimiter=heading.separator))
                return pd.read_csv(stream, dtype=dict.fromkeys(roles.numbers, kind) | times, **layout)
        except pd.errors.EmptyDataError:
            return pd.DataFrame({name: [] for name in roles.needed})
        except pd.errors.ParserError as error:
            raise DataError(
                f"{heading.file} is not a table separated by {heading.separator!r} ({error})"
            ) from error
        except ValueError:
            if kind == "object":
                raise
            # A value is no number. Read as text, it can be counted, or named with its row.
    raise AssertionError("every column can be read as text")
