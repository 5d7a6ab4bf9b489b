"""CSV files, as spreadsheets, historians and PLCs write them: the header is the line of the wanted names."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import StringIO
from itertools import dropwhile, islice
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np

from nopg.data._checks import Source
from nopg.data._transitions import Transitions
from nopg.data.io._cells import Array, CellFormat, listed
from nopg.data.io._clock import TIME_UNITS
from nopg.data.io._files import Paths, find_files, source_name
from nopg.data.io._roles import Columns, Roles, named_in, resolve_columns, split_arguments
from nopg.data.io._tables import record, take_from
from nopg.data.io._transitions import to_transitions
from nopg.errors import ArgumentError, DataError

CSV_SUFFIXES = (".csv", ".tsv")
_SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# The header and what follows it is found in the first lines; a wide table needs few of them.
_SAMPLE_LINES, _SAMPLE = 200, 1 << 22
# Rows whose texts are in memory at once.
_BLOCK = 1 << 14
_LONGEST_UNIT = 20
_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?")
_DOT = re.compile(r"[+-]?(\d*|\d{1,3}(,\d{3})+)\.\d+([eE][+-]?\d+)?")
_MAYBE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
_DATE_OR_NUMBER = re.compile(r"\d{4}|\d:\d\d|\d[./-]\d")
# What no plain number holds, by decimal mark.
_NO_NUMBER = {mark: re.compile(rf"[^0-9eE+\-\s{mark}]") for mark in ".,"}
_PLAIN = CellFormat()

Row = tuple[int, list[str]]
"""The cells of a row, and the line in which it ends."""


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

    Several files have one separator, one decimal mark and the same columns, in any order. A new file starts a
    new episode, unless there is an episode or time column.

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
    files, headers = find_files(path, CSV_SUFFIXES), list[Header]()
    for file in files:
        headers.append(Header.of(file, named_in(given), separator, encoding))
        separator = headers[0].separator
    roles = resolve_columns([name for name in headers[0].names if name], str(files[0]), **given)
    _check_names(headers, roles)
    roles = replace(roles, cells=replace(roles.cells, decimal=decimal or _decimal(headers, roles)))
    blocks: dict[str, list[Array]] = {name: [] for name in roles.needed}
    lines, notes, units = list[tuple[str, Array]](), list[str](), dict[str, tuple[str, Path]]()
    for header in headers:
        own, numbers, noted = header.read(roles, blocks)
        lines.append((str(header.file), numbers))
        notes += noted
        for name, unit in own.items():
            known, where = units.setdefault(name, (unit, header.file))
            if known != unit:
                both = f"{header.file} has {name!r} in {unit!r}, {where} in {known!r}"
                raise DataError(f"{both}; convert it first")
    table = {name: np.concatenate(blocks.pop(name)) for name in roles.needed}
    for name in {*roles.others} - {*roles.numbers}:
        if name != roles.time or roles.cells.time_format is None:
            table[name] = _plain(table[name])
    dated = roles.time is None or table[roles.time].dtype.kind not in "iuf"
    found = roles.units_of({name: unit for name, (unit, _) in units.items()}, () if dated else TIME_UNITS)
    settings["units"] = {**found, **(settings.get("units") or {})}
    recording = record(
        take_from(table, roles),
        roles,
        Source(source_name(path, files), tuple(lines)),
        settings,
        file_starts=tuple(np.cumsum([len(numbers) for _, numbers in lines])[:-1].tolist()),
        notes=tuple(dict.fromkeys(notes)),
    )
    return to_transitions(recording, **settings)


def first_rows(
    path: Paths, *, separator: str | None = None, encoding: str | None = None
) -> tuple[tuple[str, ...], tuple[Sequence[str], ...]]:
    """Return the names of the columns and the first rows of a CSV file, of the first if there are several.

    Lines before the names may be padded with separators: the names are the first line that is full.
    """
    file = find_files(path, CSV_SUFFIXES)[0]
    header = Header.of(file, (), separator, encoding)
    named = ([name for cell in row if (name := _name(cell))] for _, row in header.sample)
    full = max(named, key=len, default=[])
    if len(full) > sum(map(bool, header.names)) and not any(map(_PLAIN.is_number, full)):
        header = Header.of(file, [(name,) for name in full], separator, encoding)
    return header.names, tuple(row for _, row in header.sample)


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
    sample: tuple[Row, ...]
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
        return cls(file, code, best.mark, names, line, tuple(best.rows[best.place + 1 :]), notes)

    def read(
        self, roles: Roles, blocks: Mapping[str, list[Array]]
    ) -> tuple[dict[str, str], Array, list[str]]:
        """Append the needed columns to blocks; return their units, the lines of the rows, and notes."""
        places, count = {name: self.names.index(name) for name in roles.needed}, len(self.names)
        units, notes, lines, trailing = self._units(roles), [*self.notes], list[int](), False
        last = self.line if units is None else self.sample[0][0]
        with self.file.open(encoding=self.encoding, newline="") as stream:
            rows = dropwhile(lambda row: row[0] <= last, _rows(stream, self.separator, self.file))
            while block := list(islice(rows, _BLOCK)):
                odd = [(line, row) for line, row in block if len(row) != count]
                trailing |= bool(odd)
                for line, row in odd:
                    if len(row) != count + 1 or row[-1].strip():
                        raise DataError(
                            f"{self.file}: the header has {count} fields, line {line} has {len(row)}; repair "
                            f"it (is {self.separator!r} the separator?)"
                        )
                lines += [line for line, _ in block]
                for name, place in places.items():
                    texts, kind = [row[place] for _, row in block], roles.cells.decimal
                    blocks[name].append(_block(texts, kind if name in roles.numbers else None))
        if not lines:
            raise DataError(f"{self.file}: there are no rows after the header; write at least two")
        if (self.separator, roles.cells.decimal) != (",", "."):
            notes.append(f"separator {self.separator!r}, decimal mark {roles.cells.decimal!r}")
        if trailing:
            notes.append("the separator at the end of every row is skipped")
        if units is not None:
            shown = ", ".join(f"{name} in {unit}" for name, unit in units.items())
            notes.append(f"the line after the names is taken as units: {shown or 'none'}")
        return units or {}, np.array(lines), notes

    def _units(self, roles: Roles) -> dict[str, str] | None:
        """Return the units of needed columns if the line after the names holds units, else None.

        In a line of units no cell is a number, a date or a word for a missing value other than a dash, each
        is short, and numbers follow in every column of numbers.
        """
        if len(self.sample) < 2:
            return None
        cells, below = roles.cells, [row for _, row in self.sample[1:]]
        units = [cell.strip() for cell in self.sample[0][1]]
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


def _decimal(headers: Sequence[Header], roles: Roles) -> str:
    """Return the decimal mark of columns of numbers, or refuse files that do not show it."""
    found = [
        (header.file, row[k].strip())
        for header in headers
        for k in map(header.names.index, roles.numbers)
        for _, row in header.sample
        if k < len(row)
    ]
    commas = [(file, one) for file, one in found if _COMMA.fullmatch(one)]
    dots = [(file, one) for file, one in found if _DOT.fullmatch(one)]
    if commas and dots:
        both = f"',' as in {commas[0][1]!r} or '.' as in {dots[0][1]!r}"
        raise DataError(f"{commas[0][0]}: the decimal mark may be {both}; name the decimal mark")
    if commas and all(_MAYBE_THOUSANDS.fullmatch(one) for _, one in commas):
        file, either = commas[0][0], "may have a decimal or a thousands comma"
        raise DataError(f"{file}: {commas[0][1]!r} {either}; name the decimal mark")
    return "," if commas else "."


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


def _rows(lines: Iterable[str], separator: str, file: Path | None = None) -> Iterator[Row]:
    """Yield the rows that are not blank."""
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
    rows: list[Row]


def _shape(sample: str, mark: str, options: set[str]) -> _Shape | None:
    """Return the rows of a sample and their header; None where a separator gives none."""
    try:
        rows = [one for one in _rows(StringIO(sample, newline=""), mark) if any(map(str.strip, one[1]))]
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


def _block(texts: list[str], decimal: str | None) -> Array:
    """Return numbers where all cells hold plain ones and a decimal mark is given, else the texts."""
    if decimal is not None and not _NO_NUMBER[decimal].search("".join(texts)):
        with suppress(ValueError):
            return np.array(
                [*map(float, texts if decimal == "." else (one.replace(",", ".") for one in texts))]
            )
    return np.array(texts, dtype=object)


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
