"""Time stamps as text, to dates in UTC: ISO 8601, day and month in the order that the column shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nopg.data.io._cells import CellFormat, shown
from nopg.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_Times = npt.NDArray[Any]
_CLOCK = (
    r"(?:[ T,]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?\s*(?P<offset>Z|UTC|[+-]\d{2}:?\d{2})?"
)
_FORMS = {
    "year first": r"(?P<year>\d{4})(?P<mark>[./-])(?P<b>\d{1,2})[./-](?P<a>\d{1,2})",
    "year last": r"(?P<a>\d{1,2})(?P<mark>[./-])(?P<b>\d{1,2})[./-](?P<year>\d{4}|\d{2})",
    "month by name": r"(?P<a>\d{1,2})(?P<mark>[-. /])(?P<name>[A-Za-z]{3})[a-z]*[-. /](?P<year>\d{4}|\d{2})",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_OFFSET = re.compile(r"\d{1,2}:?\d{2}.*?(Z|UTC|[+-]\d{2}(?::?\d{2})?)$")
_ASK = "say how to read it with time_format=… (--time-format), e.g. '%d.%m.%Y %H:%M:%S'"


def parse_times(
    values: _Times, column: str, source: str, cells: CellFormat
) -> tuple[_Times, tuple[str, ...]]:
    """Return dates as datetime64 in UTC, and how they were read; numbers as text are returned as float64.

    Day and month are told apart only if the column shows which is which: dots mean day first; otherwise a
    number above 12 decides, and a column without one is refused. Offsets from UTC are applied; a column
    must have one in every row or in none.
    """
    for row, value in enumerate(values):
        if cells.is_missing(value):
            raise DataError(f"{source}: column {column!r} holds no time at row {row}; leave that row out")
    if all(isinstance(value, datetime) for value in values):
        return _from_datetimes(values, f"{source}: column {column!r}")
    texts = [str(value).strip() for value in values]
    where = f"{source}: column {column!r}"
    if cells.time_format is not None:
        return _by_format(texts, where, cells.time_format), ()
    if cells.is_number(texts[0]) and all(cells.is_number(text) for text in texts):
        return np.array([cells.number(text) for text in texts]), ()
    if (usual := _by_usual_format(texts)) is not None:
        return usual
    import pandas as pd

    dates = pd.to_datetime(pd.Series(texts, dtype=object), errors="coerce", utc=True, format="ISO8601")
    if not bool(dates.isna().any()):
        offsets = [found.group(1) if (found := _OFFSET.search(text)) else "" for text in texts]
        return _plain(dates), _check_offsets(offsets, texts, where)
    return _by_form(texts, where, iso=~dates.isna().to_numpy())


def _from_datetimes(values: _Times, where: str) -> tuple[_Times, tuple[str, ...]]:
    aware = [value.tzinfo is not None for value in values]
    notes = _check_offsets(
        [str(value.utcoffset()) if value.tzinfo else "" for value in values], values.tolist(), where
    )
    if all(aware):
        values = np.array([value.astimezone(UTC).replace(tzinfo=None) for value in values])
    return values.astype("datetime64[us]"), notes


def _by_format(texts: Sequence[str], where: str, time_format: str) -> _Times:
    import pandas as pd

    try:
        dates = pd.to_datetime(pd.Series(texts, dtype=object), format=time_format, errors="coerce", utc=True)
    except ValueError as error:
        raise DataError(f"{where}: the time format {time_format!r} cannot be used ({error})") from error
    _check_all(dates, texts, where, f"which is not written as {time_format!r}; repair one of them")
    return _plain(dates)


def _by_usual_format(texts: Sequence[str]) -> tuple[_Times, tuple[str, ...]] | None:
    """Return dates with the year last if exactly one order of day and month fits all, else None.

    This is the fast way for most logs; `_by_form` reads the others, or says what is wrong with them.
    """
    found = re.fullmatch(_FORMS["year last"] + _CLOCK, texts[0])
    if found is None or found["half"] or found["offset"] or len(found["year"]) != 4:
        return None
    import pandas as pd

    clock = "" if not found["hour"] else " %H:%M" + (":%S" if found["second"] else "")
    clock += ".%f" if found["fraction"] else ""
    mark, series = found["mark"], pd.Series(texts, dtype=object)
    fitting = []
    for order, form in (("day first", "%d{0}%m{0}%Y"), ("month first", "%m{0}%d{0}%Y")):
        dates = pd.to_datetime(series, format=form.format(mark) + clock, errors="coerce")
        if not bool(dates.isna().any()):
            fitting.append((_plain(dates), (f"dates such as {texts[0]!r} are read with the {order}",)))
            if mark == ".":
                break
    return fitting[0] if len(fitting) == 1 else None


def _by_form(
    texts: Sequence[str], where: str, *, iso: npt.NDArray[np.bool_]
) -> tuple[_Times, tuple[str, ...]]:
    """Return dates of the form of the first row."""
    import pandas as pd

    series = pd.Series(texts, dtype=object)
    form = next((name for name, one in _FORMS.items() if re.fullmatch(one + _CLOCK, texts[0])), None)
    if form is None:
        row = int((~iso).argmax())
        raise DataError(
            f"{where} holds {shown(texts[row])} at row {row}, which is neither a number nor a date such as "
            f"2024-03-31 12:00:00; {_ASK}"
        )
    fields = series.str.extract(f"^{_FORMS[form]}{_CLOCK}$")
    unlike = f"which is no date like {texts[0]!r} in the first row; {_ASK}"
    _check_all(fields["year"], texts, where, unlike)
    if len(marks := fields["mark"].unique()) > 1:
        row = int((fields["mark"] != marks[0]).to_numpy().argmax())
        _refuse(texts[row], row, where, unlike)
    day, month, order = _day_and_month(fields, form, marks[0], texts, where)
    dates = _assemble(fields, day, month)
    _check_all(dates, texts, where, f"which is no date ({order}); repair it")
    notes = _check_offsets(fields["offset"].fillna("").tolist(), texts, where)
    return _plain(dates), (f"dates such as {texts[0]!r} are read with the {order}", *notes)


def _day_and_month(
    fields: pd.DataFrame, form: str, mark: str, texts: Sequence[str], where: str
) -> tuple[Any, Any, str]:
    """Return the days, the months and their order in words, or refuse a column that does not tell them."""
    if form == "month by name":
        names = fields["name"].str.lower()
        return fields["a"].astype(int), names.map(lambda name: [*_MONTHS, name].index(name) + 1), "day first"
    first, second = fields["a"].astype(int), fields["b"].astype(int)
    if form == "year first":
        return first, second, "year first"
    days_first, months_first = (first > 12).to_numpy(), (second > 12).to_numpy()
    if days_first.any() and months_first.any():
        one, other = texts[int(days_first.argmax())], texts[int(months_first.argmax())]
        raise DataError(f"{where} holds both {one!r} (day first) and {other!r} (month first); write one form")
    two_digit_years = mark != "." and bool((fields["year"].str.len() == 2).any())
    if two_digit_years or not (days_first.any() or months_first.any() or mark == "."):
        raise DataError(f"{where} does not show which number of {texts[0]!r} is the day; {_ASK}")
    if months_first.any():
        return second, first, "month first"
    return first, second, "day first"


def _assemble(fields: pd.DataFrame, day: Any, month: Any) -> pd.Series[Any]:
    """Return dates in UTC from their parts; NaT where there is no such date."""
    import pandas as pd

    year = fields["year"].astype(int)
    year = year.where(year >= 100, year + 2000)
    frame = pd.DataFrame({"year": year, "month": month, "day": day})
    hour = fields["hour"].fillna("0").astype(int)
    half = fields["half"].fillna("").str.lower().str[:1]
    hour = hour.where(half == "", hour % 12 + 12 * (half == "p"))
    minute, second = (fields[name].fillna("0").astype(int) for name in ("minute", "second"))
    parts = fields["offset"].fillna("").str.extract(r"^([+-])(\d{2}):?(\d{2})$")
    ahead = parts[1].fillna("0").astype(int) * 60 + parts[2].fillna("0").astype(int)
    ahead = ahead.where(parts[0] != "-", -ahead)
    nanoseconds = fields["fraction"].fillna("").str.ljust(9, "0").astype("int64")
    whole = (hour * 60 + minute - ahead) * 60 + second
    dates = pd.to_datetime(frame, errors="coerce").astype("datetime64[ns]")
    dates = dates + pd.to_timedelta(whole, unit="s") + pd.to_timedelta(nanoseconds, unit="ns")
    return dates.where((hour < 24) & (minute < 60) & (second < 60))


def _check_offsets(offsets: Sequence[str], texts: Sequence[Any], where: str) -> tuple[str, ...]:
    """Refuse offsets from UTC in some rows only; say that different ones were applied."""
    known = set(offsets)
    if "" in known and len(known) > 1:
        row = next(k for k, one in enumerate(offsets) if bool(one) != bool(offsets[0]))
        one, other = shown(str(texts[0])), shown(str(texts[row]))
        raise DataError(
            f"{where} holds {one} at row 0 and {other} at row {row}: only one of them has an offset from "
            "UTC; write all times with one, or none"
        )
    if len(known) > 1:
        return (f"times with the offsets {', '.join(sorted(known))} are read in UTC",)
    return ()


def _check_all(parsed: Any, texts: Sequence[str], where: str, what: str) -> None:
    if bool((wrong := parsed.isna().to_numpy()).any()):
        row = int(wrong.argmax())
        _refuse(texts[row], row, where, what)


def _refuse(text: str, row: int, where: str, what: str) -> None:
    raise DataError(f"{where} holds {shown(text)} at row {row}, {what}")


def _plain(dates: Any) -> _Times:
    if getattr(dates.dtype, "tz", None) is not None:
        dates = dates.dt.tz_localize(None)
    return np.asarray(dates.to_numpy())
