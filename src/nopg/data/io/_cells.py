"""Cells of a table: numbers, flags and names of episodes from columns of any type."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg.data._checks import Source
from nopg.errors import ArgumentError, DataError

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
            "Repair it; if it means a missing value, add it to the words for missing values, and give a rule "
            "for them, such as drop"
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
        numbers = np.ascontiguousarray(values, dtype=np.float64)
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
    plain = CellFormat()
    if values.dtype.kind in "OUST":
        words = ["0" if plain.is_missing(value) else str(value).strip().lower() for value in values]
        numbers = np.array([_FLAG.get(word, -1.0) for word in words])
    else:
        numbers = np.nan_to_num(number_column(values, column, source, plain)[0])
    if bool((wrong := ~np.isin(numbers, [0.0, 1.0])).any()):
        row = int(wrong.argmax())
        found = shown(values[row]) if values.dtype.kind in "OUST" else f"{values[row]:g}"
        raise DataError(
            f"{source}: column {column!r} holds {found} at {source.rows([row])}; a flag is a boolean, 0 or "
            "1. Compare first, e.g. done > 0.5"
        )
    return np.asarray(numbers == 1.0)


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
