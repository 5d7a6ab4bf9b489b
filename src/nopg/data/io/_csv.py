"""CSV files, as spreadsheets, historians and PLCs write them: the header is the line of the wanted names."""

from __future__ import annotations

import codecs
import csv
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data._checks import Source
from nopg.data._transitions import Transitions
from nopg.data.io._cells import CellFormat, listed, number_column
from nopg.data.io._clock import TIME_UNITS
from nopg.data.io._dataframe import to_dataframe
from nopg.data.io._files import Paths, find_files, source_name
from nopg.data.io._roles import Columns, Roles, named_in, resolve_columns, split_arguments
from nopg.data.io._tables import Counts, Table, plain_values, record, take_from
from nopg.data.io._transitions import to_transitions
from nopg.errors import ArgumentError, DataError

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)

CSV_SUFFIXES = (".csv", ".tsv")
_SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# The header and what follows it is found in the first lines; a wide table needs few of them.
_SAMPLE_LINES, _SAMPLE_CHARACTERS = 200, 1 << 20
_LONGEST_UNIT = 20
_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?")
_DOT = re.compile(r"[+-]?(\d*|\d{1,3}(,\d{3})+)\.\d+([eE][+-]?\d+)?")
_MAYBE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
_DATE_OR_NUMBER = re.compile(r"\d{4}|\d:\d\d|\d[./-]\d")
_PLAIN = CellFormat()


