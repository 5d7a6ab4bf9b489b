"""Time stamps as seconds: numbers, dates, or text of which the column shows how day and month are ordered."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nopg.data._checks import Source
from nopg.data.io._cells import Array, CellFormat, number_column, shown
from nopg.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_DATE = re.compile(
    r"(?P<one>\d{4}|\d{1,2})(?P<mark>[./ -])(?P<two>\d{1,2}|[A-Za-z]{3,9})(?P=mark)(?P<three>\d{4}|\d{1,2})"
    r"(?:[ T,]+(?P<hour>\d{1,2})(?P<clock>:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?)"
    r"\s*(?:(?P<half>[AaPp])\.?[Mm]\.?)?)?\s*(?P<offset>Z|UTC|[+-]\d{2}:?\d{2})?"
)
_OFFSET = re.compile(r"[T ].*(Z|UTC|[+-]\d{2}(?::?\d{2})?)$")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ASK = "say how to read it by a time format, e.g. '%d.%m.%Y %H:%M:%S'"


def time_column(
    values: Array, column: str, source: Source, cells: CellFormat
) -> tuple[npt.NDArray[np.float64], bool, tuple[str, ...]]:
    """Return times since the first row, whether they were dates, and how they were read.

    Times are in seconds for dates, in the column's own unit for numbers.
    """
    notes: tuple[str, ...] = ()

    def refuse(wrong: Any, what: str) -> None:
        """Refuse the first of the rows that are wrong, if there are any."""
        if (flags := np.asarray(wrong, dtype=bool)).any():
            row = int(flags.argmax())
            held = f"holds {shown(str(values[row]).strip())}" if what.startswith(", ") else "holds no time"
            raise DataError(f"{source}: column {column!r} {held} at {source.rows([row])}{what}")

    absent = "; leave that row out"
    if values.dtype.kind in "OUST" or (cells.time_format is not None and values.dtype.kind in "iu"):
        refuse([cells.is_missing(value) for value in values], absent)
        values, notes = _parsed(values, f"{source}: column {column!r}", source, cells, refuse)
    if has_dates := values.dtype.kind in "Mm":
        refuse(np.isnat(values), absent)
        values = (values - values[:1] if values.dtype.kind == "M" else values) / np.timedelta64(1, "s")
    else:
        values = number_column(values, column, source, cells)[0]
        refuse(~np.isfinite(values), absent)
    return values.astype(np.float64), has_dates, notes


def _parsed(
    values: Array, where: str, source: Source, cells: CellFormat, refuse: Callable[[Any, str], None]
) -> tuple[Array, tuple[str, ...]]:
    """Return dates as datetime64 in UTC, and how they were read; numbers as text as float64."""
    import pandas as pd

    if all(isinstance(value, datetime) for value in values):
        dates = pd.to_datetime(pd.Series(values), utc=True)
        written = ["" if one.tzinfo is None else str(one.utcoffset()) for one in values]
        return _plain(dates), _offsets(written, values, where, source)
    texts = [str(value).strip() for value in values]
    series = pd.Series(texts, dtype=object)
    if (form := cells.time_format) is not None:
        try:
            dates = pd.to_datetime(series, format=form, errors="coerce", utc=True)
        except ValueError as error:
            raise DataError(f"{where}: the time format {form!r} cannot be used ({error})") from error
        refuse(dates.isna(), f", which is not written as {form!r}; repair one of them")
        return _plain(dates), ()
    if cells.is_number(texts[0]):
        refuse(
            [not cells.is_number(text) for text in texts],
            f", which is no number like {texts[0]!r} in the first row; repair it, or leave that row out",
        )
        return np.array([cells.number(text) for text in texts]), ()
    dates = pd.to_datetime(series, errors="coerce", utc=True, format="ISO8601")
    if not dates.isna().any():
        written = [one[1] if (one := _OFFSET.search(text)) else "" for text in texts]
        return _plain(dates), _offsets(written, values, where, source)
    if _DATE.fullmatch(texts[0]) is None:
        refuse(dates.isna(), f", which is neither a number nor a date such as 2024-03-31 12:00:00; {_ASK}")
    fields = series.str.extract(f"^{_DATE.pattern}$")
    alike = fields["mark"] == fields["mark"][0]
    alike &= fields["one"].str.len().gt(2) == (len(fields["one"][0]) > 2)
    alike &= fields["two"].str.isalpha().eq(fields["two"][0].isalpha())
    refuse(~alike, f", which is no date like {texts[0]!r} in the first row; {_ASK}")
    year, month, day, order = _ordered(fields, texts, where)
    hour, half = fields["hour"].fillna("0").astype(int), fields["half"].str.lower()
    hour = hour.where(half.isna(), hour % 12 + 12 * (half == "p"))
    text = (
        (year + 2000 * (year < 100)).astype(str)
        + month.map("-{:02d}".format)
        + day.map("-{:02d}".format)
        + hour.map("T{:02d}".format)
        + fields["clock"].fillna(":00").str.replace(",", ".")
        + fields["offset"].fillna("").str.replace("UTC", "Z")
    )
    dates = pd.to_datetime(text, format="ISO8601", utc=True, errors="coerce")
    refuse(dates.isna(), f", which is no date ({order}); repair it")
    offsets = _offsets(fields["offset"].fillna("").tolist(), values, where, source)
    return _plain(dates), (f"dates such as {texts[0]!r} are read with the {order}", *offsets)


def _ordered(fields: pd.DataFrame, texts: Sequence[str], where: str) -> tuple[Any, Any, Any, str]:
    """Return years, months, days and their order in words, or refuse a column that does not tell them."""
    three = fields["three"].astype(int)
    if fields["two"][0].isalpha():
        months = fields["two"].str[:3].str.lower().map(lambda name: [*_MONTHS, name].index(name) + 1)
        return three, months, fields["one"].astype(int), "day first"
    one, two = fields["one"].astype(int), fields["two"].astype(int)
    if len(fields["one"][0]) > 2:
        return one, two, three, "year first"
    days_first, months_first = one.gt(12).to_numpy(), two.gt(12).to_numpy()
    if days_first.any() and months_first.any():
        raise DataError(
            f"{where} holds both {texts[days_first.argmax()]!r} (day first) and "
            f"{texts[months_first.argmax()]!r} (month first); write one form"
        )
    dots = fields["mark"][0] == "."
    short = not dots and bool((fields["three"].str.len() < 4).any())
    if short or not (days_first.any() or months_first.any() or dots):
        raise DataError(f"{where} does not show which number of {texts[0]!r} is the day; {_ASK}")
    if months_first.any():
        return three, one, two, "month first"
    return three, two, one, "day first"


def _offsets(offsets: Sequence[str], values: Array, where: str, source: Source) -> tuple[str, ...]:
    """Refuse offsets from UTC in some rows only; say that different ones were applied."""
    known = set(offsets)
    if len(known) > 1 and "" in known:
        row = next(k for k, one in enumerate(offsets) if bool(one) != bool(offsets[0]))
        raise DataError(
            f"{where} holds {shown(str(values[0]))} at {source.rows([0])} and {shown(str(values[row]))} at "
            f"{source.rows([row])}: only one of them has an offset from UTC; write all with one, or none"
        )
    return (f"times with the offsets {', '.join(sorted(known))} are read in UTC",) if len(known) > 1 else ()


def _plain(dates: pd.Series[Any]) -> Array:
    return np.asarray(dates.dt.tz_localize(None).to_numpy())
