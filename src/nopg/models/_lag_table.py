"""The rows of a log with what came before and after them in their run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nopg.data import Transitions
from nopg.data._episodes import spaced_blocks

Numbers = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

# At most so many rows are used, in blocks of successive ones.
_MOST_ROWS, _BLOCK_LENGTH = 10_000, 200
# A column that varies by less than this share of its size varies by rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class LagTable:
    """Measured columns and actions of a log, by row and lag.

    Attributes:
        values: Measured columns, angles in radians and unwrapped within a run, shape (n, d_x).
        following: The same of the next states, shape (n, d_x).
        actions: Actions, shape (n, d_a).
        before: Number of rows before each in its run, shape (n,).
        after: Number of rows after each in its run, shape (n,).
        angles: Which measured columns are angles, shape (d_x,).
        learned: Numbers of the measured columns that move and are not exogenous.
        varying: Numbers of the actions that vary.
    """

    values: Numbers
    following: Numbers
    actions: Numbers
    before: Rows
    after: Rows
    angles: npt.NDArray[np.bool_]
    learned: tuple[int, ...]
    varying: tuple[int, ...]

    @classmethod
    def of(cls, data: Transitions) -> LagTable:
        """Return the table of a log; its derived columns are left out."""
        names, schema = data.schema.measured, data.schema
        unit = np.array([schema.angles.get(name, 2.0 * math.pi) / (2.0 * math.pi) for name in names])
        states = data.states[:, : len(names)].numpy() / unit
        steps = schema.difference(data.states, data.next_states)[:, : len(names)].numpy() / unit
        first, last = _ends(data.continues.numpy())
        rows = np.arange(len(data))
        angles = np.array([name in schema.angles for name in names])
        summed = np.cumsum(steps, axis=0) - steps
        values = np.where(angles, states[first] + summed - summed[first], states)
        actions = data.actions.numpy()
        free = [k for k, name in enumerate(names) if name not in schema.exogenous]
        return cls(
            values,
            values + steps,
            actions,
            rows - first,
            last - rows,
            angles,
            tuple(k for k in free if _varies(steps[:, k], np.abs(states[:, k]).max())),
            tuple(k for k, one in enumerate(actions.T) if _varies(one, np.abs(one).max())),
        )

    @property
    def typical_run(self) -> int:
        """Length of the run that a row is typically in."""
        return int(np.median(self.before + self.after)) + 1

    def rows(self, before: int, after: int = 0, most: int = _MOST_ROWS) -> Rows:
        """Return the rows with so many rows before and after them in their run, or blocks of them."""
        found = np.flatnonzero((self.before >= before) & (self.after >= after))
        kept: Rows = found[spaced_blocks(len(found), most, _BLOCK_LENGTH).numpy()]
        return kept


def _ends(follows: npt.NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Return the first and the last row of the run of each row."""
    starts = np.flatnonzero(~follows)
    run = np.cumsum(~follows) - 1
    stops = np.append(starts[1:], len(follows)) - 1
    return starts[run], stops[run]


def _varies(column: Numbers, size: float) -> bool:
    return bool(np.ptp(column) > _ROUNDING * size)
