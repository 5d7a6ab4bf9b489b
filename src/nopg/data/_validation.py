"""Checks of rows on entry: shapes, finite numbers, flags, episodes, weights, starts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from nopg._typing import ArrayLike
from nopg.data._magnitudes import check_magnitudes
from nopg.data._schema import Schema
from nopg.errors import ArgumentError, DataError

Invalid = Literal["raise", "drop"]
_ROWS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Source:
    """The name of a log in errors, and how its rows are counted there.

    Attributes:
        name: A file, "the table".
        lines: File and lines of the rows, for each file of text; else rows are counted from 0.

    Example:
        >>> Source("log.csv", (("log.csv", np.array([2, 3, 5])),)).rows([0, 2])
        'lines 2, 5'
        >>> Source("the table").rows([7])
        'row 7'
    """

    name: str = ""
    lines: tuple[tuple[str, npt.NDArray[np.int64]], ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def prefix(self) -> str:
        """What an error about the log begins with."""
        return f"{self.name}: " if self.name else ""

    def rows(self, numbers: Sequence[int] | npt.NDArray[Any]) -> str:
        """Return rows of the log in words, the first few of many."""
        shown = [int(number) for number in numbers[:_ROWS_SHOWN]]
        more, plural = ", …" if len(numbers) > len(shown) else "", "s" if len(numbers) > 1 else ""
        if not self.lines:
            return f"row{plural} {', '.join(map(str, shown))}{more}"
        ends = np.cumsum([len(lines) for _, lines in self.lines])
        places = []
        for number in shown:
            file = int(np.searchsorted(ends, number, side="right"))
            name, lines = self.lines[file]
            line = lines[number - int(ends[file]) + len(lines)]
            places.append(str(line) if len(self.lines) == 1 else f"{line} of {name}")
        return f"line{plural} {', '.join(places)}{more}"


_ARRAYS = Source()


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
    if bool((wrong := ~((values == 0) | (values == 1))).any()):
        row = int(wrong.nonzero()[0, 0])
        raise DataError(
            f"{name} must hold booleans or 0 and 1; row {row} has {values[row].item():g}. "
            "Compare first, e.g. done > 0.5"
        )
    return values.bool()


def as_begins(begins: ArrayLike, rows: int, *, declared: bool) -> torch.Tensor:
    """Return the flags (n,) of rows that start the task; refuse none, and declared starts beside them."""
    if declared:
        raise ArgumentError("begins and initial_states are given; give one of them")
    flags = as_flags("begins", begins, rows)
    if not bool(flags.any()):
        raise DataError("begins marks no row; mark those in which the task starts, or leave it out")
    return flags


def as_episodes(episodes: ArrayLike) -> torch.Tensor:
    """Return whole numbers (n,)."""
    numbers = as_vector("episodes", episodes)
    if not bool((numbers.isfinite() & (numbers == numbers.round())).all()):
        raise DataError("episodes must be whole numbers, one per row")
    # From the integers themselves: float64 would merge those beyond 2⁵³.
    return torch.as_tensor(np.asarray(episodes).astype(np.int64).reshape(-1))


def as_starts(initial_states: ArrayLike, schema: Schema) -> torch.Tensor:
    """Return raw states (n₀, d_s); a vector is one state."""
    starts, columns = as_matrix("initial_states", initial_states), len(schema.states)
    if np.ndim(initial_states) == 1 and columns > 1:
        starts = starts.T
    if starts.shape[1] != columns:
        raise DataError(f"initial_states have {starts.shape[1]} columns, states have {columns}")
    if not bool(starts.isfinite().all()) or len(starts) == 0:
        raise DataError("initial_states must hold at least one state and finite numbers only")
    check_magnitudes(schema, zip(schema.states, starts.T, strict=True))
    return starts


def check_rows(arrays: Mapping[str, Any], source: Source = _ARRAYS) -> None:
    """Refuse arrays of unequal rows, no rows, next states of other columns, and weights of 0 or less."""
    rows = {name: len(array) for name, array in arrays.items()}
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in rows.items())
        raise DataError(f"{source.prefix}unequal numbers of rows: {counts}; every row needs all of them")
    if rows["states"] == 0:
        raise DataError(f"{source.prefix}there are no rows; give at least one transition")
    columns = arrays["states"].shape[1]
    if "next_states" in arrays and (following := arrays["next_states"].shape[1]) != columns:
        raise DataError(
            f"{source.prefix}states have {columns} columns, next_states {following}; give the same"
        )
    if len(wrong := np.flatnonzero(np.asarray(arrays.get("weights", ())) <= 0)):
        shown = f"{source.rows(wrong[:1])} has the weight {arrays['weights'][wrong[0]]:g}"
        raise DataError(f"{source.prefix}{shown}; weights must be positive. Leave out the other rows")


def finite_rows(
    arrays: Mapping[str, npt.NDArray[Any]],
    names: tuple[tuple[str, ...], tuple[str, ...]],
    invalid: Invalid | Collection[str],
    *,
    kept: npt.NDArray[np.bool_] | None = None,
    order: npt.NDArray[np.int64] | None = None,
    source: Source = _ARRAYS,
    reward: str = "reward",
    advice: str = "leave them out with invalid='drop'",
) -> npt.NDArray[np.bool_]:
    """Return which of the m kept rows hold finite numbers only; refuse the others unless they may be dropped.

    The arrays, by role, hold all n rows or the kept ones. `invalid` may be the names of the columns whose
    values may be dropped, with `reward` for the rewards and "" for the weights. `kept` (n,) is all rows if
    absent; `order` (n,) is the row of the log that each row was, if rows were moved. An error begins with
    `source` and ends with advice.
    """
    if isinstance(invalid, str) and invalid not in get_args(Invalid):
        raise ArgumentError(f"invalid is {invalid!r}; give one of {', '.join(get_args(Invalid))}")
    rows = np.arange(len(arrays["states"])) if order is None else order
    rows = rows if kept is None else rows[kept]
    usable, refused, findings = np.full(len(rows), True), [], []
    for name, label, column in _labelled_columns(arrays, names, reward):
        finite = np.isfinite(column)
        finite = finite if kept is None or len(finite) == len(rows) else finite[kept]
        if not bool(finite.all()):
            usable &= finite
            wrong = np.sort(rows[~finite])
            plural = "s" if len(wrong) > 1 else ""
            shown = f"{label} has {len(wrong)} missing or infinite value{plural} ({source.rows(wrong)})"
            findings.append(shown)
            may_drop = invalid == "drop" if isinstance(invalid, str) else name in invalid
            refused += [] if may_drop else findings[-1:]
    if refused:
        raise DataError(f"{source.prefix}{'; '.join(refused)}; repair them, or {advice}")
    if not bool(usable.any()):
        raise DataError(f"{source.prefix}every row is faulty, nothing is left; {'; '.join(findings)}")
    return usable


def _labelled_columns(
    arrays: Mapping[str, npt.NDArray[Any]], names: tuple[tuple[str, ...], tuple[str, ...]], reward: str
) -> Iterator[tuple[str, str, npt.NDArray[Any]]]:
    """Yield the name, the description and the values of every column."""
    states, actions = names
    yield from ((name, f"state column {name!r}", arrays["states"][:, k]) for k, name in enumerate(states))
    yield from ((name, f"action column {name!r}", arrays["actions"][:, k]) for k, name in enumerate(actions))
    yield reward, "the reward", arrays["rewards"]
    following = arrays["next_states"]
    yield from ((name, f"the next state of {name!r}", following[:, k]) for k, name in enumerate(states))
    if "weights" in arrays:
        yield "", "the weight", arrays["weights"]


def _as_float(name: str, array: ArrayLike) -> torch.Tensor:
    """Return a copy, because later changes of the array would bypass the checks."""
    if isinstance(array, torch.Tensor):
        if array.is_complex():
            raise DataError(f"{name} is complex; give real numbers")
        return array.detach().to(torch.float64, copy=True)

    in_rows = isinstance(array, Sequence) and any(isinstance(row, np.ma.MaskedArray) for row in array)
    try:
        values = np.ma.array(array) if in_rows else np.asanyarray(array)
    except ValueError as error:
        raise DataError(f"{name} has rows of different lengths; give one number per column") from error
    if values.dtype.kind not in "fiub":
        raise DataError(
            f"{name} has dtype {values.dtype}; give real numbers (text or objects cannot be used)"
        )
    return torch.as_tensor(np.ma.filled(values.astype(np.float64), np.nan))  # masked means missing
