"""Derived columns of a log and rewards: their formulas, and their values row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from torch import Tensor

from nopg._columns import Derived
from nopg._derived import DerivedColumns
from nopg._expressions import Expression, quoted
from nopg._formula_limits import formula_limits
from nopg._typing import BoolArray, FloatArray, IntArray
from nopg._units import check_units
from nopg.data._schema import Schema
from nopg.errors import ArgumentError, DataError

STARTS = "starts: "
"""How a note on starts that moved begins."""


def lag_name(column: str, steps: int) -> str:
    """Return the name of a column so many steps ago."""
    return f"{column}_lag{steps}"


def derived_schema(
    schema: Schema,
    rest: Mapping[str, float],
    *,
    lags: Mapping[str, int],
    integrals: Mapping[str, str],
    formulas: Mapping[str, tuple[str, str]],
) -> Schema:
    """Return the schema with further derived columns; see `Transitions.derive`.

    `rest` is what an action counts as before the first row, by name.
    """
    derived, angles, units = dict(schema.derived), dict(schema.angles), dict(schema.units)
    for name, count in lags.items():
        if name not in (*schema.measured, *schema.actions):
            known = [*schema.measured, *schema.actions]
            raise DataError(f"there is no column {name!r} to lag; the columns are {known}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ArgumentError(f"the number of lags of {name!r} is {count!r}; give a whole number from 0")
        for k in range(1, count + 1):
            own, source = lag_name(name, k), name if k == 1 else lag_name(name, k - 1)
            first = repr(rest[name]) if name in schema.actions else quoted(name)
            derived.setdefault(own, Derived(first, quoted(source)))
            angles |= {own: angles[name]} if name in angles else {}
            units |= {own: units[name]} if name in units else {}
    step = 1.0 if schema.interval is None else schema.interval
    for name, formula in integrals.items():
        check_units(Expression(formula, f"the integral {name!r} of"), units)
        derived.setdefault(name, Derived("0", f"{quoted(name)} + {step!r} * ({formula})"))
    for name, both in formulas.items():
        derived.setdefault(name, Derived(*both))
    if taken := [name for name in derived if name in (*schema.measured, *schema.actions)]:
        raise DataError(f"there is a column {taken[0]!r} already; give the derived one another name")
    states = (*schema.measured, *derived)
    return replace(schema, states=states, derived=derived, angles=angles, units=units)


def rows_before(follows: BoolArray) -> IntArray:
    """Return the number of rows before each in its run, shape (n,); `follows` says which follow another."""
    rows = np.arange(len(follows))
    return np.asarray(rows - np.maximum.accumulate(np.where(follows, 0, rows)))


def moved_starts(before: IntArray, after: IntArray) -> tuple[str, ...]:
    """Return a note on starts that moved to later rows or were lost (−1), if any did."""
    count, lost, moved = len(before), int((after < 0).sum()), int((after > before).sum())
    parts = [f"{moved} of {count} moved to later rows, where derived columns are known"] if moved else []
    parts += [f"{lost} of {count} have no such row"] if lost else []
    return (STARTS + "; ".join(parts),) if parts else ()


def derived_states(
    derived: DerivedColumns, measured: FloatArray, actions: FloatArray, follows: BoolArray
) -> tuple[FloatArray, IntArray]:
    """Return the states (n, d_s) of rows, and the number of rows before each in its run, shape (n,).

    `measured` (n, d_x) and `actions` (n, d_a) are logged; `follows` (n,) says which rows follow another.
    """
    states, first, width = derived.first(measured), derived.first(measured), measured.shape[1]
    after = np.flatnonzero(follows)
    for _ in range(derived.depth):  # a lag of a lag is right after two rounds
        states[after] = derived.following(states[after - 1], actions[after - 1], measured[after])
    for k, depth in enumerate(derived.depths):
        if depth > 0:
            continue
        column, memory = width + k, derived.by_state[k, width + k]
        states[:, column] = 0.0
        added = derived.following(states[after - 1], actions[after - 1], measured[after])[:, column]
        found = first[:, column].tolist()
        for row, extra in zip(after.tolist(), added.tolist(), strict=True):
            found[row] = memory * found[row - 1] + extra
        states[:, column] = found
    return states, rows_before(follows)


def actions_before(formula: str, schema: Schema) -> dict[str, int]:
    """Return the lags that a reward needs and the states lack: 1 of every action with a `diff`."""
    names = Expression(formula, "the reward").names
    return {
        action: 1
        for action in schema.actions
        if f"diff({action})" in names and lag_name(action, 1) not in schema.derived
    }


@dataclass(frozen=True, slots=True)
class RewardFormula:
    """The reward of a step as a formula `text` of the columns of a schema; see `Transitions.with_reward`.

    Example:
        >>> import torch
        >>> reward = RewardFormula("-next(level) ** 2 - 0.1 * abs(valve)", Schema(("level",), ("valve",)))
        >>> level, valve, after = (torch.tensor([[value]]) for value in (3.0, -5.0, 2.0))
        >>> reward(level, valve, after).tolist()
        [-4.5]
    """

    text: str
    schema: Schema
    _expression: Expression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_expression", Expression(self.text, "the reward"))
        states, actions = self.schema.states, self.schema.actions
        known = {*states, *actions, *(f"diff({name})" for name in (*states, *actions))}
        if lacking := actions_before(self.text, self.schema):
            raise DataError(
                f"the reward {self.text!r} needs the actions before; add them to the states with "
                f"derive(lags={lacking})"
            )
        for name in self._expression.names:
            if name not in known | {f"next({state})" for state in states}:
                raise DataError(
                    f"{name!r} in the reward {self.text!r} is neither a state nor an action; the states are "
                    f"{list(states)}, the actions {list(actions)}. Make it a state, or compute the reward as "
                    "a column"
                )
        check_units(self._expression, self.schema.units)

    @property
    def limits(self) -> tuple[float, float]:
        """Limits of the reward whatever the columns are; they may be infinite."""
        return formula_limits(self._expression)

    @property
    def errors(self) -> list[tuple[float, dict[str, float]]]:
        """What squares and other functions are taken of: a constant and factors by column."""
        return self._expression.affine_parts()

    def columns(
        self, states: Tensor, actions: Tensor, next_states: Tensor, *, turn: bool = True
    ) -> dict[str, Tensor]:
        """Return the columns (m,) of steps that a formula may name, turns of angles the short way round."""
        names = self.schema.states
        apart = self.schema.difference(states, next_states) if turn else next_states - states
        found = dict(zip((*names, *self.schema.actions), (*states.T, *actions.T), strict=True))
        found |= {f"next({name})": next_states[:, k] for k, name in enumerate(names)}
        found |= {f"diff({name})": apart[:, k] for k, name in enumerate(names)}
        return found | {
            f"diff({action})": found[action] - found[before]
            for action in self.schema.actions
            if (before := lag_name(action, 1)) in self.schema.derived
        }

    def __call__(self, states: Tensor, actions: Tensor, next_states: Tensor) -> Tensor:
        """Return the reward (m,) of steps from raw states (m, d_s) by actions (m, d_a)."""
        rewards: Tensor = self._expression(self.columns(states, actions, next_states))
        return rewards
