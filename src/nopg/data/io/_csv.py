"""CSV files, as spreadsheets, historians and PLCs write them: the header is the line of the wanted names."""

from __future__ import annotations

import codecs
import csv
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TextIO, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data._checks import Source
from nopg.data._transitions import Transitions
from nopg.data.io._cells import Array, CellFormat, listed, number_column
from nopg.data.io._clock import TIME_UNITS
from nopg.data.io._files import Paths, find_files, source_name
from nopg.data.io._roles import Columns, Roles, named_in, resolve_columns, split_arguments
from nopg.data.io._tables import Counts, Table, record, take_from, to_dataframe
from nopg.data.io._transitions import to_transitions
from nopg.errors import ArgumentError, DataError

_log = logging.getLogger(__name__)

CSV_SUFFIXES = (".csv", ".tsv")
_SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# The header and what follows it is found in the first lines; a wide table needs few of them.
_SAMPLE_LINES, _SAMPLE = 200, 1 << 22
# Characters that are read at once.
_BLOCK = 1 << 18
# Left to `number_column`: words that pandas would read as numbers without a count.
_SWITCHES = ("rue", "RUE", "alse", "ALSE")
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
    given, settings = split_arguments(columns, Columns)
    files = find_files(path, CSV_SUFFIXES)
    headers = [Header.of(file, named_in(given), separator, encoding) for file in files]
    roles = resolve_columns([name for name in headers[0].names if name], str(files[0]), **given)
    _check_names(headers, roles)
    parts = [header.read(roles, decimal) for header in headers]
    units: dict[str, tuple[str, Path]] = {}
    for part in parts:
        for name, unit in part.units.items():
            known, file = units.setdefault(name, (unit, part.header.file))
            if known != unit:
                where = f"{part.header.file} has {name!r} in {unit!r}, {file} in {known!r}"
                raise DataError(f"{where}; convert it first")
    found = {name: unit for name, (unit, _) in units.items()}
    settings["units"] = {**found, **(settings.get("units") or {})}
    lines = tuple((str(part.header.file), part.lines) for part in parts)
    table = {name: np.concatenate([part.table.pop(name) for part in parts]) for name in roles.needed}
    recording = record(
        take_from(table, roles),
        roles,
        Source(source_name(path, files), lines),
        file_starts=tuple(np.cumsum([len(numbers) for _, numbers in lines])[:-1].tolist()),
        counts=sum((part.counts for part in parts), Counter()),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )
    return to_transitions(recording, **settings)


def write_csv(data: Transitions, path: str | os.PathLike[str]) -> None:
    """Write the columns of `to_dataframe` with 17 digits, so that every float is read back to the bit."""
    to_dataframe(data).to_csv(path, index=False, float_format="%.17g")


def first_rows(
    path: Paths, *, separator: str | None = None, encoding: str | None = None
) -> tuple[tuple[str, ...], tuple[Sequence[str], ...]]:
    """Return the names of the columns and the first rows of a CSV file, of the first if there are several.

    Lines before the names may be padded with separators: the names are the first line that is full.
    """
    file = find_files(path, CSV_SUFFIXES)[0]
    header = Header.of(file, (), separator, encoding)
    full = max(
        ([name for cell in row if (name := _name(cell))] for row in header.sample), key=len, default=[]
    )
    if len(full) > sum(map(bool, header.names)) and not any(map(_PLAIN.is_number, full)):
        header = Header.of(file, [(name,) for name in full], separator, encoding)
    return header.names, header.sample


