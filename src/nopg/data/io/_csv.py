"""CSV files, as spreadsheets, historians and PLCs write them: the header is the line of the wanted names."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from nopg.data.io._files import Paths, find_files, source_name
from nopg.data.io._roles import Columns, Roles, resolve_columns, split_arguments, wanted_names
from nopg.data.io._tables import transitions_of
from nopg.errors import ArgumentError, DataError

CSV_SUFFIXES = (".csv", ".tsv")
_SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# The header and what follows it is found in the first lines; a wide table needs few of them.
_SAMPLE_LINES, _SAMPLE = 200, 1 << 22
# Rows whose texts are in memory at once.
_BLOCK = 1 << 14
_LONGEST_UNIT, _FEW, _DIGIT = 20, 5, re.compile(r"\d")
_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?")
_DOT = re.compile(r"[+-]?(\d*|\d{1,3}(,\d{3})+)\.\d+([eE][+-]?\d+)?")
_MAYBE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}([.,]\d{3})+")
_HUNDREDS = re.compile(r"[+-]?[1-9]\d\d")
_DATE_OR_NUMBER = re.compile(r"\d{4}|\d:\d\d|\d[./-]\d")
_WHOLE = re.compile(r"\s*-?\d+\s*")
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
        headers.append(Header.of(file, wanted_names(given), separator, encoding))
        separator = headers[0].separator
    roles = resolve_columns([name for name in headers[0].names if name], str(files[0]), **given)
    _check_names(headers, roles)
    roles = replace(roles, cells=replace(roles.cells, decimal=decimal or _decimal(headers, roles)))
    blocks: dict[str, list[Array]] = {name: [] for name in roles.needed}
    lines, notes, units = list[tuple[str, Array]](), list[str](), dict[str, str]()
    for header in headers:
        own, numbers, noted = header.read(roles, blocks)
        lines.append((str(header.file), numbers))
        notes += noted
        if other := [name for name, unit in own.items() if units.setdefault(name, unit) != unit]:
            both = f"{own[other[0]]!r}, files before it in {units[other[0]]!r}"
            raise DataError(f"{header.file} has {other[0]!r} in {both}; convert it first")
    settings["units"] = {**roles.units_of(units), **(settings.get("units") or {})}
    table = {name: np.concatenate(blocks.pop(name)) for name in roles.needed}
    if (name := roles.single.get("episode")) and all(map(_PLAIN.is_number, table[name])):
        kind = int if all(map(_WHOLE.fullmatch, table[name])) else float
        table[name] = np.array([*map(kind, table[name])])
    return transitions_of(
        table,
        roles,
        Source(source_name(path, files), tuple(lines)),
        settings,
        file_starts=np.cumsum([len(numbers) for _, numbers in lines])[:-1].tolist(),
        notes=tuple(dict.fromkeys(notes)),
    )


def first_header(path: Paths, separator: str | None = None, encoding: str | None = None) -> Header:
    """Return the header of a CSV file, of the first if there are several."""
    return Header.of(find_files(path, CSV_SUFFIXES)[0], (), separator, encoding)


@dataclass(frozen=True, slots=True)
class Header:
    """What the first lines of a file say; the sample are the rows after the names."""

    file: Path
    encoding: str
    separator: str
    names: tuple[str, ...]
    line: int
    sample: tuple[Row, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, file: Path, wanted: Collection[str], separator: str | None, encoding: str | None) -> Header:
        """Return the header of a file: the row with most of the wanted names.

        If no row has any, it is the row with most names, by the separator that cuts most rows alike.
        """
        if separator is not None and len(separator) != 1:
            raise ArgumentError(f"the separator is {separator!r}; give one character, e.g. ';'")
        code, notes = _find_encoding(file, encoding)
        with file.open(encoding=code, newline="") as stream:
            sample = "".join(islice(stream, _SAMPLE_LINES))[:_SAMPLE]
        if re.search(r"\w", sample) is None:
            raise DataError(f"{file} has no line with names of columns; write them into the first line")
        shapes = [_shape(sample, mark, wanted) for mark in ([separator] if separator else _SEPARATORS)]
        shapes = sorted((one for one in shapes if separator or len(one.rows[one.place][1]) > 1), reverse=True)
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
                for line, row in block:
                    if len(row) == count:
                        continue
                    if len(row) != count + 1 or row[-1].strip():
                        raise DataError(
                            f"{self.file}: the header has {count} fields, line {line} has {len(row)}; repair "
                            f"it (is {self.separator!r} the separator?)"
                        )
                    trailing = True
                lines += [line for line, _ in block]
                for name, place in places.items():
                    mark = roles.cells.decimal if name in roles.numbers else None
                    blocks[name].append(_block([row[place] for _, row in block], mark))
                end = block[-1]
        if not lines:
            raise DataError(f"{self.file}: there are no rows after the header; write at least two")
        self._check_footer(*end, roles)
        if (self.separator, roles.cells.decimal) != (",", "."):
            notes.append(f"separator {self.separator!r}, decimal mark {roles.cells.decimal!r}")
        if trailing:
            notes.append("the separator at the end of every row is skipped")
        if units is not None:
            shown = ", ".join(f"{name} in {unit}" for name, unit in units.items())
            notes.append(f"the line after the names is taken as units: {shown or 'none'}")
        return units or {}, np.array(lines), notes

    def _check_footer(self, line: int, row: list[str], roles: Roles) -> None:
        """Refuse a total at the end: a word in a column that is not read, where all others have digits."""
        for k, (name, cell) in enumerate(zip(self.names, row, strict=False)):
            above = [one[k] for number, one in self.sample[1:] if number < line and k < len(one)]
            is_word = not roles.cells.is_missing(cell) and _DIGIT.search(cell) is None
            if is_word and name not in roles.needed and len(above) > _FEW and all(map(_DIGIT.search, above)):
                raise DataError(
                    f"{self.file}: line {line} holds {cell.strip()!r} in column {name!r}, where others hold "
                    "numbers or dates; if it is a total, delete that line"
                )

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
    columns = [
        (header.file, [row[k].strip() for _, row in header.sample if k < len(row)])
        for header in headers
        for k in map(header.names.index, roles.numbers)
    ]
    commas, dots = (
        [(file, one) for file, cells in columns for one in cells if form.fullmatch(one)]
        for form in (_COMMA, _DOT)
    )
    if not (found := commas or dots):
        return "."
    file, first = found[0]
    if commas and dots:
        both = f"',' as in {first!r} or '.' as in {dots[0][1]!r}"
        raise DataError(f"{file}: the decimal mark may be {both}; name the decimal mark")
    # A point is one of thousands only where whole numbers are in the same column: 987, 1.005.
    mixed = any(
        any(map(_DOT.fullmatch, cells)) and any(map(_HUNDREDS.fullmatch, cells)) for _, cells in columns
    )
    if all(_MAYBE_THOUSANDS.fullmatch(one) for _, one in found) and (commas or mixed):
        mark = "comma" if commas else "point"
        raise DataError(f"{file}: {first!r} may have a decimal or a thousands {mark}; name the decimal mark")
    return "," if commas else "."


def _find_encoding(file: Path, encoding: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the encoding of a file: that of its mark, else UTF-8, else cp1252 with a note."""
    with file.open("rb") as stream:
        start = stream.read(4)
    marked = [name for mark, name in _MARKS if start.startswith(mark)]
    codes, faults = [encoding] if encoding else marked or ["utf-8", "cp1252"], list[str]()
    for code in codes:
        try:
            fault = _fault(file, code)
        except LookupError:
            raise ArgumentError(f"the encoding is {code!r}; give a known one, e.g. cp1252") from None
        if not fault:
            why = f", as it is not UTF-8 ({faults[0]})" if faults else ""
            told = encoding is None and not code.startswith("utf-8")
            return code, (f"encoding {code}{why}",) if told else ()
        faults.append(fault)
    tried = " nor in ".join(codes)
    raise DataError(
        f"{file} is not text in {tried} ({faults[0]}); name its encoding, or save it again as UTF-8"
    )


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
    """Yield the rows that are not blank; a sample, which is of no file, may end within a row."""
    reader = csv.reader(lines, delimiter=separator)
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                yield reader.line_num, row
    except csv.Error as error:
        if file is not None:
            raise DataError(f"{file} is not a table of text ({error}); export it again") from error


