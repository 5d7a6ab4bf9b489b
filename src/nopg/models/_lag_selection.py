"""Dead times and numbers of lags that make the state of a log nearly Markov, chosen from the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError
from nopg.models._lag_delays import DelaySearch, FoundDelay
from nopg.models._lag_orders import Orders, OrderSearch, longer
from nopg.models._lag_table import LagTable, Rows

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
    search = _search(table, most)
    orders = OrderSearch.of(table, search.depth, min(_HORIZON, max(2, table.typical_run // _SHARE_OF_RUN)))
    found = search.find(_enough(search, table.rows(search.depth), len(orders.rows)))
    chosen = _orders(orders, search, found)
    names, actions = data.schema.measured, data.schema.actions
    return LagChoice(
        {name: lag for name, lag in zip((*names, *actions), (*chosen.own, *chosen.last), strict=True) if lag},
        {actions[k]: chosen.first[k] for k, one in found.items() if one.steps is not None},
        _doubts(actions, found, search, default=most is None),
        _errors(orders, chosen, actions),
        tuple(names[column] for column in table.learned),
        actions,
    )


def _search(table: LagTable, most: int | None) -> DelaySearch:
    """Return the search of given or default depth; the default leaves enough rows for its inputs."""
    if most is not None:
        return DelaySearch(table, most, min(_TAIL, most))
    searched = max(1, min(_MOST, table.typical_run // _SHARE_OF_RUN))
    while True:
        search = DelaySearch(table, searched, min(_TAIL, searched))
        if searched == 1 or len(table.rows(search.depth)) >= _USUAL_ROWS * search.width:
            return search
        searched -= 1


def _enough(search: DelaySearch, rows: Rows, starts: int) -> Rows:
    """Return the rows if they are enough for a fit."""
    if min(len(rows), starts) < _FEWEST_ROWS * search.width:
        raise DataError(
            f"{min(len(rows), starts)} rows have the {search.depth} rows before them in their run, and those "
            f"after them, that a search of delays up to {search.most} steps takes; it needs "
            f"{_FEWEST_ROWS * search.width}: log more and longer runs, or give a smaller most"
        )
    return rows


def _orders(search: OrderSearch, delays: DelaySearch, found: Mapping[int, FoundDelay]) -> Orders:
    """Return the lags; those of an action begin with its delay."""
    columns, actions = search.table.values.shape[1], search.table.actions.shape[1]
    own, window = min(_OWN, delays.depth), min(_WINDOW, delays.tail)
    first = tuple((found[k].steps or 0) if k in found else 0 for k in range(actions))
    orders = Orders((0,) * columns, first, first)
    for action, one in found.items():
        if one.steps is not None and one.ambiguous:  # what one step does not tell, several may
            tried = [
                orders.shifted(action, delay) for delay in range(one.low, min(one.high, delays.most) + 1)
            ]
            orders = min(tried, key=lambda each: search.error(longer(each, search.table, own // 2, 0)))
    return search.choose(orders, own, window)


def _doubts(
    actions: tuple[str, ...], found: Mapping[int, FoundDelay], search: DelaySearch, *, default: bool
) -> dict[str, tuple[str, ...]]:
    """Return why delays are not sure, by action."""
    reasons = dict[str, tuple[str, ...]]()
    for number, name in enumerate(actions):
        if number not in found:
            reasons[name] = ("constant in the log; vary it to see what it does",)
        elif each := _doubts_of(found[number], search.most):
            reasons[name] = each
    if default and search.most < _FEW:
        run = search.table.typical_run
        reasons["runs"] = (
            f"in runs of {run} rows only delays up to {_count(search.most, 'step')} were searched",
        )
    return reasons


def _doubts_of(one: FoundDelay, most: int) -> tuple[str, ...]:
    reasons = list[str]()
    if one.own < _OWN_SHARE:
        reasons.append(f"nearly always follows the columns, {one.own:.1g} of its variance is its own")
    if one.steps is None:
        reasons.append(f"no effect within {_count(most, 'step')} is seen above the noise")
    elif one.high > most:
        reasons.append("the noise hides when it acts, or whether")
    elif one.ambiguous:
        reasons.append(f"delays from {one.low} to {one.high} steps are within the noise")
    if one.steps == most:
        reasons.append("at the end of the searched range; give a larger most")
    return tuple(reasons)


def _errors(search: OrderSearch, chosen: Orders, actions: tuple[str, ...]) -> dict[str, float]:
    """Return the errors of the chosen lags, of none, and of neighbouring delays."""
    none = Orders((0,) * len(chosen.own), (0,) * len(actions), (0,) * len(actions))
    found = {"no lags": search.error(none), "chosen": search.error(chosen)}
    for k in search.table.varying:
        for delay in (chosen.first[k] - 1, chosen.first[k] + 1):
            moved = chosen.shifted(k, delay)
            if delay >= 0:
                found[f"{actions[k]} after {_count(delay, 'step')}"] = search.error(moved)
    return found


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
