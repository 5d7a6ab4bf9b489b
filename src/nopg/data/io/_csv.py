"""CSV files, as spreadsheets, historians and PLCs write them."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from nopg.data._transitions import Transitions
from nopg.data.io._columns import record, take_from
from nopg.data.io._dataframe import table_of, to_dataframe
from nopg.data.io._files import existing_file, extra
from nopg.data.io._roles import Columns, Roles, resolve_columns, split_arguments
from nopg.data.io._transitions import to_transitions
from nopg.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_csv", "write_csv"]


def read_csv(
    path: str | os.PathLike[str], *, separator: str = ",", decimal: str = ".", **columns: Unpack[Columns]
) -> Transitions:
    """Read a CSV file with a header line; floats are read to the bit.

    Args:
        path: A text file in UTF-8.
        separator: The character between two fields.
        decimal: The decimal point.
        columns: As in `from_dataframe`; a time is a number or a date like `2024-03-31 12:00:00`.
    """
    file = existing_file(path)
    pd = extra("pandas")
    given, settings = split_arguments(columns, Columns)
    roles = resolve_columns(_header(file, separator), str(file), **given)
    try:
        frame = _read(file, roles, separator, decimal)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is not a table separated by {separator!r} ({error})") from error
    if roles.time is not None:
        frame[roles.time] = _times(frame[roles.time], roles.time, str(file))
    recording = record(take_from(table_of(frame, roles), roles), roles, str(file))
    return to_transitions(recording, **settings)


def write_csv(data: Transitions, path: str | os.PathLike[str]) -> None:
    """Write the columns of `to_dataframe` with 17 digits, so that every float is read back to the bit."""
    to_dataframe(data).to_csv(path, index=False, float_format="%.17g")


def _header(file: Path, separator: str) -> list[str]:
    """Return the names of the columns, after a check that every line has as many fields.

    pandas would fill or cut a line of another length without a word where only some columns are read.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, delimiter=separator)
            header = [name.strip() for name in next(reader, [])]
            rows = 0
            for fields in reader:
                rows += 1
                if fields and len(fields) != len(header):
                    raise DataError(
                        f"{file}: the header has {len(header)} fields, line {reader.line_num} has "
                        f"{len(fields)}; repair it (is {separator!r} the separator?)"
                    )
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file} is not a table of text in UTF-8 ({error}); export it again") from error
    if repeated := sorted({name for name in header if header.count(name) > 1}):
        raise DataError(f"{file}: columns {repeated} appear twice; rename or drop one of each")
    if rows == 0:
        raise DataError(f"{file}: there are no rows after the header; write at least two")
    return header


def _read(file: Path, roles: Roles, separator: str, decimal: str) -> pd.DataFrame:
    import pandas as pd

    layout: dict[str, Any] = {
        "sep": separator,
        "decimal": decimal,
        "usecols": list(roles.needed),
        "skipinitialspace": True,
        "encoding": "utf-8-sig",
    }
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        layout["float_precision"] = "round_trip"  # the old parser is off in the last digit
    try:
        # As float64 from the start: read as a whole number, −0 would lose its sign.
        return pd.read_csv(file, dtype=dict.fromkeys(roles.numbers, "float64"), **layout)
    except pd.errors.ParserError:
        raise
    except ValueError:
        # A value is no number. Read it as text, so that the error can name it and its row.
        return pd.read_csv(file, dtype=dict.fromkeys(roles.numbers, "object"), **layout)


def _times(column: pd.Series[Any], name: str, source: str) -> pd.Series[Any]:
    """Return numbers as they are and text as dates."""
    import pandas as pd

    if getattr(column.dtype, "kind", "O") in "iuf":
        return column
    dates = pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601")
    if bool((wrong := dates.isna()).any()):
        row = int(wrong.to_numpy().nonzero()[0][0])
        raise DataError(
            f"{source}: column {name!r} holds {column.iloc[row]!r} at row {row}, which is neither a number "
            "nor a date such as 2024-03-31 12:00:00; parse it with pandas and use from_dataframe"
        )
    return dates