class _Shape(NamedTuple):
    """Rows that a separator cuts, and which of them is the header, ordered by how well it suits."""

    named: int
    agreement: float
    before: int
    mark: str
    place: int
    rows: list[Row]


def _shape(sample: str, mark: str, wanted: Collection[str]) -> _Shape:
    """Return the rows of a sample and their header."""
    cut = _rows(StringIO(sample, newline=""), mark)
    rows = [one for one in cut if any(map(str.strip, one[1]))] or [(1, [""])]
    widths = Counter(len(row) for _, row in rows if len(row) > 1)
    usual = max(widths, key=widths.__getitem__, default=1)
    named = [len({*wanted}.intersection(map(_name, row))) for _, row in rows]
    # Every row may end with a separator, unlike the names; names are no numbers.
    texts = [
        sum(bool(cell.strip()) and not _PLAIN.is_number(cell) for cell in row)
        if usual - 1 <= len(row) <= usual
        else 0
        for _, row in rows
    ]
    order = named if any(named) else texts
    place = order.index(max(order))
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


def _check_names(headers: Sequence[Header], roles: Roles) -> None:
    """Refuse files whose columns differ, and a needed column that a file has twice."""
    first = headers[0]
    for other in headers:
        for here, there in ((first, other), (other, first)):
            if missing := [name for name in here.names if name and name not in there.names]:
                raise DataError(
                    f"{there.file} has no column {missing[0]!r}, which {here.file} has; its columns are "
                    f"{listed(there.names)}. Export the files alike, or read them one by one"
                )
        names = Counter(other.names)
        if repeated := [name for name in roles.needed if names[name] > 1]:
            raise DataError(f"{other.file}: columns {repeated} appear twice; rename or drop one of each")
