"""Checks of rows on entry: shapes, finite numbers, sizes, flags, episodes, levels, weights, starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nopg._derived import DerivedColumns
from nopg._typing import ArrayLike, BoolArray, FloatArray, IntArray
from nopg.data._schema import Schema
from nopg.errors import DataError

# Squares of products of two such numbers are finite, and do not vanish.
_LARGEST, _SMALLEST = 1e75, 1e-75
# Share of the smallest gap between two levels by which a logged action may miss its level.
_LEVEL_ROUNDING = 1e-6
# Share of the rows without an end that the next row must continue, and how exactly, in spreads of a column.
_IN_SEQUENCE = 0.9
_TOLERANCE = 1e-9

_ROWS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Source:
    """The name of a log in errors, and the lines of its rows in files of text; else rows count from 0."""

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
_LABELS = {
    "states": "state column {!r}",
    "actions": "action column {!r}",
    "rewards": "the reward",
    "next_states": "the next state of {!r}",
    "weights": "the weight",
}


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
    values = as_vector(name, array).numpy()
    return torch.from_numpy(flags_of(values, f"{name} must hold booleans or 0 and 1;"))


def flags_of(values: npt.NDArray[Any], what: str, source: Source = _ARRAYS) -> BoolArray:
    """Return booleans from zeros and ones; `what` begins the error about others."""
    if bool((wrong := ~np.isin(values, [0.0, 1.0])).any()):
        row = int(wrong.argmax())
        raise DataError(f"{what} {source.rows([row])} has {values[row]:g}. Compare first, e.g. done > 0.5")
    return np.asarray(values == 1.0)


def as_episodes(episodes: ArrayLike) -> torch.Tensor:
    """Return whole numbers (n,)."""
    numbers = as_vector("episodes", episodes)
    if not bool((numbers.isfinite() & (numbers == numbers.round())).all()):
        raise DataError("episodes must be whole numbers, one per row")
    # From the integers themselves: float64 would merge those beyond 2⁵³.
    return torch.as_tensor(np.asarray(episodes).astype(np.int64).reshape(-1))


def as_starts(initial_states: ArrayLike, schema: Schema) -> torch.Tensor:
    """Return raw states (n₀, d_s), of which derived columns may be missing; a vector is one state."""
    starts, columns = as_matrix("initial_states", initial_states), len(schema.states)
    if np.ndim(initial_states) == 1 and columns > 1:
        starts = starts.T
    if schema.derived and starts.shape[1] == len(schema.measured):
        starts = torch.as_tensor(DerivedColumns.of(schema).first(starts.numpy()))
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
    droppable: Collection[str] = (),
    *,
    rows: IntArray | None = None,
    source: Source = _ARRAYS,
    reward: str = "reward",
    advice: str = "leave these rows out",
) -> npt.NDArray[np.bool_]:
    """Return which rows hold finite numbers only; refuse the others unless they may be dropped.

    `droppable` are the columns whose missing values leave their row out, with `reward` for the rewards and ""
    for the weights. `rows` (n,) are the rows of the log, if rows were moved.
    """
    rows = np.arange(len(arrays["states"])) if rows is None else rows
    usable, refused, findings = np.full(len(rows), True), [], []
    for role, name, column in columns_of(arrays, names):
        if (finite := np.isfinite(column)).all():
            continue
        usable &= finite
        wrong = np.sort(rows[~finite])
        plural = "s" if len(wrong) > 1 else ""
        shown = f"{_LABELS[role].format(name)} has {len(wrong)} missing or infinite value{plural}"
        findings.append(f"{shown} ({source.rows(wrong)})")
        if {"rewards": reward, "weights": ""}.get(role, name) not in droppable:
            refused.append(findings[-1])
    if refused:
        raise DataError(f"{source.prefix}{'; '.join(refused)}; repair them, or {advice}")
    if not usable.any():
        raise DataError(f"{source.prefix}every row is faulty, nothing is left; {'; '.join(findings)}")
    return usable


def columns_of(
    rows: Mapping[str, Any], names: tuple[tuple[str, ...], tuple[str, ...]]
) -> Iterator[tuple[str, str, Any]]:
    """Yield the role, the name and the values of every column of numbers; the rewards follow the actions."""
    for role, named in (("states", names[0]), ("actions", names[1]), ("next_states", names[0])):
        yield from ((role, name, rows[role][:, k]) for k, name in enumerate(named))
        if role == "actions":
            yield "rewards", "reward", rows["rewards"]
    if "weights" in rows:
        yield "weights", "weight", rows["weights"]


def _as_float(name: str, array: ArrayLike) -> torch.Tensor:
    """Return a copy, because later changes of the array would bypass the checks."""
    if isinstance(array, torch.Tensor):
        array = (array if array.is_complex() else array.double()).detach().cpu().numpy()
    try:
        values = np.asanyarray(array)
    except ValueError as error:
        raise DataError(f"{name} has rows of different lengths; give one number per column") from error
    if values.dtype.kind not in "fiub":
        raise DataError(
            f"{name} has dtype {values.dtype}; give real numbers (text or objects cannot be used)"
        )
    return torch.as_tensor(np.ma.filled(values.astype(np.float64), np.nan))  # masked means missing


def check_magnitudes(schema: Schema, columns: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Refuse numbers too large to compute with, columns that hardly vary, and angles without a direction."""
    known = (*schema.states, *schema.actions)
    for name, column in columns:
        low, high = map(float, column.aminmax())
        largest = max(-low, high)
        if largest > _LARGEST:
            label = repr(name) if name in known else name
            raise DataError(
                f"{label} reaches {largest:.3g}; numbers beyond {_LARGEST:g} cannot be squared. Use a larger "
                "unit, or mark them as missing"
            )
        if name in known and 0.0 < high - low < _SMALLEST:
            raise DataError(
                f"{name!r} varies by {high - low:.3g} only; squares of numbers below {_SMALLEST:g} vanish. "
                "Use a smaller unit, or leave the column out"
            )
        if name in schema.angles and largest > schema.largest_angle(name):
            raise DataError(
                f"the angle {name!r} reaches {largest:.3g} with a period of {schema.angles[name]:.3g}; "
                "floats of that size tell no direction. Check the period, or store the angle modulo it"
            )


