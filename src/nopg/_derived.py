"""Columns that are computed from others: lags, integrals, as one affine map of the last step.

`StateStep` applies it to measurements as they come, some of which may be missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._expressions import Expression
from nopg.errors import DataError

FloatArray = npt.NDArray[np.floating[Any]]  # nopg._typing needs torch
Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_NEXT = re.compile(r"next\((.*)\)")


@dataclass(frozen=True, slots=True)
class DerivedColumns:
    """The derived columns d of states (x, d) with x measured.

    In the first row d = k₀ + B₀x; after a step from (x, d) by the action a to x′,
    d′ = k + A_s(x, d) + A_a·a + A_n·x′. Log, rollouts, runtime and exports compute nothing else.
    """

    columns: Columns
    constants: tuple[FloatArray, FloatArray]  # k₀ and k, both (k,)
    initial: FloatArray  # B₀, shape (k, d_x)
    by_state: FloatArray  # A_s, shape (k, d_s)
    by_action: FloatArray  # A_a, shape (k, d_a)
    by_next: FloatArray  # A_n, shape (k, d_x)
    # Number of rows, for each column, after which it does not depend on its formula in the first row; 0
    # of an integral, whose first value counts as right
    depths: tuple[int, ...]
    # The measured column or action that each column is an earlier value of; None for other columns
    lags: tuple[str | None, ...]

    @classmethod
    def of(cls, columns: Columns) -> DerivedColumns:
        """Return the derived columns of columns; a formula that is not affine is refused."""
        measured, states, actions = columns.measured, columns.states, columns.actions
        known = (*states, *actions, *(f"next({name})" for name in measured))
        firsts, updates = [], []
        for name, (first, update) in columns.derived.items():
            what = f"the derived column {name!r}"
            firsts.append(_affine(Expression(first, what), measured))
            updates.append(_affine(Expression(update, what), known))
        num, ends = len(firsts), [len(states), len(states) + len(actions)]
        of_step = np.array([slopes for _, slopes in updates]).reshape(num, len(known))
        by_state, by_action, by_next = np.split(of_step, ends, axis=1)
        return cls(
            columns,
            (np.array([constant for constant, _ in firsts]), np.array([constant for constant, _ in updates])),
            np.array([slopes for _, slopes in firsts]).reshape(num, len(measured)),
            by_state,
            by_action,
            by_next,
            _depths(columns),
            _lags(columns, of_step, np.array([constant for constant, _ in updates])),
        )

    @property
    def depth(self) -> int:
        """Number of rows after which all derived columns are right."""
        return max(self.depths, default=0)

    def first(self, measured: FloatArray) -> FloatArray:
        """Return the states (…, d_s) of first rows with measured columns (…, d_x)."""
        return np.concatenate([measured, self.constants[0] + measured @ self.initial.T], axis=-1)

    def following(self, states: FloatArray, actions: FloatArray, measured: FloatArray) -> FloatArray:
        """Return the states (…, d_s) after steps from states (…, d_s) by actions (…, d_a)."""
        parts = states @ self.by_state.T + actions @ self.by_action.T + measured @ self.by_next.T
        return np.concatenate([measured, self.constants[1] + parts], axis=-1)


def _affine(expression: Expression, names: tuple[str, ...]) -> tuple[float, FloatArray]:
    """Return the constant and the coefficients (d,) of an affine formula; others are refused."""
    what, text = expression.what, expression.text
    if unknown := [name for name in expression.names if name not in names]:
        raise DataError(f"{unknown[0]!r} in {what} = {text!r} is not known there; known are {list(names)}")
    if (found := expression.affine) is None:
        raise DataError(f"{what} = {text!r} is not a sum of columns times numbers; write it as one")
    constant, factors = found
    return constant, np.array([factors.get(name, 0.0) for name in names])


def _depths(columns: Columns) -> tuple[int, ...]:
    """Return the depth of each derived column; one that depends on a later one is refused."""
    depths: dict[str, int] = {}
    for name, one in columns.derived.items():
        used = {_NEXT.sub(r"\1", found) for found in Expression(one.update).names}
        if later := used & {*columns.derived} - {*depths, name}:
            raise DataError(f"the derived column {name!r} depends on {sorted(later)}; place it after them")
        depths[name] = (
            0 if name in used else max((depths[found] + 1 for found in used & {*depths}), default=1)
        )
    return tuple(depths.values())


def _lags(columns: Columns, of_step: FloatArray, constants: FloatArray) -> tuple[str | None, ...]:
    """Return what each derived column is an earlier value of.

    The update of a lag is a measured column or an action, or another lag of it, and nothing else.
    """
    before = (*columns.states, *columns.actions)
    sources: dict[str, str | None] = {name: name for name in (*columns.measured, *columns.actions)}
    for name, row, constant in zip(columns.derived, of_step, constants, strict=True):
        (used,) = np.nonzero(row)
        alone = len(used) == 1 and used[0] < len(before) and row[used[0]] == 1.0 and constant == 0.0
        sources[name] = sources.get(before[used[0]]) if alone else None
    return tuple(sources[name] for name in columns.derived)


class Memory(NamedTuple):
    """All that a stream keeps from one step to the next."""

    state: Numbers  # The last state (…, d_s); NaN where there is none
    applied: Numbers  # The action (…, d_a) applied since; NaN where it is not known
    age: Numbers  # Number of steps (…, d_x) for which each measured value has been missing


def has_memory(columns: Columns) -> bool:
    """Return whether a state depends on more than the present measurements."""
    return bool(columns.derived or columns.hold)


@dataclass(frozen=True, slots=True)
class StateStep:
    """The next state from the memory and new measurements, for one plant or for several at once.

    1. A measured value that is missing (NaN) is the last one while its age is below its hold.
    2. The memory starts anew where a number of the last state is not finite, where a formula needs an action
       that is not known, and where a measured value is not finite even so.
    3. After a start-up derived columns have their first formula, but a lag of an action is the applied one
       where that is known. Elsewhere they have their update.
    4. Where a measured value is not finite all derived columns are NaN.
    """

    derived: DerivedColumns
    hold: Numbers  # Number of steps for which a missing value is replaced, shape (d_x,)
    # Number of the action whose lag a derived column is, shape (k,); −1 for other columns
    lagged: npt.NDArray[np.int64]
    needs_actions: bool  # Whether a formula has an action in it

    @classmethod
    def of(cls, columns: Columns) -> StateStep:
        """Return the step of columns."""
        derived = DerivedColumns.of(columns)
        hold = [float(columns.hold.get(name, 0)) for name in columns.measured]
        number = {name: k for k, name in enumerate(columns.actions)}
        lagged = np.array([number.get(source or "", -1) for source in derived.lags], dtype=np.int64)
        return cls(derived, np.array(hold), lagged, bool(derived.by_action.any()))

    def start(self, shape: tuple[int, ...] = ()) -> Memory:
        """Return the memory before a first step."""
        columns = self.derived.columns
        sizes = (len(columns.states), len(columns.actions), len(columns.measured))
        state, applied = (np.full((*shape, size), np.nan) for size in sizes[:2])
        return Memory(state, applied, np.zeros((*shape, sizes[2])))

    def __call__(self, memory: Memory, measured: Numbers) -> tuple[Numbers, Numbers, Flags]:
        """Return states (…, d_s), ages (…, d_x), and where the memory started anew (…,)."""
        width, missing = measured.shape[-1], np.isnan(measured)
        held = np.where(missing & (memory.age < self.hold), memory.state[..., :width], measured)
        age = np.where(missing, memory.age + 1.0, 0.0)
        whole = np.asarray(np.isfinite(held).all(axis=-1))
        goes_on = np.asarray(whole & self.continues(memory))
        if not self.derived.columns.derived:
            return held, age, np.asarray(~goes_on)
        with np.errstate(over="ignore", invalid="ignore"):
            derived = self._derived(memory, np.where(whole[..., None], held, 0.0), goes_on[..., None])
        derived = np.where(whole[..., None], derived, np.nan)
        return np.concatenate([held, derived], axis=-1), age, np.asarray(~goes_on)

    def continues(self, memory: Memory) -> Flags:
        """Return where (…,) a step can continue a memory."""
        known = np.isfinite(memory.state).all(axis=-1)
        return np.asarray(known & np.isfinite(memory.applied).all(axis=-1) if self.needs_actions else known)

    def _derived(self, memory: Memory, measured: Numbers, goes_on: Flags) -> Numbers:
        width, last = measured.shape[-1], memory.applied[..., self.lagged]
        first = self.derived.first(measured)[..., width:]
        first = np.where((self.lagged >= 0) & np.isfinite(last), last, first)
        state, applied = (np.where(goes_on, part, 0.0) for part in memory[:2])
        return np.where(goes_on, self.derived.following(state, applied, measured)[..., width:], first)
