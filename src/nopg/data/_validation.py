"""Checks on entry: shapes, finite numbers, flags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from nopg._typing import ArrayLike
from nopg.errors import DataError

__all__ = ["as_flags", "as_matrix", "as_vector", "as_weights", "invalid_rows"]

_ROWS_SHOWN = 5


def as_matrix(name: str, array: ArrayLike) -> torch.Tensor:
    """Return a float64 (n, d) tensor; a vector becomes one column."""
    tensor = _as_float(name, array)
    if tensor.ndim == 1:
        tensor = tensor[:, None]
    if tensor.ndim != 2:
        raise DataError(
            f"{name} has {tensor.ndim} dimensions, shape {tuple(tensor.shape)}; give (rows, columns)"
        )
    if tensor.shape[1] == 0:
        raise DataError(f"{name} has no columns; give at least one")
    return tensor


def as_vector(name: str, array: ArrayLike) -> torch.Tensor:
    """Return a float64 (n,) tensor; a single column becomes a vector."""
    tensor = _as_float(name, array)
    if tensor.ndim == 2 and tensor.shape[1] == 1:
        tensor = tensor[:, 0]
    if tensor.ndim != 1:
        raise DataError(f"{name} has shape {tuple(tensor.shape)}; give one number per row")
    return tensor


def as_flags(name: str, array: ArrayLike | None, rows: int) -> torch.Tensor:
    """Return a boolean (n,) tensor from booleans or zeros and ones; None means no flag is set."""
    if array is None:
        return torch.zeros(rows, dtype=torch.bool)

    values = as_vector(name, array)
    wrong = ~((values == 0) | (values == 1))
    if bool(wrong.any()):
        raise DataError(
            f"{name} must hold booleans or 0 and 1; row {_rows(wrong)} has {values[wrong][0].item():g}. "
            "Compare first, e.g. done > 0.5"
        )
    return values.bool()


def as_weights(array: ArrayLike, rows: int) -> torch.Tensor:
    """Return float64 weights (n,), none of them zero or negative."""
    weights = as_vector("weights", array)
    if len(weights) != rows:
        raise DataError(f"weights has {len(weights)} rows, states have {rows}; give one number per row")
    wrong = weights <= 0
    if bool(wrong.any()):
        raise DataError(
            f"weights must be positive; row {_rows(wrong)} has {weights[wrong][0].item():g}. Leave out rows "
            "that stand for nothing"
        )
    return weights


def invalid_rows(name: str, tensor: torch.Tensor, columns: Sequence[str]) -> tuple[torch.Tensor, list[str]]:
    """Return which rows hold NaN or infinities, and a sentence per column that says where."""
    table = tensor if tensor.ndim == 2 else tensor[:, None]
    findings = []
    for k, column in enumerate(columns):
        label = name if tensor.ndim == 1 else f"{name} column {column!r}"
        for kind, wrong in (("NaN", table[:, k].isnan()), ("infinite values", table[:, k].isinf())):
            if bool(wrong.any()):
                findings.append(f"{label} has {int(wrong.sum())} {kind} (rows {_rows(wrong)})")
    return ~table.isfinite().all(dim=1), findings


def _as_float(name: str, array: ArrayLike) -> torch.Tensor:
    """Return a copy, so that what happens to the array later cannot undo the checks."""
    if isinstance(array, torch.Tensor):
        if array.is_complex():
            raise DataError(f"{name} is complex; give real numbers")
        return array.detach().to(torch.float64, copy=True)

    try:
        values = np.asanyarray(array)
    except ValueError as error:
        raise DataError(f"{name} has rows of different lengths; give one number per column") from error
    if values.dtype.kind not in "fiub":
        raise DataError(
            f"{name} has dtype {values.dtype}; give real numbers (text or objects cannot be used)"
        )
    return torch.as_tensor(np.ma.filled(values.astype(np.float64), np.nan))  # what is masked is missing


def _rows(mask: torch.Tensor) -> str:
    rows = mask.nonzero()[:, 0].tolist()
    shown = ", ".join(str(row) for row in rows[:_ROWS_SHOWN])
    return shown + (", …" if len(rows) > _ROWS_SHOWN else "")
