"""Time stamps as seconds: numbers, dates, or text of which the column shows how day and month are ordered."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
_OFFSET = re.compile(r"\d{1,2}:?\d{2}.*?(Z|UTC|[+-]\d{2}(?::?\d{2})?)$")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ASK = "say how to read it by a time format, e.g. '%d.%m.%Y %H:%M:%S'"


def time_column(
    values: Array, column: str, source: Source, cells: CellFormat
) -> tuple[npt.NDArray[np.float64], bool, tuple[str, ...]]:
    """Return times since the first row, whether they were dates, and how they were read.

    Times are in seconds for dates, in the column's own unit for numbers.
    """
    notes: tuple[str, ...] = ()
    if values.dtype.kind in "OUST" or (cells.time_format is not None and values.dtype.kind in "iu"):
        values, notes = _Stamps(values, column, source).parsed(cells)
    if has_dates := values.dtype.kind in "Mm":
        missing = np.isnat(values)
        values = (values - values[:1] if values.dtype.kind == "M" else values) / np.timedelta64(1, "s")
    else:
        values = number_column(values, column, source, cells)[0]
        missing = ~np.isfinite(values)
    if bool(missing.any()):
        _refuse_missing(int(missing.argmax()), column, source)
    return values.astype(np.float64), has_dates, notes


def _refuse_missing(row: int, column: str, source: Source) -> None:
    raise DataError(f"{source}: column {column!r} holds no time at {source.rows([row])}; leave that row out")


class _Stamps:
    """Time stamps as text or objects, and how errors name them."""

    def __init__(self, values: Array, column: str, source: Source) -> None:
        self.values, self.column, self.source = values, column, source
        self.where = f"{source}: column {column!r}"

    def parsed(self, cells: CellFormat) -> tuple[Array, tuple[str, ...]]:
        """Return dates as datetime64 in UTC, and how they were read; numbers as text as float64."""
        import pandas as pd

        values = self.values
        for row, value in enumerate(values):
            if cells.is_missing(value):
                _refuse_missing(row, self.column, self.source)
        if all(isinstance(value, datetime) for value in values):
            notes = self._offsets(["" if one.tzinfo is None else str(one.utcoffset()) for one in values])
            return _plain(pd.to_datetime(pd.Series(values), utc=True)), notes
        texts = [str(value).strip() for value in values]
        series = pd.Series(texts, dtype=object)
        if cells.time_format is not None:
            try:
                dates = pd.to_datetime(series, format=cells.time_format, errors="coerce", utc=True)
            except ValueError as error:
                raise DataError(
                    f"{self.where}: the time format {cells.time_format!r} cannot be used ({error})"
                ) from error
            self._check(dates, f"which is not written as {cells.time_format!r}; repair one of them")
            return _plain(dates), ()
        if cells.is_number(texts[0]) and all(cells.is_number(text) for text in texts):
            return np.array([cells.number(text) for text in texts]), ()
        dates = pd.to_datetime(series, errors="coerce", utc=True, format="ISO8601")
        if not bool(dates.isna().any()):
            found = (_OFFSET.search(text) for text in texts)
            return _plain(dates), self._offsets([one.group(1) if one else "" for one in found])
        return self._with_order(series, first_fault=int(dates.isna().to_numpy().argmax()))

    def _with_order(self, series: pd.Series[Any], *, first_fault: int) -> tuple[Array, tuple[str, ...]]:
        """Return dates that are not ISO 8601; each row has the marks of the first."""
        import pandas as pd

        if _DATE.fullmatch(series[0]) is None:
            self._refuse(
                first_fault, f"which is neither a number nor a date such as 2024-03-31 12:00:00; {_ASK}"
            )
        fields = series.str.extract(f"^{_DATE.pattern}$")
        alike = fields["mark"] == fields["mark"][0]
        alike &= fields["one"].str.len().gt(2) == (len(fields["one"][0]) > 2)
        alike &= fields["two"].str.isalpha().eq(fields["two"][0].isalpha())
        self._check(alike.where(alike), f"which is no date like {series[0]!r} in the first row; {_ASK}")
        year, month, day, order = self._ordered(fields, series)
        hour = fields["hour"].fillna("0").astype(int)
        half = fields["half"].str.lower()
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
        self._check(dates, f"which is no date ({order}); repair it")
        offsets = self._offsets(fields["offset"].fillna("").tolist())
        return _plain(dates), (f"dates such as {series[0]!r} are read with the {order}", *offsets)

    def _ordered(self, fields: pd.DataFrame, series: pd.Series[Any]) -> tuple[Any, Any, Any, str]:
        """Return years, months, days and their order in words, or refuse a column that does not tell them."""
        three = fields["three"].astype(int)
        if fields["two"][0].isalpha():
            names = fields["two"].str[:3].str.lower()
            months = names.map(lambda name: [*_MONTHS, name].index(name) + 1)
            return three, months, fields["one"].astype(int), "day first"
        one, two = fields["one"].astype(int), fields["two"].astype(int)
        if len(fields["one"][0]) > 2:
            return one, two, three, "year first"
        days_first, months_first = (one > 12).to_numpy(), (two > 12).to_numpy()
        if days_first.any() and months_first.any():
            raise DataError(
                f"{self.where} holds both {series[int(days_first.argmax())]!r} (day first) and "
                f"{series[int(months_first.argmax())]!r} (month first); write one form"
            )
        dots = fields["mark"][0] == "."
        short = not dots and bool((fields["three"].str.len() < 4).any())
        if short or not (days_first.any() or months_first.any() or dots):
            raise DataError(f"{self.where} does not show which number of {series[0]!r} is the day; {_ASK}")
        if months_first.any():
            return three, one, two, "month first"
        return three, two, one, "day first"

    def _offsets(self, offsets: Sequence[str]) -> tuple[str, ...]:
        """Refuse offsets from UTC in some rows only; say that different ones were applied."""
        known = set(offsets)
        if "" in known and len(known) > 1:
            row = next(k for k, one in enumerate(offsets) if bool(one) != bool(offsets[0]))
            raise DataError(
                f"{self.where} holds {shown(str(self.values[0]))} at {self.source.rows([0])} and "
                f"{shown(str(self.values[row]))} at {self.source.rows([row])}: only one of them has an "
                "offset from UTC; write all times with one, or none"
            )
        if len(known) > 1:
            return (f"times with the offsets {', '.join(sorted(known))} are read in UTC",)
        return ()

    def _check(self, parsed: pd.Series[Any], what: str) -> None:
        if bool((wrong := parsed.isna().to_numpy()).any()):
            self._refuse(int(wrong.argmax()), what)

    def _refuse(self, row: int, what: str) -> None:
        raise DataError(
            f"{self.where} holds {shown(str(self.values[row]).strip())} at {self.source.rows([row])}, {what}"
        )


def _plain(dates: pd.Series[Any]) -> Array:
    return np.asarray(dates.dt.tz_localize(None).to_numpy())
