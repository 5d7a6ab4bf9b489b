"""Derived columns of a log: their formulas, and their values row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from nopg._columns import Derived
from nopg._derived import DerivedColumns
from nopg._expressions import Expression, quoted
from nopg._typing import BoolArray, FloatArray, IntArray
from nopg._units import check_units
from nopg.data._schema import Schema
from nopg.errors import ArgumentError, DataError

__all__ = ["derived_schema", "derived_states", "lag_name", "rows_before"]


def lag_name(column: str, steps: int) -> str:
    """Return the name of a column so many steps ago."""
    return f"{column}_lag{steps}"


def derived_schema(
    schema: Schema,
    rest: Mapping[str, float],
    *,
    lags: Mapping[str, int],
    differences: Sequence[str],
    integrals: Mapping[str, str],
    formulas: Mapping[str, tuple[str, str]],
) -> Schema:
    """Return the schema with further derived columns.

    Args:
        schema: The columns so far.
        rest: What an action counts as before the first row, by name.
        lags: Number of earlier values of a state or action, by name.
        differences: Measured states whose last change is a column.
        integrals: Formulas of states, by the name of the column that sums them over time.
        formulas: First value and next value of other columns, by name.
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
    for name in differences:
        if name not in schema.measured or name in angles:
            known = [column for column in schema.measured if column not in angles]
            raise DataError(f"{name!r} has no difference; columns that have are {known}")
        derived.setdefault(f"{name}_diff", Derived("0", f"next({quoted(name)}) - {quoted(name)}"))
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


def derived_states(
    derived: DerivedColumns, measured: FloatArray, actions: FloatArray, follows: BoolArray
) -> tuple[FloatArray, IntArray]:
    """Return the states (n, d_s) of rows, and the number of rows before each in its run, shape (n,).

    Args:
        derived: The derived columns.
        measured: Measured columns of the rows, shape (n, d_x).
        actions: Their actions, shape (n, d_a).
        follows: Whether a row follows the one before it, shape (n,).
    """
    rows, place = np.arange(len(measured)), rows_before(follows)
    states, width = derived.first(measured), measured.shape[1]
    own = [k for k, depth in enumerate(derived.depths) if depth == 0]
    after = rows[follows]
    for _ in range(derived.depth):  # a lag of a lag is right after two rounds
        states[after] = derived.following(states[after - 1], actions[after - 1], measured[after])
    for k in own:
        column, memory = width + k, derived.by_state[k, width + k]
        states[:, column] = derived.first(measured)[:, column]
        added = np.zeros(len(rows))
        states[after, column] = 0.0
        without = states.copy()
        without[:, column] = 0.0
        added[after] = derived.following(without[after - 1], actions[after - 1], measured[after])[:, column]
        states[:, column] = _accumulated(states[:, column], added, memory, place)
    return states, place


def _accumulated(first: FloatArray, added: FloatArray, memory: float, place: IntArray) -> FloatArray:
    """Return d with d = first at the beginning of a run, and later memory · (d before) + added."""
    found = first.tolist()
    for row, (extra, step) in enumerate(zip(added.tolist(), place.tolist(), strict=True)):
        if step > 0:
            found[row] = memory * found[row - 1] + extra
    return np.array(found)