def read_csv(
    path: Paths,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    **columns: Unpack[Columns],
) -> Transitions:
    """Read a CSV file or several; floats are read to the bit.

    The header is the first line that holds the names of the columns that are asked for; lines before it are
    skipped, and a line of units after it gives the units of the columns. Separator, decimal mark and encoding
    are found if they are not given; a file that does not show them is refused. All of that is noted in
    `Transitions.repairs`, next to the count of every word that was read as a missing value. Errors count the
    lines of the file.

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
    if decimal not in (None, ".", ","):
        raise ArgumentError(f"the decimal mark is {decimal!r}; give '.' or ','")
    files = find_files(path, CSV_SUFFIXES)
    given, settings = split_arguments(columns, Columns)
    wanted = named_in(given)
    headers = [_read_header(file, wanted, separator, encoding) for file in files]
    roles = resolve_columns([name for name in headers[0].names if name], str(files[0]), **given)
    _check_names(headers, roles)
    parts = [_read_part(header, roles, decimal) for header in headers]
    settings["units"] = {**_common_units(parts, headers), **(settings.get("units") or {})}
    source = Source(source_name(path, files), tuple(line for part in parts for line in part.source.lines))
    lengths = [len(lines) for _, lines in source.lines]
    table = {name: np.concatenate([part.table.pop(name) for part in parts]) for name in roles.needed}
    recording = record(
        take_from(table, roles),
        roles,
        source,
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
    return [name for name in _read_header(first, (), separator, encoding).names if name]


# The header.


@dataclass(frozen=True, slots=True)
class _Header:
    """What the first lines of a file say.

    Attributes:
        file: The file.
        encoding: Its encoding.
        separator: The character between two fields.
        names: Names of the columns; "" for a column without one.
        end: Number of lines up to and with the names.
        sample: The first rows after the names.
        notes: What was found.
        lines: The line in which each row after the names ends, shape (n,); that of units included.
        width: Number of fields of a row: one more than names where rows end with a separator.
    """

    file: Path
    encoding: str
    separator: str
    names: tuple[str, ...]
    end: int
    sample: tuple[list[str], ...]
    notes: tuple[str, ...]
    lines: npt.NDArray[np.int64]
    width: int


class _Row(NamedTuple):
    """A row that may be the header, ordered by how well it suits."""

    named: int
    agreement: float
    place: int
    separator: str
    rows: list[tuple[int, list[str]]]


def _read_header(
    file: Path, wanted: Sequence[tuple[str, ...]], separator: str | None, encoding: str | None
) -> _Header:
    """Return the header of a file in the first encoding in which all of it can be read.

    Args:
        file: A text file.
        wanted: Columns that the caller has asked for, each by one of several names.
        separator: The separator, if it is known.
        encoding: The encoding, if it is known.
    """
    if separator is not None and len(separator) != 1:
        raise ArgumentError(f"the separator is {separator!r}; give one character, e.g. ';'")
    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError:
        raise ArgumentError(f"the encoding is {encoding!r}; give a known one, e.g. cp1252") from None
    with file.open("rb") as stream:
        start = stream.read(4)
    marked = [name for mark, name in _MARKS if start.startswith(mark)]
    codes, faults = [encoding] if encoding else marked or ["utf-8", "cp1252"], list[str]()
    for code in codes:
        try:
            header = _header_in(file, wanted, separator, code)
        except UnicodeError:
            faults.append(_fault(file, code))
            continue
        note = f"encoding {code}" + (f", as it is not UTF-8 ({faults[0]})" if faults else "")
        noted = code not in {"utf-8", "utf-8-sig"} and encoding is None
        return replace(header, notes=((note,) if noted else ()) + header.notes)
    tried = " nor in ".join(codes)
    raise DataError(
        f"{file} is not text in {tried} ({faults[0]}); name its encoding, or save it again as UTF-8"
    )


def _fault(file: Path, code: str) -> str:
    """Return where a file cannot be decoded."""
    raw = file.read_bytes()
    try:
        raw.decode(code)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        return f"byte 0x{raw[error.start]:02x} in line {line}" if error.start < len(raw) else error.reason
    return "its text"


def _header_in(file: Path, wanted: Sequence[tuple[str, ...]], separator: str | None, code: str) -> _Header:
    """Return the header of a file, after every line of the file was seen."""
    sample, length = list[str](), 0
    with file.open(encoding=code, newline="") as stream:
        for line in _without_nul(stream, file):
            sample.append(line)
            length += len(line)
            if len(sample) >= _SAMPLE_LINES or (length > _SAMPLE_CHARACTERS and len(sample) > 2):
                break
    row = _best_row(file, sample, wanted, separator)
    end, names = row.rows[row.place][0], tuple(_name(cell) for cell in row.rows[row.place][1])
    if not row.named and all(_PLAIN.is_number(name) or not name for name in names):
        raise DataError(f"{file}: the first line holds numbers ({listed(names)}); write the names there")
    notes: tuple[str, ...] = (
        (f"{row.place} lines before the names of the columns are skipped",) if row.place else ()
    )
    if unnamed := [str(k + 1) for k, name in enumerate(names) if not name]:
        notes += (f"columns without a name are not read: number {listed(unnamed)}",)
    lines, trailing = _check_fields(file, code, row.separator, end, len(names))
    if trailing:
        notes += ("the separator at the end of every row is skipped",)
    after = tuple(cells for _, cells in row.rows[row.place + 1 :])
    return _Header(file, code, row.separator, names, end, after, notes, lines, len(names) + trailing)


def _name(cell: str) -> str:
    """Return a name in one line: spreadsheets break those of columns."""
    return re.sub(r"\s*[\r\n]+\s*", " ", cell.strip())


def _best_row(
    file: Path, sample: Sequence[str], wanted: Sequence[tuple[str, ...]], separator: str | None
) -> _Row:
    """Return the row with most of the wanted names, else the first of the separator that cuts most alike."""
    found, options = list[_Row](), {name for names in wanted for name in names}
    for mark in [separator] if separator is not None else _SEPARATORS:
        try:
            reader = csv.reader(sample, delimiter=mark)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
        except csv.Error:
            continue
        widths = Counter(len(row) for _, row in rows)
        if not rows or (separator is None and max(widths) == 1):
            continue
        usual = max((width for width in widths if width > 1), key=lambda one: widths[one], default=1)
        place = next(k for k, (_, row) in enumerate(rows) if len(row) == usual)
        # The usual number of fields may be that of the rows alone: names are no numbers.
        while place > 0 and any(map(_PLAIN.is_number, rows[place][1])):
            place -= 1
        named = [options.intersection(map(_name, row)) for _, row in rows] if options else []
        best = max(range(len(named)), key=lambda k: (len(named[k]), -k), default=place)
        count = len(named[best]) if named else 0
        place = best if count else place
        width, after = len(rows[place][1]), rows[place + 1 :]
        agreement = sum(width <= len(row) <= width + 1 for _, row in after) / max(len(after), 1)
        found.append(_Row(count, agreement, place, mark, rows))
    if not found:
        if not any(line.strip() for line in sample):
            raise DataError(f"{file} has no line with names of columns; write them into the first line")
        raise DataError(
            f"{file}: no separator is found in {sample[0].strip()[:60]!r}; tried ',' ';' tab and '|'. "
            "Name the separator"
        )
    found.sort(key=lambda row: (row.named, row.agreement, -row.place), reverse=True)
    if len(found) > 1 and found[0][:2] == found[1][:2] and found[0].place == found[1].place:
        names = " or ".join(_SEPARATORS[row.separator] for row in found[:2])
        raise DataError(f"{file}: the separator may be {names}; name the separator")
    return found[0]


def _check_fields(
    file: Path, code: str, separator: str, end: int, count: int
) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the line in which each row ends, and whether rows have a separator more than the header.

    A line with another number of fields is refused; pandas would fill or cut it without a word.
    """
    found, trailing = list[int](), False
    with file.open(encoding=code, newline="") as stream:
        try:
            reader = csv.reader(_without_nul(stream, file, skipped=end), delimiter=separator)
            for fields in reader:
                if not fields or (len(fields) == 1 and not fields[0].strip()):
                    continue
                line = end + reader.line_num
                found.append(line)
                if len(fields) == count + 1 and not fields[-1].strip():
                    trailing = True
                elif len(fields) != count:
                    raise DataError(
                        f"{file}: the header has {count} fields, line {line} has {len(fields)}; repair it "
                        f"(is {separator!r} the separator?)"
                    )
        except csv.Error as error:
            raise DataError(f"{file} is not a table of text ({error}); export it again") from error
    return np.array(found, dtype=np.int64), trailing