def check_levels(
    actions: torch.Tensor, names: tuple[str, ...], levels: Mapping[str, tuple[float, ...]]
) -> None:
    """Refuse levels that logged actions (n, d_a) are not among."""
    for name, allowed in levels.items():
        column = actions[:, names.index(name)]
        known = torch.tensor(allowed, dtype=torch.float64)
        apart = (column[:, None] - known).abs().amin(dim=1)
        wrong = (apart > _LEVEL_ROUNDING * float(known.diff().min())).nonzero()[:, 0]
        if len(wrong):
            row = int(wrong[0])
            shown = ", ".join(f"{one:g}" for one in allowed)
            raise DataError(
                f"the levels of {name!r} are {shown}, but {len(wrong)} of {len(column)} logged rows hold "
                f"others (row {row} has {float(column[row]):.6g}); declare all levels, or store the action "
                "as it was applied"
            )


def flagged_episodes(
    states: FloatArray, next_states: FloatArray, ends: BoolArray, same_run: BoolArray | None = None
) -> IntArray | None:
    """Return the episode (n,) of each row, from 0, or None where nothing says that rows are in sequence.

    A new episode begins after every end. Rows are in sequence if for 9 in 10 rows that do not end the next
    state is the state of the next row. `same_run` (n−1,) says whether row i+1 may follow row i.

    Example:
        >>> levels, after = np.array([[1.0], [2.0], [7.0]]), np.array([[2.0], [3.0], [8.0]])
        >>> flagged_episodes(levels, after, np.array([False, True, False])).tolist()
        [0, 0, 1]
    """
    goes_on = ~ends[:-1] if same_run is None else ~ends[:-1] & same_run
    if not bool(ends.any()) or not bool(goes_on.any()):
        return None
    follows = np.ones(len(goes_on), dtype=np.bool_)
    for state, after in zip(states.T, next_states.T, strict=True):  # a column at a time, to save memory
        finite = state[np.isfinite(state)]
        spread = float(np.ptp(finite)) if len(finite) else 0.0
        follows &= np.abs(after[:-1] - state[1:]) <= _TOLERANCE * spread
    if float(follows[goes_on].mean()) < _IN_SEQUENCE:
        return None
    return np.cumsum(np.insert(~goes_on, 0, False), dtype=np.int64)
