"""One step of a stream: the next state from the last one, the action applied and new measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._derived import DerivedColumns

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Memory(NamedTuple):
    """All that a stream keeps from one step to the next.

    Attributes:
        state: The last state (…, d_s); NaN where there is none.
        applied: The action (…, d_a) applied since; NaN where it is not known.
        age: Number of steps (…, d_x) for which each measured value has been missing.
    """

    state: Numbers
    applied: Numbers
    age: Numbers


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

    Attributes:
        derived: The derived columns.
        hold: Number of steps for which a missing value is replaced, shape (d_x,).
        lagged: Number of the action whose lag a derived column is, shape (k,); −1 for other columns.
        needs_actions: Whether a formula has an action in it.
    """

    derived: DerivedColumns
    hold: Numbers
    lagged: npt.NDArray[np.int64]
    needs_actions: bool

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
