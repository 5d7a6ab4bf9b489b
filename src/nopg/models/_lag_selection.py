"""Dead times and numbers of lags that make the state of a log nearly Markov, chosen from the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from nopg._typing import FloatArray, IntArray
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError
from nopg.models._delays import (
    FOLDS,
    Delay,
    DelaySearch,
    LagTable,
    excess,
    folds_of,
    nested_coefficients,
    spread_or_one,
    with_constant,
)

# Longest delay that is searched by default, and as a share of the length of a run.
_MOST, _SHARE_OF_RUN = 30, 4
# Fewer searched steps than this leave out delays that are common.
_FEW = 10
# Steps of a rollout, own lags and further actions that are tried at most.
_HORIZON, _OWN, _WINDOW = 10, 4, 4
# Actions after the longest delay that every model of the delay search has.
_TAIL = 6
# Rows per input of the largest model: by default, and at least.
_USUAL_ROWS, _FEWEST_ROWS = 5, 2
# Share of its variance below which an action always follows the columns.
_OWN_SHARE = 1e-3
# Fewer lags are taken while the root mean square error exceeds the least one by at most a tenth, or the mean
# square by one standard error or by this share of the variance of what is predicted.
_SHARE, _ERRORS, _NEGLIGIBLE = 1.1**2 - 1.0, 1.0, 1e-4
# A prediction that is off by more spreads than this counts as off by so many: a fit may be unstable.
_FARTHEST = 3.0
# Rollouts from so many rows cost about a second in all.
_MOST_ROWS = 4_000


@dataclass(frozen=True, slots=True)
class LagChoice:
    """Numbers of earlier values that a state needs, as found in a log.

    Attributes:
        lags: Number of earlier values by column, as `Transitions.derive` takes them; none where it is 0.
        delays: Dead time by action: steps between the action and its first effect beyond one step; an action
            without a visible effect has none.
        doubts: Why a delay is not sure, by action; of "runs" if rows in sequence are few.
        errors: Held-out root mean square errors of linear rollouts over several steps, in units of the spread
            of the change over as many steps, by what the state holds.
        columns: The measured columns that a model has to predict.
        actions: All actions.

    Example:
        >>> choice = LagChoice({"valve": 7}, {"valve": 7}, {}, {}, ("level",), ("valve",))
        >>> print(choice)
        valve acts after 7 steps (sure); level: no earlier values needed
    """

    lags: Mapping[str, int]
    delays: Mapping[str, int]
    doubts: Mapping[str, tuple[str, ...]]
    errors: Mapping[str, float]
    columns: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def sure(self) -> bool:
        """Whether every delay is known to within one step; nothing is claimed of the other lags."""
        return not self.doubts

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the delays are not sure."""
        return tuple(f"{name}: {text}" for name, texts in self.doubts.items() for text in texts)

    def __str__(self) -> str:
        return "; ".join([*map(self._of_action, self.actions), *map(self._of_column, self.columns)])

    def _of_action(self, name: str) -> str:
        delay, lags = self.delays.get(name), self.lags.get(name, 0)
        if delay is None:
            return f"{name} without a visible effect ({', '.join(self.doubts[name])})"
        acts = "acts at once" if delay == 0 else f"acts after {_count(delay, 'step')}"
        further = f", {_count(lags, 'earlier value')} needed" if lags > delay else ""
        doubts = (*self.doubts.get(name, ()), *self.doubts.get("runs", ()))
        return f"{name} {acts}{further} ({'not sure: ' + ', '.join(doubts) if doubts else 'sure'})"

    def _of_column(self, name: str) -> str:
        lags = self.lags.get(name, 0)
        return f"{name}: {_count(lags, 'earlier value') if lags else 'no earlier values'} needed"


