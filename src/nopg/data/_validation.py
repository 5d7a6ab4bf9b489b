"""Checks of arrays on entry: shapes, finite numbers, flags, episodes, starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch

from nopg._typing import ArrayLike
from nopg.errors import ArgumentError, DataError

__all__ = [
    "Invalid",
    "as_episode_numbers",
    "as_flags",
    "as_matrix",
    "as_starts",
    "as_vector",
    "as_weights",
    "check_invalid",
    "check_shapes",
    "invalid_rows",
]

Invalid = Literal["raise", "drop"]
_ROWS_SHOWN = 5


def check_invalid(invalid: str) -> None:
    """Refuse an unknown treatment of invalid rows."""
    if invalid not in get_args(Invalid):
        raise ArgumentError(f"invalid is {invalid!r}; give one of {', '.join(get_args(Invalid))}")


def check_shapes(s: torch.Tensor, a: torch.Tensor, r: torch.Tensor, s_next: torch.Tensor) -> None:
    """Refuse an empty dataset, unequal numbers of rows and unequal columns of states and next states."""
    rows = {"states": len(s), "actions": len(a), "rewards": len(r), "next_states": len(s_next)}
    if len(s) == 0:
        raise DataError("the dataset is empty; give at least one transition")
    if len(set(rows.values())) > 1:
        raise DataError(
            "unequal numbers of rows: "
            + ", ".join(f"{name} {count}" for name, count in rows.items())
            + "; every transition needs its state, action, reward and next state"
        )
    if s.shape[1] != s_next.shape[1]:
        raise DataError(
            f"states have {s.shape[1]} columns, next_states {s_next.shape[1]}; give the same columns"
        )


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


def as_vector(name: str, array: ArrayLike, rows: int | None = None) -> torch.Tensor:
    """Return a float64 (n,) tensor, of `rows` entries if given; a single column becomes a vector."""
    tensor = _as_float(name, array)
    if tensor.ndim == 2 and tensor.shape[1] == 1:
        tensor = tensor[:, 0]
    if tensor.ndim != 1:
        raise DataError(f"{name} has shape {tuple(tensor.shape)}; give one number per row")
    if rows is not None and len(tensor) != rows:
        raise DataError(f"{name} has {len(tensor)} rows, states have {rows}; give one entry per row")
    return tensor


def as_flags(name: str, array: ArrayLike | None, rows: int) -> torch.Tensor:
    """Return a boolean (n,) tensor from booleans or zeros and ones; None means no flag is set."""
    if array is None:
        return torch.zeros(rows, dtype=torch.bool)
    values = as_vector(name, array, rows)
    if bool((wrong := ~((values == 0) | (values == 1))).any()):
        raise DataError(
            f"{name} must hold booleans or 0 and 1; row {_rows(wrong)} has {values[wrong][0].item():g}. "
            "Compare first, e.g. done > 0.5"
        )
    return values.bool()


def as_weights(array: ArrayLike, rows: int) -> torch.Tensor:
    """Return float64 weights (n,), all of them positive."""
    weights = as_vector("weights", array, rows)
    if bool((wrong := weights <= 0).any()):
        raise DataError(
            f"weights must be positive; row {_rows(wrong)} has {weights[wrong][0].item():g}. Leave out rows "
            "that count for nothing"
        )
    return weights


def as_episode_numbers(episodes: ArrayLike, rows: int) -> torch.Tensor:
    """Return whole numbers (n,)."""
    numbers = as_vector("episodes", episodes, rows)
    if not bool((numbers.isfinite() & (numbers == numbers.round())).all()):
        raise DataError("episodes must be whole numbers, one per row")
    # From the integers themselves: float64 would merge those beyond 2⁵³.
    return torch.as_tensor(np.asarray(episodes).astype(np.int64).reshape(-1))


def as_starts(initial_states: ArrayLike, columns: int) -> torch.Tensor:
    """Return raw states (n₀, d_s); a vector is one state."""
    starts = as_matrix("initial_states", initial_states)
    if np.ndim(initial_states) == 1 and columns > 1:
        starts = starts.T
    if starts.shape[1] != columns:
        raise DataError(f"initial_states have {starts.shape[1]} columns, states have {columns}")
    if not bool(starts.isfinite().all()) or len(starts) == 0:
        raise DataError("initial_states must hold at least one state and finite numbers only")
    return starts


def invalid_rows(name: str, tensor: torch.Tensor, columns: Sequence[str]) -> tuple[torch.Tensor, list[str]]:
    """Return which rows hold NaN or infinities, and a message per column that names them."""
    table = tensor if tensor.ndim == 2 else tensor[:, None]
    findings = []
    for k, column in enumerate(columns):
        label = name if tensor.ndim == 1 else f"{name} column {column!r}"
        for kind, wrong in (("NaN", table[:, k].isnan()), ("infinite values", table[:, k].isinf())):
            if bool(wrong.any()):
                findings.append(f"{label} has {int(wrong.sum())} {kind} (rows {_rows(wrong)})")
    return ~table.isfinite().all(dim=1), findings


def _as_float(name: str, array: ArrayLike) -> torch.Tensor:
    """Return a copy, because later changes of the array would bypass the checks."""
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
    return torch.as_tensor(np.ma.filled(values.astype(np.float64), np.nan))  # masked means missing


def _rows(mask: torch.Tensor) -> str:
    rows = mask.nonzero()[:, 0].tolist()
    shown = ", ".join(str(row) for row in rows[:_ROWS_SHOWN])
    return shown + (", …" if len(rows) > _ROWS_SHOWN else "")
