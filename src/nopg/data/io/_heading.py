"""The heading of a CSV file: its encoding, separator, names of columns, decimal mark and units."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nopg.data.io._cells import CellFormat, listed
from nopg.data.io._text import find_encoding
from nopg.errors import ArgumentError, DataError

_SEPARATORS = (",", ";", "\t", "|")
_NAMES = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
_SAMPLE_LINES = 200
_LONGEST_UNIT = 20
_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?")
_DOT = re.compile(r"[+-]?(\d*|\d{1,3}(,\d{3})+)\.\d+([eE][+-]?\d+)?")
_MAYBE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
_DATE_OR_NUMBER = re.compile(r"\d{4}|\d:\d\d|\d[./-]\d")

_Row = list[str]


@dataclass(frozen=True, slots=True)
class Heading:
    """What the first lines of a CSV file say.

    Attributes:
        file: The file.
        encoding: Its encoding.
        separator: The character between two fields.
        names: Names of the columns; "" for a column without one.
        lines: Number of lines up to and with the names.
        sample: The first rows after the names.
        notes: What was found.
        trailing: Whether every row ends with a separator that the names lack.
    """

    file: Path
    encoding: str
    separator: str
    names: tuple[str, ...]
    lines: int
    sample: tuple[_Row, ...]
    notes: tuple[str, ...]
    trailing: bool


def read_heading(
    file: Path, wanted: Sequence[str], *, separator: str | None, encoding: str | None
) -> Heading:
    """Return the heading of a file; the separator is found unless it is given.

    Args:
        file: A text file.
        wanted: Names of columns that the caller has asked for; they help to find the separator.
        separator: The separator, if it is known.
        encoding: The encoding, if it is known.
    """
    if separator is not None and len(separator) != 1:
        raise ArgumentError(f"separator is {separator!r}; give one character, e.g. ';'")
    code, notes = find_encoding(file, encoding)
    with file.open(encoding=code, newline="") as stream:
        lines = list(islice(stream, _SAMPLE_LINES))
    candidates = [separator] if separator is not None else list(_SEPARATORS)
    shapes = [shape for one in candidates if (shape := _shape(lines, one)) is not None]
    if separator is None:
        shapes = _best(shapes, wanted, file)
    if not shapes:
        raise DataError(f"{file} has no line with names of columns; write them into the first line")
    return shapes[0].heading(file, code, wanted, notes)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The first lines of a file, cut at one separator: rows with the lines they end in; row of the names."""

    separator: str
    rows: tuple[tuple[int, _Row], ...]
    first: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.rows[self.first][1])

    @property
    def after(self) -> tuple[_Row, ...]:
        return tuple(row for _, row in self.rows[self.first + 1 :])

    @property
    def trailing(self) -> bool:
        longer = len(self.names) + 1
        return bool(self.after) and all(len(row) == longer and not row[-1].strip() for row in self.after)

    @property
    def agreement(self) -> float:
        """Share of the rows that have as many fields as there are names."""
        if not self.after or self.trailing:
            return 1.0
        return sum(len(row) == len(self.names) for row in self.after) / len(self.after)

    def heading(self, file: Path, encoding: str, wanted: Sequence[str], notes: tuple[str, ...]) -> Heading:
        names, cells = self.names, CellFormat()
        if all(cells.is_number(name) or not name for name in names) and not set(wanted) & set(names):
            raise DataError(f"{file}: the first line holds numbers ({listed(names)}); write the names there")
        if repeated := sorted({name for name in names if name and names.count(name) > 1}):
            raise DataError(f"{file}: columns {repeated} appear twice; rename or drop one of each")
        if self.first:
            notes += (f"{self.first} lines before the names of the columns are skipped",)
        if unnamed := [str(k + 1) for k, name in enumerate(names) if not name]:
            notes += (f"columns without a name are not read: number {listed(unnamed)}",)
        if self.trailing:
            notes += ("the separator at the end of every row is skipped",)
        line = self.rows[self.first][0]
        return Heading(file, encoding, self.separator, names, line, self.after, notes, self.trailing)