def _without_nul(stream: TextIO, file: Path, *, skipped: int = 0) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        if "\0" in line:
            raise DataError(
                f"{file} holds a NUL byte in line {number}: it is no text, or was cut off while it was "
                "written, or is UTF-16 without a mark (then name the encoding utf-16-le)"
            )
        if number > skipped:
            yield line


def _check_names(headers: Sequence[_Header], roles: Roles) -> None:
    """Refuse files whose columns differ, and a needed column that a file has twice."""
    first = headers[0]
    for other in headers:
        for here, there in ((first, other), (other, first)):
            known = set(there.names)
            if missing := [name for name in here.names if name and name not in known]:
                raise DataError(
                    f"{there.file} has no column {missing[0]!r}, which {here.file} has; its columns are "
                    f"{listed(there.names)}. Export the files alike, or read them one by one"
                )
        names = Counter(other.names)
        if repeated := [name for name in roles.needed if names[name] > 1]:
            raise DataError(f"{other.file}: columns {repeated} appear twice; rename or drop one of each")


# The rows.


@dataclass(frozen=True, slots=True)
class _Part:
    """The needed columns of one file, numbers as float64, with what was found in it."""

    source: Source
    table: Table
    counts: Counts
    units: Mapping[str, str]
    notes: tuple[str, ...]


def _read_part(header: _Header, roles: Roles, decimal: str | None) -> _Part:
    """Return the needed columns of one file."""
    mark = decimal or _find_decimal(header, roles.numbers)
    cells = replace(roles.cells, decimal=mark)
    units, notes, lines = _find_units(header, roles, cells), header.notes, header.lines
    if (header.separator, mark) != (",", "."):
        notes += (f"separator {header.separator!r}, decimal mark {mark!r}",)
    if units is not None:
        shown = ", ".join(f"{name} in {unit}" for name, unit in units.items())
        notes += (f"the line after the names is taken as units: {shown or 'none'}",)
        lines = lines[1:]
    for note in notes:
        _log.info("%s: %s", header.file, note)
    if len(lines) == 0:
        raise DataError(f"{header.file}: there are no rows after the header; write at least two")
    source = Source(str(header.file), ((str(header.file), lines),))
    frame = _frame(header, roles, cells, skipped=len(header.lines) - len(lines))
    table, counts = {name: plain_values(frame[name]) for name in roles.needed}, Counter[tuple[str, str]]()
    for name in roles.numbers:
        table[name], words = number_column(table[name], name, source, cells)
        counts.update({(name, what): count for what, count in words.items()})
    dated = roles.time is None or table[roles.time].dtype.kind not in "iuf"
    known = roles.units_of(units or {}, () if dated else TIME_UNITS)
    return _Part(source, table, counts, known, notes)