@dataclass(frozen=True, slots=True)
class Header:
    """What the first lines of a file say.

    Attributes:
        file: The file.
        encoding: Its encoding.
        separator: The character between two fields.
        names: Names of the columns; "" for a column without one.
        line: The line in which the names end.
        sample: The first rows after the names.
        notes: What was found.
    """

    file: Path
    encoding: str
    separator: str
    names: tuple[str, ...]
    line: int
    sample: tuple[Sequence[str], ...]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, file: Path, wanted: Sequence[tuple[str, ...]], separator: str | None, encoding: str | None
    ) -> Header:
        """Return the header of a file: the row with most of the wanted names, each one of several.

        If it has none of them, it is the first row of the separator that cuts most rows alike.
        """
        if separator is not None and len(separator) != 1:
            raise ArgumentError(f"the separator is {separator!r}; give one character, e.g. ';'")
        code, notes = _find_encoding(file, encoding)
        with file.open(encoding=code, newline="") as stream:
            sample = "".join(islice(stream, _SAMPLE_LINES))[:_SAMPLE]
        if not sample.strip():
            raise DataError(f"{file} has no line with names of columns; write them into the first line")
        options = {name for names in wanted for name in names}
        marks = _SEPARATORS if separator is None else [separator]
        shapes = [shape for mark in marks if (shape := _shape(sample, mark, options)) is not None]
        if separator is None:
            shapes = sorted((one for one in shapes if len(one.rows[one.place][1]) > 1), reverse=True)
        if not shapes:
            raise DataError(
                f"{file}: no separator is found in {sample.split()[0][:60]!r}; tried ',' ';' tab and '|'. "
                "Name the separator"
            )
        best = shapes[0]
        if any(one[:3] == best[:3] for one in shapes[1:]):
            either = " or ".join(_SEPARATORS[one.mark] for one in shapes[:2])
            raise DataError(f"{file}: the separator may be {either}; name the separator")
        line, cells = best.rows[best.place]
        names = tuple(map(_name, cells))
        if not best.named and all(_PLAIN.is_number(name) or not name for name in names):
            raise DataError(f"{file}: the first line holds numbers ({listed(names)}); write the names there")
        if best.place:
            s = "" if best.place == 1 else "s"
            notes += (f"{best.place} line{s} before the names of the columns skipped",)
        if unnamed := [str(k + 1) for k, name in enumerate(names) if not name]:
            notes += (f"columns without a name are not read: number {listed(unnamed)}",)
        after = tuple(row for _, row in best.rows[best.place + 1 :])
        return cls(file, code, best.mark, names, line, after, notes)

    def read(self, roles: Roles, decimal: str | None) -> _Part:
        """Return the needed columns."""
        cells = replace(
            roles.cells,
            decimal=decimal or self._decimal([self.names.index(name) for name in roles.numbers]),
        )
        units, notes, trailing = self._units(roles, cells), self.notes, False
        blocks: dict[str, list[Array]] = {name: [] for name in roles.needed}
        lines: list[Array] = []
        with self.file.open(encoding=self.encoding, newline="") as stream:
            line = sum(1 for _ in islice(stream, self.line))
            if units is not None:
                line += next(_rows(stream, self.separator))[0]
            for table, numbers, ended in self._blocks(stream, line, roles, cells):
                lines.append(numbers)
                trailing |= ended
                for name, column in table.items():
                    blocks[name].append(column)
        if (self.separator, cells.decimal) != (",", "."):
            notes += (f"separator {self.separator!r}, decimal mark {cells.decimal!r}",)
        if trailing:
            notes += ("the separator at the end of every row is skipped",)
        if units is not None:
            shown = ", ".join(f"{name} in {unit}" for name, unit in units.items())
            notes += (f"the line after the names is taken as units: {shown or 'none'}",)
        for note in notes:
            _log.info("%s: %s", self.file, note)
        if not lines:
            raise DataError(f"{self.file}: there are no rows after the header; write at least two")
        source = Source(str(self.file), ((str(self.file), np.concatenate(lines)),))
        counts, found = Counter[tuple[str, str]](), Table()
        for name in roles.needed:
            found[name] = np.concatenate(blocks.pop(name))
            if name in roles.numbers:
                found[name], words = number_column(found[name], name, source, cells)
                counts.update({(name, what): count for what, count in words.items()})
            elif name != roles.time or cells.time_format is None:
                found[name] = _plain(found[name])
        dated = roles.time is None or found[roles.time].dtype.kind not in "iuf"
        own = roles.units_of(units or {}, () if dated else TIME_UNITS)
        return _Part(self, found, source.lines[0][1], counts, own, notes)

    def _blocks(
        self, stream: TextIO, line: int, roles: Roles, cells: CellFormat
    ) -> Iterator[tuple[Table, Array, bool]]:
        """Yield the needed columns of some rows, the lines of these, and whether a separator ends any."""
        places, fields = {name: self.names.index(name) for name in roles.needed}, len(self.names)
        while block := stream.readlines(_BLOCK):
            text, rows = "".join(block), list[tuple[int, list[str]]]()
            if '"' in text:
                rows = self._split(block, stream)
                plain = len(rows) == len(block) == rows[-1][0] and {len(row) for _, row in rows} == {fields}
            else:
                plain = {one.count(self.separator) for one in block} == {fields - 1}
            table = self._parsed(text, places, roles, cells) if plain else None
            if table is not None:
                yield table, np.arange(line + 1, line + len(block) + 1), False
                line += len(block)
            elif rows := rows or self._split(block, stream):
                trailing = [self._check(row, line + end) for end, row in rows]
                table = {
                    name: np.array([row[k] for _, row in rows], dtype=object) for name, k in places.items()
                }
                for name in roles.numbers:  # numbers take less memory than their texts
                    with suppress(ValueError):
                        table[name] = np.array([cells.number(text) for text in table[name]])
                yield table, np.array([line + end for end, _ in rows]), any(trailing)
                line += max(len(block), rows[-1][0])
            else:
                line += len(block)

    def _split(self, block: Sequence[str], stream: TextIO) -> list[tuple[int, list[str]]]:
        """Return the rows of lines, each with the line in which it ends; the last may go on in the stream."""
        found = []
        for end, row in _rows(chain(block, stream), self.separator, self.file):
            found.append((end, row))
            if end >= len(block):
                break
        return found

    def _parsed(self, text: str, places: Mapping[str, int], roles: Roles, cells: CellFormat) -> Table | None:
        """Return the needed columns of rows of one line each, if the cells of numbers hold nothing else."""
        import pandas as pd

        if any(one in text for one in _SWITCHES):
            return None
        kinds = dict.fromkeys(places.values(), object) | {places[name]: np.float64 for name in roles.numbers}
        try:
            frame = pd.read_csv(
                StringIO(text),
                sep=self.separator,
                decimal=cells.decimal,
                header=None,
                usecols=list(kinds),
                dtype=kinds,
                na_filter=False,
                skip_blank_lines=False,
                float_precision=None if pd.__version__ >= "3.1" else "round_trip",
            )
        except ValueError:
            return None
        return {name: frame[place].to_numpy() for name, place in places.items()}

    def _check(self, row: Sequence[str], line: int) -> bool:
        """Refuse a row with another number of fields; say whether a separator ends it."""
        count = len(self.names)
        if len(row) != count and (len(row) != count + 1 or row[-1].strip()):
            raise DataError(
                f"{self.file}: the header has {count} fields, line {line} has {len(row)}; repair it (is "
                f"{self.separator!r} the separator?)"
            )
        return len(row) > count

    def _decimal(self, places: Sequence[int]) -> str:
        """Return the decimal mark of columns of numbers, or refuse a file that does not show it."""
        found = [row[k].strip() for row in self.sample for k in places if k < len(row)]
        commas = [one for one in found if _COMMA.fullmatch(one)]
        dots = [one for one in found if _DOT.fullmatch(one)]
        if commas and dots:
            both = f"',' as in {commas[0]!r} or '.' as in {dots[0]!r}"
            raise DataError(f"{self.file}: the decimal mark may be {both}; name the decimal mark")
        if commas and all(_MAYBE_THOUSANDS.fullmatch(one) for one in commas):
            either = "may have a decimal or a thousands comma"
            raise DataError(f"{self.file}: {commas[0]!r} {either}; name the decimal mark")
        return "," if commas else "."

    def _units(self, roles: Roles, cells: CellFormat) -> dict[str, str] | None:
        """Return the units of needed columns if the line after the names holds units, else None.

        In a line of units no cell is a number, a date or a word for a missing value other than a dash, each
        is short, and numbers follow in every column of numbers.
        """
        if len(self.sample) < 2:
            return None
        units, below = [cell.strip() for cell in self.sample[0]], self.sample[1:]
        named = [unit for unit in units if unit.strip("-")]
        if not named or any(
            cells.is_missing(unit)
            or cells.is_number(unit)
            or len(unit) > _LONGEST_UNIT
            or _DATE_OR_NUMBER.search(unit)
            for unit in named
        ):
            return None
        for name in roles.numbers:
            k = self.names.index(name)
            following = (row[k] for row in below if k < len(row) and not cells.is_missing(row[k]))
            if not cells.is_number(next(following, "")):
                return None
        found = {name: unit.strip("[]() ") for name, unit in zip(self.names, units, strict=False)}
        return {name: found[name] for name in roles.needed if found.get(name, "").strip("-")}


