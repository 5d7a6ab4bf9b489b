"""The dead time of every action: how many of the newest actions a linear prediction can do without."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from nopg._typing import BoolArray, FloatArray, IntArray
from nopg.data import Transitions
from nopg.data._derive import rows_before
from nopg.data._episodes import spaced_blocks

FOLDS = 10
"""Number of blocks of successive rows that are held out in turn."""

# At most so many rows are used, in blocks of successive ones.
_MOST_ROWS, _BLOCK_LENGTH = 10_000, 200
# A column that varies by less than this share of its size varies by rounding.
_ROUNDING = 1e-12
# Blocks over which the standard error of a difference of errors is computed.
_BLOCKS = 40
# Ridge in units of the number of rows, of regressors in units of their spread.
_RIDGE = 1e-6
# Mean square errors, in units of the spread of what is predicted, that differ by less are equal.
_FLOOR = 1e-6
# Earlier values of a column that enter one by one; those before them as means over 4, 8, 16, … rows.
_SINGLE = 3
# Excess of a held-out error, in standard errors, up to which an action is left out; the interval of delays
# reaches from the lower to the higher of the other two.
_CHOSEN, _LOW, _HIGH = 2.0, 1.0, 3.5


@dataclass(frozen=True, slots=True, eq=False)
class LagTable:
    """Measured columns and actions of a log, by row and lag."""

    values: FloatArray  # measured columns, angles in radians and unwrapped within a run, (n, d_x)
    following: FloatArray  # the same of the next states, (n, d_x)
    actions: FloatArray  # (n, d_a)
    before: IntArray  # number of rows before each in its run, (n,)
    after: IntArray  # number of rows after each in its run, (n,)
    angles: BoolArray  # which measured columns are angles, (d_x,)
    learned: tuple[int, ...]  # numbers of the measured columns that move and are not exogenous
    varying: tuple[int, ...]  # numbers of the actions that vary

    @classmethod
    def of(cls, data: Transitions) -> LagTable:
        """Return the table of a log; its derived columns are left out."""
        names, schema = data.schema.measured, data.schema
        unit = np.array([schema.angles.get(name, 2.0 * math.pi) / (2.0 * math.pi) for name in names])
        states = data.states[:, : len(names)].numpy() / unit
        steps = schema.difference(data.states, data.next_states)[:, : len(names)].numpy() / unit
        follows = data.continues.numpy()
        before = rows_before(follows)
        first = np.arange(len(data)) - before
        angles = np.array([name in schema.angles for name in names])
        summed = np.cumsum(steps, axis=0) - steps
        values = np.where(angles, states[first] + summed - summed[first], states)
        actions = data.actions.numpy()
        free = [k for k, name in enumerate(names) if name not in schema.exogenous]
        return cls(
            values=values,
            following=values + steps,
            actions=actions,
            before=before,
            after=rows_before(np.append(follows[1:], [False])[::-1])[::-1],
            angles=angles,
            learned=tuple(k for k in free if _varies(steps[:, k], np.abs(states[:, k]).max())),
            varying=tuple(k for k, one in enumerate(actions.T) if _varies(one, np.abs(one).max())),
        )

    @property
    def typical_run(self) -> int:
        """Length of the run that a row is typically in."""
        return int(np.median(self.before + self.after)) + 1

    def rows(self, before: int, after: int = 0, most: int = _MOST_ROWS) -> IntArray:
        """Return the rows with so many rows before and after them in their run, or blocks of them."""
        found = np.flatnonzero((self.before >= before) & (self.after >= after))
        kept: IntArray = found[spaced_blocks(len(found), most, _BLOCK_LENGTH).numpy()]
        return kept


def _varies(column: FloatArray, size: float) -> bool:
    return bool(np.ptp(column) > _ROUNDING * size)


@dataclass(frozen=True, slots=True)
class Delay:
    """The dead time of one action."""

    # Number of steps beyond the first after which the action acts; None if no effect is seen
    steps: int | None
    low: int  # the shortest delay that the noise does not exclude
    high: int  # the longest; more than was searched if the effect itself is in doubt
    unexplained: float  # share of the variance of the action that neither columns nor earlier actions explain

    @property
    def ambiguous(self) -> bool:
        """Whether the noise allows a delay that differs by more than one step."""
        return self.steps is None or self.high > self.steps + 1 or self.low < self.steps - 1


@dataclass(frozen=True, slots=True, eq=False)
class DelaySearch:
    """One-step predictions from a long past, with and without the newest values of an action.

    The past holds all earlier values of every action and, in averages, of every column, so that what a
    feedback reads off the columns, and what averages out the noise of a sensor, is known without the actions
    that are left out. In the model of delay d the newest d values of one action are left out.
    """

    table: LagTable  # of the log
    most: int  # longest delay that is searched
    tail: int  # number of actions after the longest delay that every model has

    @property
    def depth(self) -> int:
        """Number of rows before a row that is predicted."""
        return self.most + self.tail

    @property
    def width(self) -> int:
        """Number of regressors of the largest model."""
        row = np.array([self.depth])
        return 1 + len(self._past(row)) + len(self.table.varying) * (self.depth + 1)

    def delays(self, rows: IntArray) -> dict[int, Delay]:
        """Return the delay of every action that varies, by its number."""
        past = self._past(rows)
        targets = (self.table.following - self.table.values)[rows][:, self.table.learned]
        return {action: self._delay(action, rows, past, targets) for action in self.table.varying}

    def _past(self, rows: IntArray) -> list[FloatArray]:
        """Return the measured columns now and before, each shape (n,)."""
        table, columns = self.table, list[FloatArray]()
        for column, angle in zip(table.values.T, table.angles, strict=True):
            now = column[rows]
            columns += [np.cos(now), np.sin(now)] if angle else [now]
            columns += [column[rows - k] - now for k in range(1, min(_SINGLE, self.depth) + 1)]
            summed, near = np.append(0.0, np.cumsum(column)), _SINGLE + 1
            while near <= self.depth:
                far = min(2 * near - 1, self.depth)
                columns.append((summed[rows - near + 1] - summed[rows - far]) / (far - near + 1) - now)
                near = far + 1
        return columns

    def _delay(self, action: int, rows: IntArray, past: list[FloatArray], targets: FloatArray) -> Delay:
        order = [*(one for one in self.table.varying if one != action), action]
        lags = range(self.depth, -1, -1)  # the newest last: those are left out
        recent = [self.table.actions[rows - k, one] for one in order for k in lags]
        squares, unexplained = _held_out_squares(np.stack([*past, *recent], axis=1), targets, self.most + 1)
        limits = [longest_delays(*excess(each)) for each in squares.transpose(2, 0, 1)]
        chosen, low, high = (min(each) for each in zip(*limits, strict=True))
        return Delay(chosen if chosen <= self.most else None, low, high, unexplained)


def longest_delays(worse: FloatArray, error: FloatArray) -> tuple[int, int, int]:
    """Return the longest delay that is chosen, and the lower and upper end of those within the noise.

    The error of each delay exceeds the least one by `worse` (k,), which has the standard error `error`.
    """
    chosen, low, high = (np.flatnonzero(worse <= k * error)[-1] for k in (_CHOSEN, _LOW, _HIGH))
    return int(chosen), int(low), int(high)


def _held_out_squares(regressors: FloatArray, targets: FloatArray, drop: int) -> tuple[FloatArray, float]:
    """Return squared errors (drop + 1, n, t) in spreads of the targets, and what is left of the last one."""
    Z = with_constant((regressors - regressors.mean(axis=0)) / spread_or_one(regressors))
    Y = (targets - targets.mean(axis=0)) / targets.std(axis=0)
    fold, squares, unexplained = folds_of(len(Y)), np.empty((drop + 1, *Y.shape)), 1.0
    parts = [(Z[fold == k], Y[fold == k]) for k in range(FOLDS)]
    grams, moments = (np.stack(each) for each in zip(*((z.T @ z, z.T @ y) for z, y in parts), strict=True))
    for k, (z, y) in enumerate(parts):
        gram, moment = grams.sum(axis=0) - grams[k], moments.sum(axis=0) - moments[k]
        fits, left = nested_coefficients(gram, moment, len(Y) - len(y), drop)
        unexplained = min(unexplained, left)
        for number, fit in enumerate(fits):
            squares[number, fold == k] = (y - z[:, : len(fit)] @ fit) ** 2
    return squares, unexplained


def folds_of(count: int) -> IntArray:
    """Return the number of the fold of each of `count` successive rows."""
    return np.arange(count) * FOLDS // count


def spread_or_one(columns: FloatArray) -> FloatArray:
    """Return the standard deviation of each column, 1 of a constant one."""
    spread = columns.std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def with_constant(columns: FloatArray) -> FloatArray:
    """Return 1 and the columns, shape (n, q + 1)."""
    return np.concatenate([np.ones((len(columns), 1)), columns], axis=1)


def nested_coefficients(
    gram: FloatArray, moments: FloatArray, rows: int, drop: int = 0
) -> tuple[list[FloatArray], float]:
    """Return ridge coefficients (q − k, t) from Z'Z and Z'Y without the last k = 0, …, `drop` regressors.

    The second is the share of the variance of the last regressor that a linear function of the others leaves.
    """
    # The factor of a leading block is the leading block of the factor: one factorisation serves all.
    factor = cholesky(gram + _RIDGE * rows * np.eye(len(gram)), lower=True)
    forward = solve_triangular(factor, moments, lower=True)
    sizes = [len(gram) - k for k in range(drop + 1)]
    fits = [solve_triangular(factor[:m, :m].T, forward[:m], lower=False) for m in sizes]
    return fits, float(factor[-1, -1] ** 2 / rows)


def excess(squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return by how much the mean square error of each candidate exceeds the best, and its standard error.

    The squares (k, n) are held-out squared errors of every candidate and row, in the order of time.
    """
    count = squares.shape[1]
    block = np.arange(count) * _BLOCKS // count
    sizes = np.maximum(np.bincount(block, minlength=_BLOCKS), 1)
    apart = squares - squares[squares.mean(axis=1).argmin()]
    means = np.stack([np.bincount(block, one, _BLOCKS) for one in apart]) / sizes
    error = means.std(axis=1, ddof=1) / np.sqrt(min(_BLOCKS, count))
    return apart.mean(axis=1), error + _FLOOR