def select_lags(data: Transitions, *, most: int | None = None) -> LagChoice:
    """Choose the dead time of every action, and how many earlier values a state needs to be nearly Markov.

    A plant whose next row depends on the action d steps ago has a state that holds the last d actions: a
    controller has to know what is under way. Dead times are found by leaving out the newest actions of a
    linear prediction; of those that the noise does not tell apart, and for all other lags, held-out errors
    of linear rollouts over several steps decide, and the fewest lags that do as well as the best are taken.

    Args:
        data: A log in which rows follow each other.
        most: Longest dead time that is searched, in steps; by default 30 or a quarter of a typical run,
            whichever is smaller.

    Raises:
        DataError: If too few rows follow each other, or no column moves.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> valve, level = rng.uniform(-1, 1, 500), np.zeros(501)
        >>> for t in range(500):
        ...     level[t + 1] = 0.9 * level[t] + 0.1 * valve[t - 3] + 0.01 * rng.normal()
        >>> data = Transitions.from_arrays(level[:-1], valve, np.zeros(500), level[1:],
        ...                                state_names=["level"], action_names=["valve"])
        >>> choice = select_lags(data)
        >>> print(choice)
        valve acts after 3 steps (sure); level: no earlier values needed
        >>> data.derive(lags=choice.lags).schema.states
        ('level', 'valve_lag1', 'valve_lag2', 'valve_lag3')
    """
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise ArgumentError(f"most is {most!r}; give a whole number of steps from 1")
    table = LagTable.of(data)
    if not table.learned:
        raise DataError("no measured column that an action may move ever moves; check the columns of the log")
    search = _delay_search(table, most)
    rollouts = OrderSearch.of(table, search.depth, min(_HORIZON, max(2, table.typical_run // _SHARE_OF_RUN)))
    rows = table.rows(search.depth)
    if (enough := min(len(rows), len(rollouts.rows))) < _FEWEST_ROWS * search.width:
        raise DataError(
            f"{enough} rows have the {search.depth} rows before them in their run, and those "
            f"after them, that a search of delays up to {search.most} steps takes; it needs "
            f"{_FEWEST_ROWS * search.width}: log more and longer runs, or give a smaller most"
        )
    delays = search.delays(rows)
    chosen = _orders(rollouts, search, delays)
    names, actions = data.schema.measured, data.schema.actions
    return LagChoice(
        {name: lag for name, lag in zip((*names, *actions), (*chosen.own, *chosen.last), strict=True) if lag},
        {actions[k]: chosen.first[k] for k, delay in delays.items() if delay.steps is not None},
        _doubts(actions, delays, search, default=most is None),
        _errors(rollouts, chosen, actions),
        tuple(names[column] for column in table.learned),
        actions,
    )


def _delay_search(table: LagTable, most: int | None) -> DelaySearch:
    """Return the search of given or default depth; the default leaves enough rows for its inputs."""
    if most is not None:
        return DelaySearch(table, most, min(_TAIL, most))
    searches = (
        DelaySearch(table, searched, min(_TAIL, searched))
        for searched in range(max(1, min(_MOST, table.typical_run // _SHARE_OF_RUN)), 0, -1)
    )
    for search in searches:
        if len(table.rows(search.depth)) >= _USUAL_ROWS * search.width:
            break
    return search


def _orders(rollouts: OrderSearch, search: DelaySearch, delays: Mapping[int, Delay]) -> Orders:
    """Return the lags; those of an action begin with its delay."""
    columns, actions = search.table.values.shape[1], search.table.actions.shape[1]
    own, window = min(_OWN, search.depth), min(_WINDOW, search.tail)
    first = tuple((delays[k].steps or 0) if k in delays else 0 for k in range(actions))
    orders = Orders((0,) * columns, first, first)
    for action, delay in delays.items():
        if delay.steps is not None and delay.ambiguous:  # what one step does not tell, several may
            tried = [orders.shifted(action, k) for k in range(delay.low, min(delay.high, search.most) + 1)]
            orders = min(tried, key=lambda each: rollouts.error(each.longer(search.table, own // 2, 0)))
    return rollouts.choose(orders, own, window)


def _doubts(
    actions: tuple[str, ...], delays: Mapping[int, Delay], search: DelaySearch, *, default: bool
) -> dict[str, tuple[str, ...]]:
    """Return why delays are not sure, by action."""
    reasons = dict[str, tuple[str, ...]]()
    for number, name in enumerate(actions):
        if number not in delays:
            reasons[name] = ("constant in the log; vary it to see what it does",)
        elif doubts := _doubts_of(delays[number], search.most):
            reasons[name] = doubts
    if default and search.most < _FEW:
        run, searched = search.table.typical_run, _count(search.most, "step")
        reasons["runs"] = (f"in runs of {run} rows only delays up to {searched} were searched",)
    return reasons


def _doubts_of(delay: Delay, most: int) -> tuple[str, ...]:
    reasons, share = list[str](), delay.unexplained
    if share < _OWN_SHARE:
        reasons.append(f"nearly always follows the columns, {share:.1g} of its variance is its own")
    if delay.steps is None:
        reasons.append(f"no effect within {_count(most, 'step')} is seen above the noise")
    elif delay.high > most:
        reasons.append("the noise hides when it acts, or whether")
    elif delay.ambiguous:
        reasons.append(f"delays from {delay.low} to {delay.high} steps are within the noise")
    if delay.steps == most:
        reasons.append("at the end of the searched range; give a larger most")
    return tuple(reasons)


def _errors(rollouts: OrderSearch, chosen: Orders, actions: tuple[str, ...]) -> dict[str, float]:
    """Return the errors of the chosen lags, of none, and of neighbouring delays."""
    none = Orders((0,) * len(chosen.own), (0,) * len(actions), (0,) * len(actions))
    errors = {"no lags": rollouts.error(none), "chosen": rollouts.error(chosen)}
    for k in rollouts.table.varying:
        for delay in (chosen.first[k] - 1, chosen.first[k] + 1):
            if delay >= 0:
                errors[f"{actions[k]} after {_count(delay, 'step')}"] = rollouts.error(
                    chosen.shifted(k, delay)
                )
    return errors


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


@dataclass(frozen=True, slots=True)
class Orders:
    """The inputs of a linear model: how far back its columns and actions reach."""

    own: tuple[int, ...]  # number of earlier values of each measured column
    first: tuple[int, ...]  # the newest lag of each action that enters
    last: tuple[int, ...]  # the oldest

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

    def longer(self, table: LagTable, own: int, window: int) -> Orders:
        """Return the orders with so many lags of every learned column, and of every action that varies."""
        return Orders(
            tuple(own if k in table.learned else 0 for k in range(len(self.own))),
            self.first,
            tuple(end + (window if k in table.varying else 0) for k, end in enumerate(self.last)),
        )

    def fewer(self) -> Iterator[Orders]:
        """Yield the orders with one lag less of one column or action."""
        for k, count in enumerate(self.own):
            if count > 0:
                yield replace(self, own=(*self.own[:k], count - 1, *self.own[k + 1 :]))
        for k, (start, end) in enumerate(zip(self.first, self.last, strict=True)):
            if end > start:
                yield replace(self, last=(*self.last[:k], end - 1, *self.last[k + 1 :]))


def as_good(squares: FloatArray, least: FloatArray) -> bool:
    """Return whether squared errors (n,) are as small as the least ones (n,), up to noise and tolerance."""
    worse, error = excess(np.stack([squares, least]))
    allowed = max(_SHARE * least.mean(), _ERRORS * error[0], _NEGLIGIBLE)
    return bool(squares.mean() <= least.mean() or worse[0] <= allowed)


@dataclass(frozen=True, slots=True, eq=False)
class OrderSearch:
    """Linear models x′ − x of lags, fitted to one step and judged by rollouts of several.

    A rollout starts from logged rows of a held-out block and receives the logged actions and exogenous
    columns. Errors are in units of the spread of the change over as many steps, angles the short way round.
    """

    table: LagTable  # of the log
    rows: IntArray  # rows from which rollouts start, with enough rows before and after them
    horizon: int  # number of steps of a rollout
    _known: dict[Orders, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, table: LagTable, depth: int, horizon: int) -> OrderSearch:
        """Return the search over all rows with so many rows before and enough rows after them."""
        return cls(table, table.rows(depth, horizon - 1, most=_MOST_ROWS), horizon)

    def squares(self, orders: Orders) -> FloatArray:
        """Return the squared error of the rollout from each row, mean over steps and columns, shape (n,)."""
        if orders not in self._known:
            self._known[orders] = self._rollout_squares(orders)
        return self._known[orders]

    def error(self, orders: Orders) -> float:
        """Return the root mean square error of the rollouts."""
        return float(np.sqrt(self.squares(orders).mean()))

    def choose(self, shortest: Orders, own: int, window: int) -> Orders:
        """Return the fewest lags that predict as well as the best.

        Columns and actions first have equally many lags, up to `own` earlier values of a column and `window`
        further ones of an action, then one after another is shortened. The shortest has no own lags, and one
        value of each action.
        """
        grid = [shortest.longer(self.table, p, w) for p, w in product(range(own + 1), range(window + 1))]
        best = min(grid, key=self.error)
        equal = [one for one in grid if as_good(self.squares(one), self.squares(best))]
        chosen = min(equal, key=lambda one: (one.cost, self.error(one)))
        while shorter := [one for one in chosen.fewer() if as_good(self.squares(one), self.squares(best))]:
            chosen = min(shorter, key=self.error)
        return chosen

    def _rollout_squares(self, orders: Orders) -> FloatArray:
        rows, table, learned = self.rows, self.table, list(self.table.learned)
        fold, squares, units = folds_of(len(rows)), np.zeros(len(rows)), self._units()
        inputs = self._inputs(orders, self._past(orders, rows), rows)
        center, spread = inputs.mean(axis=0), spread_or_one(inputs)
        Z = with_constant((inputs - center) / spread)
        changes = (table.following - table.values)[rows][:, learned]
        for k in range(FOLDS):
            seen, moves = Z[fold != k], changes[fold != k]
            [fit], _ = nested_coefficients(seen.T @ seen, seen.T @ moves, len(seen))
            start, values = rows[fold == k], self._past(orders, rows[fold == k])
            for step in range(self.horizon):
                now = start + step
                z = with_constant((self._inputs(orders, values, now) - center) / spread)
                after = table.following[now].copy()
                after[:, learned] = values[0][:, learned] + z @ fit
                values = [after, *values[:-1]]
                apart = (after - table.following[now])[:, learned] / units[step]
                squares[fold == k] += np.square(apart.clip(-_FARTHEST, _FARTHEST)).mean(axis=1)
        return squares / self.horizon

    def _past(self, orders: Orders, rows: IntArray) -> list[FloatArray]:
        """Return the measured columns now and before, each shape (m, d_x)."""
        return [self.table.values[rows - k] for k in range(max(orders.own) + 1)]

    def _inputs(self, orders: Orders, past: list[FloatArray], rows: IntArray) -> FloatArray:
        """Return the inputs (m, q) of a model at rows whose measured columns may be predicted ones."""
        columns = list[FloatArray]()
        for column, (angle, count) in enumerate(zip(self.table.angles, orders.own, strict=True)):
            now = past[0][:, column]
            columns += [np.cos(now), np.sin(now)] if angle else [now]
            columns += [past[k][:, column] - now for k in range(1, count + 1)]
        for action, (first, last) in enumerate(zip(orders.first, orders.last, strict=True)):
            columns += [self.table.actions[rows - k, action] for k in range(first, last + 1)]
        return np.stack(columns, axis=1)

    def _units(self) -> FloatArray:
        """Return the spread of the changes of the learned columns over 1, 2, … steps, shape (h, t)."""
        learned, start = list(self.table.learned), self.table.values[self.rows]
        changes = [self.table.following[self.rows + step] - start for step in range(self.horizon)]
        return np.stack([spread_or_one(each)[learned] for each in changes])