def _frame(header: _Header, roles: Roles, cells: CellFormat, *, skipped: int) -> pd.DataFrame:
    """Return the needed columns: numbers as float64 if all are, else as text."""
    import pandas as pd

    places = {name: header.names.index(name) for name in roles.needed}
    layout: dict[str, Any] = {
        "sep": header.separator,
        "decimal": cells.decimal,
        "header": None,
        "names": range(header.width),
        "usecols": sorted(places.values()),
        "skipinitialspace": True,
        "keep_default_na": False,
        "na_values": [""],
        "low_memory": False,
    }
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        layout["float_precision"] = "round_trip"  # the old parser is off in the last digit
    times: dict[int, str] = {}
    if roles.time is not None and cells.time_format is not None:
        times = {places[roles.time]: "object"}  # 20240331 is text here
    # As float64 from the start: read as a whole number, −0 would lose its sign.
    for kind in ("float64", "object"):
        types = dict.fromkeys((places[name] for name in roles.numbers), kind) | times
        try:
            with header.file.open(encoding=header.encoding, newline="") as stream:
                for _ in range(header.end):
                    stream.readline()
                for _ in range(skipped):
                    next(csv.reader(stream, delimiter=header.separator))
                frame = pd.read_csv(stream, dtype=types, **layout)
        except pd.errors.ParserError as error:
            raise DataError(
                f"{header.file} is not a table separated by {header.separator!r} ({error})"
            ) from error
        except ValueError:
            if kind == "object":
                raise
            # A value is no number. Read as text, it can be counted, or named with its line.
            continue
        return frame.rename(columns={place: name for name, place in places.items()})
    raise AssertionError("every column can be read as text")


def _find_decimal(header: _Header, columns: Sequence[str]) -> str:
    """Return the decimal mark of columns of numbers, or refuse a file that does not show it."""
    places = [header.names.index(name) for name in columns]
    found = [row[k].strip() for row in header.sample for k in places if k < len(row)]
    commas = [one for one in found if _COMMA.fullmatch(one)]
    dots = [one for one in found if _DOT.fullmatch(one)]
    if commas and dots:
        raise DataError(
            f"{header.file}: the decimal mark may be ',' as in {commas[0]!r} or '.' as in {dots[0]!r}; name "
            "the decimal mark"
        )
    if commas and all(_MAYBE_THOUSANDS.fullmatch(one) for one in commas):
        raise DataError(
            f"{header.file}: {commas[0]!r} may have a decimal or a thousands comma; name the decimal mark"
        )
    return "," if commas else "."


def _find_units(header: _Header, roles: Roles, cells: CellFormat) -> dict[str, str] | None:
    """Return the units of needed columns if the line after the names holds units, else None.

    In a line of units no cell is a number, a date or a word for a missing value other than a dash, each is
    short, and numbers follow in every column of numbers.
    """
    if len(header.sample) < 2 or len(header.lines) < 2:
        return None
    units, below = [cell.strip() for cell in header.sample[0]], header.sample[1:]
    if not any(unit.strip("-") for unit in units) or not all(_may_be_unit(unit, cells) for unit in units):
        return None
    places = {name: header.names.index(name) for name in (*roles.numbers, *roles.others)}
    for place in (places[name] for name in roles.numbers):
        following = (row[place] for row in below if place < len(row) and not cells.is_missing(row[place]))
        if not cells.is_number(next(following, "")):
            return None
    found = {name: units[place].strip("[]() ") for name, place in places.items() if place < len(units)}
    return {name: unit for name, unit in found.items() if unit.strip("-")}


def _may_be_unit(text: str, cells: CellFormat) -> bool:
    if not text.strip("-"):
        return True
    if cells.is_missing(text) or cells.is_number(text) or len(text) > _LONGEST_UNIT:
        return False
    return not _DATE_OR_NUMBER.search(text)


def _common_units(parts: Sequence[_Part], headers: Sequence[_Header]) -> dict[str, str]:
    """Return the units of all files; a column has the same in each."""
    units: dict[str, str] = {}
    origin: dict[str, Path] = {}
    for part, header in zip(parts, headers, strict=True):
        for name, unit in part.units.items():
            if units.setdefault(name, unit) != unit:
                raise DataError(
                    f"{header.file} has {name!r} in {unit!r}, {origin[name]} in {units[name]!r}; convert it "
                    "first"
                )
            origin.setdefault(name, header.file)
    return units
