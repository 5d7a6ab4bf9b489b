"""Columns of any type as numbers, flags, episode numbers and times, or refused by column and row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg.errors import DataError

__all__ = ["as_episode_numbers", "as_flag_column", "as_number_column", "as_times"]

_Array = npt.NDArray[Any]
_TRUE, _FALSE = {"true", "1", "1.0", "yes"}, {"false", "0", "0.0", "no", ""}


def as_number_column(values: _Array, column: str, source: str) -> npt.NDArray[np.float64]:
    """Return float64 numbers, NaN where a value is missing.

    Example:
        >>> as_number_column(np.array(["1.5", None, "cold"], dtype=object), "temperature", "plant.csv")
        Traceback (most recent call last):
        ...
        nopg.errors.DataError: plant.csv: column 'temperature' holds 'cold' at row 2; a number is needed...
    """
    _check_vector(values, column, source)
    if values.dtype.kind in "fiub":
        return np.ascontiguousarray(values, dtype=np.float64)
    if values.dtype.kind not in "OUST":
        raise DataError(f"{source}: column {column!r} holds {values.dtype}; give real numbers")
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = math.nan if _is_missing(value) else float(value)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{source}: column {column!r} holds {_shown(value)} at row {row}; a number is needed there. "
                "Repair it, or leave it empty and give missing='drop'"
            ) from error
    return numbers


def as_flag_column(values: _Array, column: str, source: str) -> npt.NDArray[np.bool_]:
    """Return booleans from booleans, 0 and 1, or their words; a missing value is False."""
    _check_vector(values, column, source)
    if values.dtype.kind in "OUST":
        words = ["" if _is_missing(value) else str(value).strip().lower() for value in values]
        flags, wrong = np.array([word in _TRUE for word in words]), ~np.isin(words, [*_TRUE, *_FALSE])
    else:
        values = as_number_column(values, column, source)
        flags, wrong = values == 1, ~((values == 0) | (values == 1) | np.isnan(values))
    if bool(wrong.any()):
        row = int(wrong.argmax())
        shown = _shown(values[row]) if values.dtype.kind in "OUST" else f"{values[row]:g}"
        raise DataError(
            f"{source}: column {column!r} holds {shown} at row {row}; a flag is a boolean, 0 or 1. Compare "
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

    missing = np.array([_is_missing(value) for value in values])
    if bool(missing.any()):
        raise DataError(f"{source}: column {column!r} is empty at row {missing.argmax()}; name the episode")
    _, first, group = np.unique(values.astype(str), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.int64)[group.reshape(-1)]


def as_times(values: _Array, column: str, source: str) -> npt.NDArray[np.float64]:
    """Return times since the first row: seconds for dates, the column's own unit for numbers."""
    if values.dtype.kind in "Mm":
        missing = np.isnat(values)
        values = (values - values[:1] if values.dtype.kind == "M" else values) / np.timedelta64(1, "s")
    else:
        values = as_number_column(values, column, source)
        missing = ~np.isfinite(values)
    if bool(missing.any()):
        raise DataError(
            f"{source}: column {column!r} holds no time at row {missing.argmax()}; leave that row out"
        )
    return values.astype(np.float64)


def _check_vector(values: _Array, column: str, source: str) -> None:
    if values.ndim != 1:
        raise DataError(f"{source}: column {column!r} has shape {values.shape}; give one value per row")


def _is_missing(value: object) -> bool:
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    return bool(value != value)  # noqa: PLR0124  # NaN and pandas' NaT differ from themselves


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…"
