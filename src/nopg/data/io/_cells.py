"""Cells of a table: numbers, flags, episodes and time stamps from columns of any type."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nopg.data._checks import Source, flags_of
from nopg.errors import ArgumentError, DataError

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]
MISSING_WORDS = (
    *("", "-", "--", "?", "NaN", "NA", "N/A", "#N/A", "null", "None", "NaT", "<NA>"),
    *("Bad", "Bad Input", "I/O Timeout", "No Data", "Not Connect", "Pt Created", "Shutdown"),
    *("#DIV/0!", "#VALUE!", "#NUM!", "#REF!", "#NAME?"),
)
"""Words that historians and spreadsheets write where a value is missing, in any case."""

_SWITCH = {"true": 1.0, "on": 1.0, "false": 0.0, "off": 0.0}
_FLAG = {**_SWITCH, "1": 1.0, "1.0": 1.0, "yes": 1.0, "0": 0.0, "0.0": 0.0, "no": 0.0}
_GROUPED = re.compile(r"[+-]?\d{1,3}([.,' \u00a0\u202f]\d{3})+([.,]\d*)?")

_DATE = re.compile(
    r"(?P<one>\d{4}|\d{1,2})(?P<mark>[./ -])(?P<two>\d{1,2}|[A-Za-z]{3,9})(?P=mark)(?P<three>\d{4}|\d{1,2})"
    r"(?:[ T,]+(?P<hour>\d{1,2})(?P<clock>:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?)"
    r"\s*(?:(?P<half>[AaPp])\.?[Mm]\.?)?)?\s*(?P<offset>Z|UTC|[+-]\d{2}:?\d{2})?"
)
# Dates in digits alone, with or without hours, minutes and seconds.
_COMPACT = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(([01]\d|2[0-3])([0-5]\d){0,2})?")
_OFFSET = re.compile(r"[T ].*(Z|UTC|[+-]\d{2}(?::?\d{2})?)$")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ASK = "say how to read it by a time format, e.g. '%d.%m.%Y %H:%M:%S'"


@dataclass(frozen=True, slots=True)
class CellFormat:
    """How the cells of a table are written.

    Attributes:
        words: Words for a missing value, in lower case.
        sentinels: Numbers that mean a missing value, such as −9999.
        decimal: The decimal mark.
        time_format: Format of time stamps as text, e.g. `%d.%m.%Y %H:%M`; found from the column if None.
    """

    words: frozenset[str] = frozenset(word.lower() for word in MISSING_WORDS)
    sentinels: tuple[float, ...] = ()
    decimal: str = "."
    time_format: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> CellFormat:
        """Return the format with the words `na` and the `time_format` that a reader was given."""
        na, time_format = given.get("na") or (), given.get("time_format")
        if isinstance(na, str) or not all(isinstance(word, str | int | float) for word in na):
            raise ArgumentError(f"the words for missing values are {na!r}; list them: ['Bad', '-9999']")
        if time_format is not None and (not isinstance(time_format, str) or "%" not in time_format):
            raise ArgumentError(f"the time format is {time_format!r}; give one such as '%d.%m.%Y %H:%M:%S'")
        words = frozenset(str(word).strip().lower() for word in na)
        numbers = [cls().number(word) for word in na if cls().is_number(word)]
        return cls(cls().words | words, tuple(numbers), time_format=time_format)

    def is_missing(self, value: object) -> bool:
        """Return whether a cell holds nothing, NaN, NaT, NA, or a word for a missing value."""
        if isinstance(value, str):
            return value.strip().lower() in self.words
        if value is None or type(value).__name__ == "NAType":
            return True
        return bool(value != value)  # noqa: PLR0124  # NaN and NaT differ from themselves

    def number(self, value: Any) -> float:
        """Return the number that a cell holds; ValueError or TypeError if it is none."""
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if not isinstance(value, str):
            return float(value)
        if "_" in value or (self.decimal != "." and "." in value):  # Python reads 1_000 as a number
            raise ValueError(value)
        number = float(value.replace(self.decimal, ".") if self.decimal != "." else value)
        if math.isnan(number):  # a word to count
            raise ValueError(value)
        return number

    def is_number(self, value: Any) -> bool:
        """Return whether a cell holds a number."""
        try:
            self.number(value)
        except (TypeError, ValueError):
            return False
        return True

    def advice(self, value: object, row: int) -> str:
        """Return what to try about a cell of a row that holds no number."""
        text = str(value).strip()
        if _GROUPED.fullmatch(text):
            return "It seems to have thousands separators: export numbers without them"
        if self.is_number(text.translate({ord("."): ",", ord(","): "."})):
            return f"Its decimal mark seems to be another than {self.decimal!r}: name the decimal mark"
        if row == 0:
            return "If it belongs to the heading, keep one line of names and at most one of units"
        return (
            "Repair it; if it means a missing value, add it to the words for these, with a rule such as drop"
        )


def number_column(
    values: Array, column: str, source: Source, cells: CellFormat
) -> tuple[npt.NDArray[np.float64], Counter[str]]:
    """Return float64 numbers, NaN where a value is missing, and how often which word was read as what.

    Example:
        >>> number_column(np.array(["1.5", "Bad", "bad"]), "level", Source("plant.csv"), CellFormat())
        (array([1.5, nan, nan]), Counter({"missing word 'Bad'": 1, "missing word 'bad'": 1}))
    """
    _check_vector(values, column, source)
    counts = Counter[str]()
    if values.dtype.kind in "fiub":
        numbers = np.array(values, dtype=np.float64)
    elif values.dtype.kind in "OUST":
        numbers, others = np.full(len(values), math.nan), []
        for row, value in enumerate(values.tolist()):
            try:
                numbers[row] = cells.number(value)
            except (TypeError, ValueError):
                if not cells.is_missing(value):
                    others.append(row)
                elif isinstance(value, str) and value.strip():
                    counts[f"missing word {value.strip()!r}"] += 1
        # Words such as "on" are numbers where all others are 0 and 1.
        switches = bool(np.isin(numbers[np.isfinite(numbers)], [0.0, 1.0]).all())
        for row in others:
            word = str(values[row]).strip()
            if not switches or word.lower() not in _SWITCH:
                raise DataError(
                    f"{source}: column {column!r} holds {shown(values[row])} at {source.rows([row])}; a "
                    f"number is needed there. {cells.advice(values[row], row)}"
                )
            numbers[row] = _SWITCH[word.lower()]
            counts[f"word {word!r} read as {numbers[row]:g}"] += 1
    else:
        raise DataError(f"{source}: column {column!r} holds {values.dtype}; give real numbers")
    for sentinel in cells.sentinels:
        if found := int((numbers == sentinel).sum()):
            numbers = np.where(numbers == sentinel, np.nan, numbers)
            counts[f"missing value {sentinel:g}"] += found
    return numbers, counts


def flag_column(values: Array, column: str, source: Source) -> npt.NDArray[np.bool_]:
    """Return booleans from booleans, 0 and 1, or their words; a missing value is False."""
    _check_vector(values, column, source)
    plain, what = CellFormat(), f"{source}: the flags of column {column!r} must be booleans or 0 and 1;"
    if values.dtype.kind not in "OUST":
        return flags_of(np.nan_to_num(number_column(values, column, source, plain)[0]), what, source)
    words = ["0" if plain.is_missing(value) else str(value).strip().lower() for value in values]
    if wrong := [row for row, word in enumerate(words) if word not in _FLAG]:
        held = f"{source.rows(wrong[:1])} has {shown(values[wrong[0]])}"
        raise DataError(f"{what} {held}. Compare first, e.g. done > 0.5")
    return np.array([_FLAG[word] == 1.0 for word in words])


def episode_column(values: Array, column: str, source: Source) -> npt.NDArray[np.int64]:
    """Return whole numbers as they are; names are numbered by first appearance."""
    _check_vector(values, column, source)
    if values.dtype.kind in "iub":
        if values.dtype.kind == "u" and bool((values > np.iinfo(np.int64).max).any()):
            raise DataError(f"{source}: column {column!r} holds numbers beyond 2⁶³; number the episodes anew")
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        if bool((wrong := ~((values == values.round()) & (np.abs(values) <= 2**53))).any()):
            row = int(wrong.argmax())
            raise DataError(
                f"{source}: column {column!r} holds {values[row]:g} at {source.rows([row])}; an episode is a "
                "whole number or a name"
            )
        return values.astype(np.int64)
    missing = [CellFormat().is_missing(value) for value in values]
    if any(missing):
        row = missing.index(True)
        raise DataError(
            f"{source}: column {column!r} holds {shown(values[row])}, a missing value, at "
            f"{source.rows([row])}; name the episode"
        )
    _, first, group = np.unique(values.astype(str), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.int64)[group.reshape(-1)]


def time_column(
    values: Array, column: str, source: Source, cells: CellFormat
) -> tuple[npt.NDArray[np.float64], bool, tuple[str, ...]]:
    """Return times, in seconds since the first row for dates, whether they are, and how they were read."""
    notes: tuple[str, ...] = ()

    def refuse(wrong: Any, what: str) -> None:
        """Refuse the first of the rows that are wrong, if there are any."""
        if (flags := np.asarray(wrong, dtype=bool)).any():
            row = int(flags.argmax())
            held = f"holds {shown(str(values[row]).strip())}" if what.startswith(", ") else "holds no time"
            raise DataError(f"{source}: column {column!r} {held} at {source.rows([row])}{what}")

    absent = "; leave that row out"
    if cells.time_format is not None and values.dtype.kind in "iuf":
        values = np.array([f"{value:.0f}" for value in values])
    if values.dtype.kind in "OUST":
        refuse([cells.is_missing(value) for value in values], absent)
        values, notes = _parsed(values, f"{source}: column {column!r}", source, cells, refuse)
    if has_dates := values.dtype.kind in "Mm":
        refuse(np.isnat(values), absent)
        values = (values - values[:1] if values.dtype.kind == "M" else values) / np.timedelta64(1, "s")
    else:
        values = number_column(values, column, source, cells)[0]
        refuse(~np.isfinite(values), absent)
        if all(_COMPACT.fullmatch(f"{value:.17g}") for value in (values.min(), values.max())):
            what = f"column {column!r} holds {values[0]:.17g} at {source.rows([0])}, which looks like a date"
            raise DataError(f"{source}: {what}; say how to read it by a time format, e.g. '%Y%m%d%H%M'")
    return values.astype(np.float64), has_dates, notes


def _parsed(
    values: Array, where: str, source: Source, cells: CellFormat, refuse: Callable[[Any, str], None]
) -> tuple[Array, tuple[str, ...]]:
    """Return dates as datetime64 in UTC, and how they were read; numbers as text as float64."""
    import pandas as pd

    texts, notes = [str(value).strip() for value in values], tuple[str, ...]()
    series, offsets = pd.Series(texts, dtype=object), [_OFFSET.search(text) for text in texts]
    written = ["" if one is None else one[1] for one in offsets]
    if (form := cells.time_format) is not None:
        try:
            dates = pd.to_datetime(series, format=form, errors="coerce", utc=True)
        except ValueError as error:
            raise DataError(f"{where}: the time format {form!r} cannot be used ({error})") from error
        refuse(dates.isna(), f", which is not written as {form!r}; repair one of them")
        written = []
    elif cells.is_number(texts[0]):
        refuse(
            [not cells.is_number(text) for text in texts],
            f", which is not a number like {texts[0]!r} in the first row; repair it, or leave that row out",
        )
        return np.array([cells.number(text) for text in texts]), ()
    else:
        stated = series.mask(series.str.isalpha())  # pandas knows 'now' and 'today'
        dates = pd.to_datetime(stated, errors="coerce", utc=True, format="ISO8601")
        if dates.isna().any():
            if _DATE.fullmatch(texts[0]) is None:
                what = ", which is neither a number nor a date such as 2024-03-31 12:00"
                refuse(dates.isna(), f"{what}; {_ASK}")
            dates, order = _dates(series, where, refuse)
            notes = (f"dates such as {texts[0]!r} are read with the {order}",)
    known = {*written}
    if len(known) > 1 and "" in known:
        row = next(k for k, one in enumerate(written) if bool(one) != bool(written[0]))
        raise DataError(
            f"{where} holds {shown(texts[0])} at {source.rows([0])} and {shown(texts[row])} at "
            f"{source.rows([row])}: only one of them has an offset from UTC; write all with one, or none"
        )
    if len(known) > 1:
        notes += (f"times with the offsets {', '.join(sorted(known))} are read in UTC",)
    return np.asarray(dates.dt.tz_localize(None).to_numpy()), notes


def _dates(
    series: pd.Series[Any], where: str, refuse: Callable[[Any, str], None]
) -> tuple[pd.Series[Any], str]:
    """Return dates that are not written as in ISO 8601, and the order of their fields in words."""
    import pandas as pd

    fields = series.str.extract(f"^{_DATE.pattern}$")
    one, two, three = fields["one"], fields["two"], fields["three"]
    alike = (fields["mark"] == fields["mark"][0]) & one.str.len().gt(2).eq(len(one[0]) > 2)
    alike &= two.str.isalpha().eq(two[0].isalpha())
    refuse(~alike, f", which is not a date like {series[0]!r} in the first row; {_ASK}")
    if two[0].isalpha():
        two = two.str[:3].str.lower().map(lambda name: [*_MONTHS, name].index(name) + 1)
    year, month, day = three.astype(int), two.astype(int), one.astype(int)
    order, dots = "day first", fields["mark"][0] == "."
    if len(one[0]) > 2:
        year, day, order = day, year, "year first"
    elif not fields["two"][0].isalpha():
        days_first, months_first = day.gt(12).to_numpy(), month.gt(12).to_numpy()
        if days_first.any() and months_first.any():
            raise DataError(
                f"{where} holds both {series[days_first.argmax()]!r} (day first) and "
                f"{series[months_first.argmax()]!r} (month first); write one form"
            )
        short = not dots and bool((three.str.len() < 4).any())
        if short or not (days_first.any() or months_first.any() or dots):
            raise DataError(f"{where} does not show which number of {series[0]!r} is the day; {_ASK}")
        if months_first.any():
            month, day, order = day, month, "month first"
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
    refuse(dates.isna(), f", which is not a date ({order}); repair it")
    return dates, order


def shown(value: object) -> str:
    """Return a value as an error shows it."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 40 else text[:37] + "…"


def listed(values: Sequence[str]) -> str:
    """Return names as an error shows them."""
    return ", ".join(values[:20]) + (", …" if len(values) > 20 else "") if values else "nothing"


def _check_vector(values: Array, column: str, source: Source) -> None:
    if values.ndim != 1:
        raise DataError(f"{source}: column {column!r} has shape {values.shape}; give one value per row")
