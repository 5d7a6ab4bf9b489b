"""The dead time of every action: how many of the newest actions a prediction can do without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nopg.models._lag_folds import FOLDS, excess, folds_of, nested_coefficients, standardized
from nopg.models._lag_table import LagTable, Numbers, Rows

# Earlier values of a column that enter one by one; those before them as means over 4, 8, 16, … rows.
_SINGLE = 3
# Excess of a held-out error, in standard errors, up to which an action is left out; the interval of delays
# reaches from the lower to the higher of the other two.
_CHOSEN, _LOW, _HIGH = 2.0, 1.0, 3.5


@dataclass(frozen=True, slots=True)
class FoundDelay:
    """The dead time of one action.

    Attributes:
        steps: Number of steps beyond the first after which the action acts; None if no effect is seen.
        low: The shortest delay that the noise does not exclude.
        high: The longest; more than was searched if the effect itself is in doubt.
        own: Share of the variance of the action that neither the columns nor earlier actions explain.
    """

    steps: int | None
    low: int
    high: int
    own: float

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

    Attributes:
        table: Of the log.
        most: Longest delay that is searched.
        tail: Number of actions after the longest delay that every model has.
    """

    table: LagTable
    most: int
    tail: int

    @property
    def depth(self) -> int:
        """Number of rows before a row that is predicted."""
        return self.most + self.tail

    @property
    def width(self) -> int:
        """Number of regressors of the largest model."""
        row = np.array([self.depth])
        return 1 + len(self._past(row)) + len(self.table.varying) * (self.depth + 1)

    def find(self, rows: Rows) -> dict[int, FoundDelay]:
        """Return the delay of every action that varies, by its number."""
        past = self._past(rows)
        targets = (self.table.following - self.table.values)[rows][:, self.table.learned]
        return {action: self._delay(action, rows, past, targets) for action in self.table.varying}

    def _past(self, rows: Rows) -> list[Numbers]:
        """Return the measured columns now and before, each shape (n,)."""
        table, found = self.table, list[Numbers]()
        for column, angle in zip(table.values.T, table.angles, strict=True):
            now = column[rows]
            found += [np.cos(now), np.sin(now)] if angle else [now]
            found += [column[rows - k] - now for k in range(1, min(_SINGLE, self.depth) + 1)]
            summed, near = np.append(0.0, np.cumsum(column)), _SINGLE + 1
            while near <= self.depth:
                far = min(2 * near - 1, self.depth)
                found.append((summed[rows - near + 1] - summed[rows - far]) / (far - near + 1) - now)
                near = far + 1
        return found

    def _delay(self, action: int, rows: Rows, past: list[Numbers], targets: Numbers) -> FoundDelay:
        order = [*(one for one in self.table.varying if one != action), action]
        lags = range(self.depth, -1, -1)  # the newest last: those are left out
        recent = [self.table.actions[rows - k, one] for one in order for k in lags]
        squares, own = _held_out_squares(standardized([*past, *recent]), targets, self.most + 1)
        found = [_longest(*excess(squares[:, :, column])) for column in range(targets.shape[1])]
        chosen, low, high = (min(each) for each in zip(*found, strict=True))
        return FoundDelay(chosen if chosen <= self.most else None, low, high, own)


def _longest(worse: Numbers, error: Numbers) -> tuple[int, int, int]:
    """Return the longest delays whose errors exceed the least one by the chosen, low and high limit."""
    each = [np.flatnonzero(worse <= limit * error) for limit in (_CHOSEN, _LOW, _HIGH)]
    return int(each[0][-1]), int(each[1][-1]), int(each[2][-1])


def _held_out_squares(regressors: Numbers, targets: Numbers, drop: int) -> tuple[Numbers, float]:
    """Return squared errors (drop + 1, n, t) in spreads of the targets, and what is left of the last one."""
    scaled = (targets - targets.mean(axis=0)) / targets.std(axis=0)
    fold, found = folds_of(len(scaled)), np.empty((drop + 1, *scaled.shape))
    parts = [(regressors[fold == k], scaled[fold == k]) for k in range(FOLDS)]
    gram = np.stack([Z.T @ Z for Z, _ in parts])
    moments = np.stack([Z.T @ Y for Z, Y in parts])
    own = 1.0
    for k, (Z, Y) in enumerate(parts):
        seen = len(scaled) - len(Z)
        each, left = nested_coefficients(
            gram.sum(axis=0) - gram[k], moments.sum(axis=0) - moments[k], seen, drop
        )
        own = min(own, left)
        for number, coefficients in enumerate(each):
            found[number, fold == k] = (Y - Z[:, : len(coefficients)] @ coefficients) ** 2
    return found, own