@dataclass(frozen=True, slots=True)
class _Part:
    """The needed columns of one file, numbers as float64, with the lines of the rows and what was found."""

    header: Header
    table: Table
    lines: npt.NDArray[np.int64]
    counts: Counts
    units: Mapping[str, str]
    notes: tuple[str, ...]


def _find_encoding(file: Path, encoding: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the encoding of a file: that of its mark, else UTF-8, else cp1252 with a note."""
    fault = ""
    with file.open("rb") as stream:
        start = stream.read(4)
    marked = [name for mark, name in _MARKS if start.startswith(mark)]
    codes = [encoding] if encoding else marked or ["utf-8", "cp1252"]
    for code in codes:
        try:
            found = _fault(file, code)
        except LookupError:
            raise ArgumentError(f"the encoding is {code!r}; give a known one, e.g. cp1252") from None
        if not found:
            why = f", as it is not UTF-8 ({fault})" if fault else ""
            told = encoding is None and code not in ("utf-8", "utf-8-sig")
            return code, (f"encoding {code}{why}",) if told else ()
        fault = fault or found
    tried = " nor in ".join(codes)
    raise DataError(f"{file} is not text in {tried} ({fault}); name its encoding, or save it again as UTF-8")


def _fault(file: Path, code: str) -> str:
    """Return the first byte that is none of an encoding in words, "" if there is none."""
    line = 0
    try:
        with file.open(encoding=code, newline="\n") as stream:
            for line, text in enumerate(stream, 1):
                if "\0" in text:
                    return f"NUL byte in line {line}: cut off while it was written, or utf-16-le unmarked"
    except UnicodeDecodeError as error:
        line += error.object[: error.start].count(b"\n") + 1
        return f"byte 0x{error.object[error.start]:02x} in line {line}"
    return ""


def _rows(lines: Iterable[str], separator: str, file: Path | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with the line in which it ends."""
    reader = csv.reader(lines, delimiter=separator)
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"{file} is not a table of text ({error}); export it again") from error


