"""Text files of rows: what spreadsheets, historians and PLCs write."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from nopg.data._columns import Columns, Roles, resolve_roles, split
from nopg.data._frames import from_dataframe, to_dataframe
from nopg.data._sizes import existing_file
from nopg.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

    from nopg.data._transitions import Transitions

__all__ = ["from_csv", "to_csv"]


def from_csv(
    path: str | os.PathLike[str], *, separator: str = ",", decimal: str = ".", **columns: Unpack[Columns]
) -> Transitions:
    """Return the transitions of a CSV file with a header line."""
    file = existing_file(path)
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "pandas") from error

    header = _header(file, separator)
    roles = resolve_roles(header, str(file), **split(columns)[0])
    layout: dict[str, Any] = {
        "sep": separator,
        "decimal": decimal,
        "usecols": list(roles.needed),
        "skipinitialspace": True,
        "encoding": "utf-8-sig",
    }
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        layout["float_precision"] = "round_trip"  # the parser of old errs in the last digit
    try:
        frame = _read(file, roles, layout)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is not a table separated by {separator!r} ({error})") from error
    if roles.time is not None:
        frame[roles.time] = _times(frame[roles.time], roles.time, str(file))
    return from_dataframe(frame, str(file), **columns)


def to_csv(data: Transitions, path: str | os.PathLike[str]) -> None:
    """Write a dataset as CSV, numbers with 17 digits: they come back to the bit."""
    to_dataframe(data).to_csv(path, index=False, float_format="%.17g")


def _read(file: Path, roles: Roles, layout: dict[str, Any]) -> pd.DataFrame:
    import pandas as pd

    try:
        # As float64 from the start: read as a whole number, −0 would lose its sign.
        return pd.read_csv(file, dtype=dict.fromkeys(roles.numbers, "float64"), **layout)
    except pd.errors.ParserError:
        raise
    except ValueError:
        # Something is no number. Read it as text, so that the error can say what and where.
        return pd.read_csv(file, dtype=dict.fromkeys(roles.numbers, "object"), **layout)


def _header(file: Path, separator: str) -> list[str]:
    """Return the names of the columns, having seen that every line has as many fields.

    pandas would fill up or cut off a line in silence, because it is told which columns to read.
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
        raise DataError(f"{file}: columns {repeated} stand there twice; rename or drop one of each")
    if rows == 0:
        raise DataError(f"{file}: there are no rows after the header; write at least two")
    return header


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