def _shape(lines: Sequence[str], separator: str) -> _Shape | None:
    """Return the lines cut at a separator; the names are in the first line of the usual number of fields."""
    try:
        reader = csv.reader(lines, delimiter=separator)
        rows = tuple((reader.line_num, row) for row in reader if any(field.strip() for field in row))
    except csv.Error:
        return None
    if not rows:
        return None
    usual = Counter(len(row) for _, row in rows if len(row) > 1).most_common(1)
    count = usual[0][0] if usual else 1
    first = next(k for k, (_, row) in enumerate(rows) if len(row) == count)
    # The usual number of fields may be that of the rows alone: names hold no numbers.
    cells = CellFormat()
    while first > 0 and any(cells.is_number(field) for field in rows[first][1]):
        first -= 1
    return _Shape(separator, rows, first)


def _best(shapes: Sequence[_Shape], wanted: Sequence[str], file: Path) -> list[_Shape]:
    """Return the shape with the wanted names, else that whose rows agree best with its names."""
    several = [shape for shape in shapes if len(shape.names) > 1]
    named = [shape for shape in several if wanted and set(wanted) <= set(shape.names)]
    agreeing = [shape for shape in several if shape.agreement > 0.5] or several
    chosen = sorted(named or agreeing, key=lambda one: (one.agreement, one.first == 0), reverse=True)
    if not chosen and shapes:
        raise DataError(
            f"{file}: no separator is found in {shapes[0].rows[0][1][0][:60]!r}; tried ',' ';' tab and '|'. "
            "Give separator=… (--separator)"
        )
    if len(chosen) > 1 and chosen[1].agreement == chosen[0].agreement and not named:
        names = " or ".join(_NAMES[one.separator] for one in chosen[:2])
        raise DataError(f"{file}: the separator may be {names}; give separator=… (--separator)")
    return chosen[:1]


def find_decimal(heading: Heading, columns: Sequence[str]) -> str:
    """Return the decimal mark of columns of numbers, or refuse a file that does not show it."""
    places = [heading.names.index(name) for name in columns]
    found = [row[k].strip() for row in heading.sample for k in places if k < len(row)]
    commas, dots = (
        [one for one in found if _COMMA.fullmatch(one)],
        [one for one in found if _DOT.fullmatch(one)],
    )
    ask = "give decimal=… (--decimal)"
    if commas and dots:
        raise DataError(
            f"{heading.file}: the decimal mark may be ',' as in {commas[0]!r} or '.' as in {dots[0]!r}; {ask}"
        )
    if commas and all(_MAYBE_THOUSANDS.fullmatch(one) for one in commas):
        raise DataError(f"{heading.file}: {commas[0]!r} may have a decimal or a thousands comma; {ask}")
    return "," if commas else "."


def find_units(heading: Heading, columns: Sequence[str], cells: CellFormat) -> dict[str, str] | None:
    """Return the units of columns of numbers if the line after the names holds units, else None."""
    if len(heading.sample) < 2:
        return None
    line, below = heading.sample[0], heading.sample[1:]
    return units_in_row(line, below, heading.names, columns, cells)


def units_in_row(
    line: Sequence[object],
    below: Sequence[Sequence[object]],
    names: Sequence[str],
    columns: Sequence[str],
    cells: CellFormat,
) -> dict[str, str] | None:
    """Return the units that a row holds, by column, or None if it is no row of units.

    In a row of units no cell is a number, a date or a word for a missing value other than a dash, each is
    short, and numbers follow in every column of numbers.
    """
    texts = ["" if value is None else str(value).strip() for value in line]
    if not any(text.strip("-") for text in texts) or not all(_may_be_unit(text, cells) for text in texts):
        return None
    for name in columns:
        k = names.index(name)
        following = [row[k] for row in below if k < len(row) and not cells.is_missing(row[k])]
        if not following or not cells.is_number(following[0]):
            return None
    units = {
        name: texts[names.index(name)].strip("[]() ") for name in columns if names.index(name) < len(texts)
    }
    return {name: unit for name, unit in units.items() if unit.strip("-")}


def _may_be_unit(text: str, cells: CellFormat) -> bool:
    if not text.strip("-"):
        return True
    if cells.is_missing(text) or cells.is_number(text) or len(text) > _LONGEST_UNIT:
        return False
    return not _DATE_OR_NUMBER.search(text)