class _Shape(NamedTuple):
    """Rows that a separator cuts, and which of them is the header, ordered by how well it suits."""

    named: int
    agreement: float
    before: int
    mark: str
    place: int
    rows: list[tuple[int, list[str]]]


def _shape(sample: str, mark: str, options: set[str]) -> _Shape | None:
    """Return the rows of a sample and their header; None where a separator gives none."""
    try:
        rows = [
            (line, row)
            for line, row in _rows(StringIO(sample, newline=""), mark)
            if any(cell.strip() for cell in row)
        ]
    except DataError:
        return None
    widths = Counter(len(row) for _, row in rows)
    usual = max((width for width in widths if width > 1), key=lambda width: widths[width], default=1)
    place = next(k for k, (_, row) in enumerate(rows) if len(row) == usual or usual == 1)
    # The usual number of fields may be that of the rows alone: names are no numbers.
    while place > 0 and any(map(_PLAIN.is_number, rows[place][1])):
        place -= 1
    named = [len(options.intersection(map(_name, row))) for _, row in rows] if options else [0]
    if max(named):
        place = named.index(max(named))
    width, after = len(rows[place][1]), rows[place + 1 :]
    agreement = sum(width <= len(row) <= width + 1 for _, row in after) / max(len(after), 1)
    return _Shape(max(named), agreement, -place, mark, place, rows)


def _name(cell: str) -> str:
    """Return a name in one line: spreadsheets break those of columns."""
    return re.sub(r"\s*[\r\n]+\s*", " ", cell.strip())


def _plain(texts: Array) -> Array:
    """Return a column of flags, episodes or times: whole numbers or numbers if all cells hold some."""
    for kind in (int, float):
        with suppress(ValueError, OverflowError):
            found = np.array([kind(text) for text in texts])
            if found.dtype.kind in "iuf" and not np.isnan(found).any():
                return found
    return np.array([text.strip() for text in texts], dtype=object)


def _check_names(headers: Sequence[Header], roles: Roles) -> None:
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
