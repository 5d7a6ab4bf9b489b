"""How the cells of a table are written: decimal mark, words for missing values, format of time stamps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nopg.errors import ArgumentError

MISSING_WORDS = (
    *("", "-", "--", "?", "NaN", "NA", "N/A", "#N/A", "null", "None", "NaT", "<NA>"),
    *("Bad", "Bad Input", "I/O Timeout", "No Data", "Not Connect", "Pt Created", "Shutdown"),
    *("#DIV/0!", "#VALUE!", "#NUM!", "#REF!", "#NAME?"),
)
"""Words that historians and spreadsheets write where a value is missing, in any case."""

_TRUE, _FALSE = ("true", "on"), ("false", "off")
_GROUPED = re.compile(r"[+-]?\d{1,3}([.,' \u00a0\u202f]\d{3})+([.,]\d*)?")


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
            raise ArgumentError(f"na is {na!r}; give a list of words, e.g. na=['Bad', '-9999']")
        if time_format is not None and (not isinstance(time_format, str) or "%" not in time_format):
            raise ArgumentError(f"time_format is {time_format!r}; give one such as '%d.%m.%Y %H:%M:%S'")
        words = frozenset(str(word).strip().lower() for word in na)
        sentinels = tuple(number for word in na if (number := _number_of(word)) is not None)
        return cls(cls().words | words, sentinels, time_format=time_format)

    def is_missing(self, value: object) -> bool:
        """Return whether a cell holds nothing, NaN, or a word for a missing value."""
        if isinstance(value, str):
            return value.strip().lower() in self.words
        return is_missing(value)

    def number(self, value: Any) -> float:
        """Return the number that a cell holds; ValueError or TypeError if it is none.

        Example:
            >>> CellFormat(decimal=",").number("1,5")
            1.5
        """
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if not isinstance(value, str):
            return float(value)
        if "_" in value or (self.decimal != "." and "." in value):  # Python reads 1_000 as a number
            raise ValueError(value)
        number = float(value.replace(self.decimal, ".") if self.decimal != "." else value)
        if number != number:  # noqa: PLR0124  # NaN is a word to count
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
            return f"Its decimal mark seems to be another than {self.decimal!r}: give decimal=…"
        if row == 0:
            return "If it belongs to the heading, keep one line of names and at most one of units"
        return "Repair it; if it means a missing value, name it with na=… and give missing='drop'"


def truth(value: object) -> float | None:
    """Return 1 or 0 for a word that is true or false, else None."""
    word = str(value).strip().lower()
    return 1.0 if word in _TRUE else 0.0 if word in _FALSE else None


def is_missing(value: object) -> bool:
    """Return whether a value of any type is None, blank, NaN, or pandas' NaT or NA."""
    if value is None or (isinstance(value, str) and not value.strip()) or type(value).__name__ == "NAType":
        return True
    return bool(value != value)  # noqa: PLR0124  # NaN and NaT differ from themselves


def _number_of(word: str | float) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return None if number != number else number  # noqa: PLR0124


def shown(value: object) -> str:
    """Return a value as an error shows it."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…"


def listed(values: Sequence[str]) -> str:
    """Return names as an error shows them."""
    return ", ".join(values[:10]) + (", …" if len(values) > 10 else "")
