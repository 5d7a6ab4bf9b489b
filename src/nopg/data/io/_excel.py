"""Sheets of Excel workbooks."""

from __future__ import annotations

import logging
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from nopg.data._transitions import Transitions
from nopg.data.io._cells import CellFormat, listed
from nopg.data.io._columns import record, take_from
from nopg.data.io._dataframe import table_of
from nopg.data.io._files import existing_file, extra
from nopg.data.io._heading import units_in_row
from nopg.data.io._roles import Columns, resolve_columns, split_arguments
from nopg.data.io._transitions import to_transitions
from nopg.errors import DataError

_log = logging.getLogger(__name__)
_Row = tuple[Any, ...]


def read_excel(
    path: str | os.PathLike[str], *, sheet: str | int | None = None, **columns: Unpack[Columns]
) -> Transitions:
    """Read a sheet of a workbook (.xlsx, .xlsm); of formulas, the values that Excel has stored.

    Numbers are read to the bit as they are stored: with 17 digits by Excel, but with 16 by openpyxl and
    pandas, whose floats may be off in the last bit.

    The names of the columns are in the first row that holds text in at least two cells and no number; rows
    before it are skipped and noted, as is a row of units after it.

    Args:
        path: The workbook.
        sheet: Name of the sheet, or its number from 0; the first if absent.
        columns: As in `from_dataframe`.
    """
    file = existing_file(path)
    rows, source = _rows(file, sheet)
    names, rows, notes = _heading(rows, source)
    given, settings = split_arguments(columns, Columns)
    roles = resolve_columns([name for name in names if name], source, **given)
    units = units_in_row(rows[0], rows[1:200], names, roles.numbers, roles.cells) if len(rows) > 1 else None
    if units is not None:
        rows = rows[1:]
        shown = ", ".join(f"{name} in {unit}" for name, unit in units.items())
        notes += (f"the row after the names is taken as units: {shown or 'none'}",)
        described = {"reward" if name == roles.reward else name: unit for name, unit in units.items()}
        known = {
            name: described[name] for name in (*roles.states, *roles.actions, "reward") if name in described
        }
        settings["units"] = {**known, **(settings.get("units") or {})}
    for note in notes:
        _log.info("%s: %s", source, note)
    frame = extra("pandas").DataFrame(
        {name: [row[names.index(name)] for row in rows] for name in roles.needed}
    )
    recording = record(take_from(table_of(frame, roles), roles), roles, source, notes=notes)
    return to_transitions(recording, **settings)


def _rows(file: Path, sheet: str | int | None) -> tuple[list[_Row], str]:
    """Return the rows of a sheet that hold anything, and its name in errors."""
    openpyxl = extra("openpyxl")
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    except (
        zipfile.BadZipFile,
        KeyError,
        OSError,
        ValueError,
        openpyxl.utils.exceptions.InvalidFileException,
    ) as error:
        raise DataError(f"{file} is no Excel workbook ({error}); save it as .xlsx, or as CSV") from error
    try:
        names = book.sheetnames
        if isinstance(sheet, int) and not 0 <= sheet < len(names):
            raise DataError(f"{file} has {len(names)} sheets, numbered from 0; there is no sheet {sheet}")
        name = names[sheet or 0] if not isinstance(sheet, str) else sheet
        if name not in names:
            raise DataError(f"{file} has no sheet {name!r}; its sheets are {listed(names)}")
        if sheet is None and len(names) > 1:
            _log.info("%s: sheet %r is read, the first of %d", file, name, len(names))
        rows = [
            tuple(row)
            for row in book[name].iter_rows(values_only=True)
            if any(cell is not None for cell in row)
        ]
    finally:
        book.close()
    source = f"{file}, sheet {name!r}"
    if not rows:
        raise DataError(f"{source} is empty; write the rows again")
    width = max(map(len, rows))
    return [row + (None,) * (width - len(row)) for row in rows], source


def _heading(rows: Sequence[_Row], source: str) -> tuple[list[str], list[_Row], tuple[str, ...]]:
    """Return the names of the columns, the rows after them, and what to note."""
    k = next((k for k, row in enumerate(rows) if _may_be_names(row)), None)
    if k is None:
        raise DataError(f"{source} has no row with names of columns; write them into the first row")
    names = ["" if cell is None else str(cell).strip() for cell in rows[k]]
    if repeated := sorted({name for name in names if name and names.count(name) > 1}):
        raise DataError(f"{source}: columns {repeated} appear twice; rename or drop one of each")
    if k + 1 == len(rows):
        raise DataError(f"{source}: there are no rows after the header; write at least two")
    notes = (f"{k} rows before the names of the columns are skipped",) if k else ()
    return names, list(rows[k + 1 :]), notes


def _may_be_names(row: _Row) -> bool:
    cells = CellFormat()
    filled = [cell for cell in row if cell is not None]
    return len(filled) > 1 and all(isinstance(cell, str) and not cells.is_number(cell) for cell in filled)
