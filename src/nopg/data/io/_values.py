"""Columns of any type as numbers, flags, episode numbers and times, or refused by column and row."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg.data.io._cells import CellFormat, is_missing, shown, truth
from nopg.data.io._time_stamps import parse_times
from nopg.errors import DataError

_Array = npt.NDArray[Any]
_TRUE, _FALSE = {"true", "1", "1.0", "yes", "on"}, {"false", "0", "0.0", "no", "off", ""}
_PLAIN = CellFormat()
# Rows that are read at once; one word in a block makes the whole block slow.
_BLOCK = 64


def as_number_column(
    values: _Array, column: str, source: str, cells: CellFormat = _PLAIN
) -> npt.NDArray[np.float64]:
    """Return float64 numbers, NaN where a value is missing.

    Example:
        >>> as_number_column(np.array(["1.5", None, "cold"], dtype=object), "temperature", "plant.csv")
        Traceback (most recent call last):
        ...
        nopg.errors.DataError: plant.csv: column 'temperature' holds 'cold' at row 2; a number is needed...
    """
    return number_column(values, column, source, cells)[0]


def number_column(
    values: _Array, column: str, source: str, cells: CellFormat
) -> tuple[npt.NDArray[np.float64], Counter[str]]:
    """Return float64 numbers, and how often which word was read as what.

    Example:
        >>> number_column(np.array(["1.5", "Bad", "bad"]), "level", "plant.csv", CellFormat())
        (array([1.5, nan, nan]), Counter({"missing word 'Bad'": 1, "missing word 'bad'": 1}))
    """
    _check_vector(values, column, source)
    if values.dtype.kind in "fiub":
        numbers, counts = np.ascontiguousarray(values, dtype=np.float64), Counter[str]()
    elif values.dtype.kind in "OUST":
        numbers, counts = _numbers_in_text(values, column, source, cells)
    else:
        raise DataError(f"{source}: column {column!r} holds {values.dtype}; give real numbers")
    for sentinel in cells.sentinels:
        if found := int((numbers == sentinel).sum()):
            numbers = np.where(numbers == sentinel, np.nan, numbers)
            counts[f"missing value {sentinel:g}"] += found
    return numbers, counts


def _numbers_in_text(
    values: _Array, column: str, source: str, cells: CellFormat
) -> tuple[npt.NDArray[np.float64], Counter[str]]:
    numbers, counts, others = np.full(len(values), math.nan), Counter[str](), []
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK].tolist()
        if (quick := _plain_numbers(block, cells)) is not None:
            numbers[start : start + len(block)] = quick
            continue
        for row, value in enumerate(block, start):
            try:
                numbers[row] = cells.number(value)
            except (TypeError, ValueError):
                if not cells.is_missing(value):
                    others.append(row)
                elif isinstance(value, str) and value.strip():
                    counts[f"missing word {value.strip()!r}"] += 1
    switches = others and bool(np.isin(numbers[np.isfinite(numbers)], [0.0, 1.0]).all())
    for row in others:
        number = truth(values[row]) if switches else None
        if number is None:
            raise DataError(
                f"{source}: column {column!r} holds {shown(values[row])} at row {row}; a number is needed "
                f"there. {cells.advice(values[row], row)}"
            )
        numbers[row] = number
        counts[f"word {str(values[row]).strip()!r} read as {number:g}"] += 1
    return numbers, counts


def _plain_numbers(block: list[Any], cells: CellFormat) -> list[float] | None:
    """Return the numbers of a block of text that holds nothing else, else None; much faster than by cell."""
    try:
        text = "\n".join(block)
        if "_" in text or (cells.decimal != "." and "." in text):
            return None
        found = list(map(float, text.replace(cells.decimal, ".").split("\n")))
    except (TypeError, ValueError):
        return None
    return found if len(found) == len(block) and not any(map(math.isnan, found)) else None


def as_flag_column(values: _Array, column: str, source: str) -> npt.NDArray[np.bool_]:
    """Return booleans from booleans, 0 and 1, or their words; a missing value is False."""
    _check_vector(values, column, source)
    if values.dtype.kind in "OUST":
        words = ["" if _PLAIN.is_missing(value) else str(value).strip().lower() for value in values]
        flags, wrong = np.array([word in _TRUE for word in words]), ~np.isin(words, [*_TRUE, *_FALSE])
    else:
        values = as_number_column(values, column, source)
        flags, wrong = values == 1, ~((values == 0) | (values == 1) | np.isnan(values))
    if bool(wrong.any()):
        row = int(wrong.argmax())
        found = shown(values[row]) if values.dtype.kind in "OUST" else f"{values[row]:g}"
        raise DataError(
            f"{source}: column {column!r} holds {found} at row {row}; a flag is a boolean, 0 or 1. Compare "
            "first, e.g. done > 0.5"
        )
    return flags


def as_episode_numbers(values: _Array, column: str, source: str) -> npt.NDArray[np.int64]:
    """Return whole numbers as they are; names are numbered by first appearance."""
    _check_vector(values, column, source)
    if values.dtype.kind in "iub":
        if values.dtype.kind == "u" and bool((values > np.iinfo(np.int64).max).any()):
            raise DataError(f"{source}: column {column!r} holds numbers beyond 2⁶³; number the episodes anew")
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        wrong = ~np.isfinite(values) | (values != np.round(values)) | (np.abs(values) > 2**53)
        if bool(wrong.any()):
            row = int(wrong.argmax())
            raise DataError(
                f"{source}: column {column!r} holds {values[row]:g} at row {row}; an episode is a whole "
                "number or a name"
            )
        return values.astype(np.int64)

    missing = np.array([_PLAIN.is_missing(value) for value in values])
    if bool(missing.any()):
        row = int(missing.argmax())
        found = "is empty" if is_missing(values[row]) else f"holds {shown(values[row])}, a missing value,"
        raise DataError(f"{source}: column {column!r} {found} at row {row}; name the episode")
    _, first, group = np.unique(values.astype(str), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.int64)[group.reshape(-1)]


def as_times(
    values: _Array, column: str, source: str, cells: CellFormat = _PLAIN
) -> tuple[npt.NDArray[np.float64], bool, tuple[str, ...]]:
    """Return times since the first row, whether they were dates, and how they were read.

    Times are in seconds for dates, in the column's own unit for numbers.
    """
    notes: tuple[str, ...] = ()
    if values.dtype.kind in "OUST" or (cells.time_format is not None and values.dtype.kind in "iu"):
        values, notes = parse_times(values, column, source, cells)
    if has_dates := values.dtype.kind in "Mm":
        missing = np.isnat(values)
        values = (values - values[:1] if values.dtype.kind == "M" else values) / np.timedelta64(1, "s")
    else:
        values = as_number_column(values, column, source, cells)
        missing = ~np.isfinite(values)
    if bool(missing.any()):
        raise DataError(
            f"{source}: column {column!r} holds no time at row {missing.argmax()}; leave that row out"
        )
    return values.astype(np.float64), has_dates, notes


def _check_vector(values: _Array, column: str, source: str) -> None:
    if values.ndim != 1:
        raise DataError(f"{source}: column {column!r} has shape {values.shape}; give one value per row")
