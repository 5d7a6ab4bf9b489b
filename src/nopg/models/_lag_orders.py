"""How many earlier values a state needs, by the held-out errors of linear models over several steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from nopg.models._lag_folds import FOLDS, excess, folds_of, nested_coefficients
from nopg.models._lag_table import LagTable, Numbers, Rows

# Fewer lags are taken while the root mean square error exceeds the least one by at most a tenth, or the mean
# square by one standard error or by this share of the variance of what is predicted.
_SHARE, _ERRORS, _NEGLIGIBLE = 1.1**2 - 1.0, 1.0, 1e-4
# A prediction that is off by more spreads than this counts as off by so many: a fit may be unstable.
_FARTHEST = 3.0
# Rollouts from so many rows cost about a second in all.
_MOST_ROWS = 4_000


@dataclass(frozen=True, slots=True)
class Orders:
    """The inputs of a linear model: how far back its columns and actions reach.

    Attributes:
        own: Number of earlier values of each measured column.
        first: The newest lag of each action that enters.
        last: The oldest.
    """

    own: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]

    @property
    def cost(self) -> int:
        """Number of columns that these lags add to a state."""
        return sum(self.own) + sum(self.last)

    def shifted(self, action: int, delay: int) -> Orders:
        """Return the orders with as many values of an action, but from another delay on."""
        later = delay - self.first[action]
        return replace(
            self,
            first=(*self.first[:action], delay, *self.first[action + 1 :]),
            last=(*self.last[:action], self.last[action] + later, *self.last[action + 1 :]),
        )

    def fewer(self) -> Iterator[Orders]:
        """Yield the orders with one lag less of one column or action."""
        for k, count in enumerate(self.own):
            if count > 0:
                yield replace(self, own=(*self.own[:k], count - 1, *self.own[k + 1 :]))
        for k, (start, end) in enumerate(zip(self.first, self.last, strict=True)):
            if end > start:
                yield replace(self, last=(*self.last[:k], end - 1, *self.last[k + 1 :]))


@dataclass(frozen=True, slots=True, eq=False)
class OrderSearch:
    """Linear models x′ − x of lags, fitted to one step and judged by rollouts of several.

    A rollout starts from logged rows of a held-out block and receives the logged actions and exogenous
    columns. Errors are in units of the spread of the change over as many steps, angles the short way round.

    Attributes:
        table: Of the log.
        rows: Rows from which rollouts start, with enough rows before and after them.
        horizon: Number of steps of a rollout.
    """

    table: LagTable
    rows: Rows
    horizon: int
    _known: dict[Orders, Numbers] = field(default_factory=dict)

    @classmethod
    def of(cls, table: LagTable, depth: int, horizon: int) -> OrderSearch:
        """Return the search over all rows with so many rows before and enough rows after them."""
        return cls(table, table.rows(depth, horizon - 1, most=_MOST_ROWS), horizon)

    def squares(self, orders: Orders) -> Numbers:
        """Return the squared error of the rollout from each row, mean over steps and columns, shape (n,)."""
        if orders not in self._known:
            self._known[orders] = self._rollout_squares(orders)
        return self._known[orders]

    def error(self, orders: Orders) -> float:
        """Return the root mean square error of the rollouts."""
        return float(np.sqrt(self.squares(orders).mean()))

    def choose(self, shortest: Orders, own: int, window: int) -> Orders:
        """Return the fewest lags that predict as well as the best.

        Columns and actions first have equally many lags, then one after another is shortened.

        Args:
            shortest: Without own lags, and with one value of each action.
            own: Most earlier values of a column.
            window: Most further values of an action.
        """
        grid = [longer(shortest, self.table, p, w) for p, w in product(range(own + 1), range(window + 1))]
        best = min(grid, key=self.error)
        chosen = min(
            (one for one in grid if self._equal(one, best)), key=lambda one: (one.cost, self.error(one))
        )
        while shorter := [one for one in chosen.fewer() if self._equal(one, best)]:
            chosen = min(shorter, key=self.error)
        return chosen

    def _equal(self, orders: Orders, best: Orders) -> bool:
        """Return whether orders predict as well as the best, up to noise and tolerance."""
        one, other = self.squares(orders), self.squares(best)
        worse, error = excess(np.stack([one, other]))
        allowed = max(_SHARE * other.mean(), _ERRORS * error[0], _NEGLIGIBLE)
        return bool(one.mean() <= other.mean() or worse[0] <= allowed)

    def _rollout_squares(self, orders: Orders) -> Numbers:
        rows, table, learned = self.rows, self.table, list(self.table.learned)
        fold, found = folds_of(len(rows)), np.zeros(len(rows))
        inputs = self._inputs(orders, self._past(orders, rows), rows)
        center, spread = inputs.mean(axis=0), inputs.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        changes = (table.following - table.values)[rows][:, learned]
        scaled, units = _with_constant((inputs - center) / spread), self._units()
        for k in range(FOLDS):
            seen, rest = scaled[fold != k], changes[fold != k]
            fits, _ = nested_coefficients(seen.T @ seen, seen.T @ rest, len(seen), 0)
            start, values = rows[fold == k], self._past(orders, rows[fold == k])
            for step in range(self.horizon):
                now = start + step
                moved = self._inputs(orders, values, now)
                after = table.following[now].copy()
                after[:, learned] = (
                    values[0][:, learned] + _with_constant((moved - center) / spread) @ fits[0]
                )
                values = [after, *values[:-1]]
                apart = (after - table.following[now])[:, learned] / units[step]
                found[fold == k] += np.square(apart.clip(-_FARTHEST, _FARTHEST)).mean(axis=1)
        return found / self.horizon

    def _past(self, orders: Orders, rows: Rows) -> list[Numbers]:
        """Return the measured columns now and before, each shape (m, d_x)."""
        return [self.table.values[rows - k] for k in range(max(orders.own) + 1)]

    def _inputs(self, orders: Orders, past: list[Numbers], rows: Rows) -> Numbers:
        """Return the inputs (m, q) of a model at rows whose measured columns may be predicted ones."""
        found = list[Numbers]()
        for column, (angle, count) in enumerate(zip(self.table.angles, orders.own, strict=True)):
            now = past[0][:, column]
            found += [np.cos(now), np.sin(now)] if angle else [now]
            found += [past[k][:, column] - now for k in range(1, count + 1)]
        for action, (first, last) in enumerate(zip(orders.first, orders.last, strict=True)):
            found += [self.table.actions[rows - k, action] for k in range(first, last + 1)]
        return np.stack(found, axis=1)

    def _units(self) -> Numbers:
        """Return the spread of the changes of the learned columns over 1, 2, … steps, shape (h, t)."""
        learned, start = list(self.table.learned), self.table.values[self.rows]
        changes = [self.table.following[self.rows + step] - start for step in range(self.horizon)]
        spread = np.stack(changes).std(axis=1)[:, learned]
        return np.where(spread > 0, spread, 1.0)


def longer(orders: Orders, table: LagTable, own: int, window: int) -> Orders:
    """Return the orders with so many lags of every learned column, and of every action that varies."""
    return Orders(
        tuple(own if k in table.learned else 0 for k in range(len(orders.own))),
        orders.first,
        tuple(end + (window if k in table.varying else 0) for k, end in enumerate(orders.last)),
    )


def _with_constant(inputs: Numbers) -> Numbers:
    return np.concatenate([np.ones((len(inputs), 1)), inputs], axis=1)
