"""The cost of which a reward column is the negative to rounding, to be stated instead of learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nopg._expressions import quoted
from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.data._held_out import spread_rows

# Rows that are compared, and numbers of a formula beside its constant, at most.
_MOST_ROWS, _MOST_NUMBERS = 500, 10
# The largest error of a formula, and on average, as shares of the range of the rewards.
_EXACT, _EXACT_ON_AVERAGE = 1e-7, 1e-9
# Digits of the numbers in a formula: prices and set points are round.
_DIGITS = 9


class _Term(NamedTuple):
    """What a number of a cost is the factor of; `form` holds the place of a column or a difference."""

    name: str
    form: str


def stated_cost(data: Transitions) -> str | None:
    """Return the cost of which the reward column is the negative to rounding; None if no formula is found.

    Tried are sums of squares of columns from fixed values, squares and magnitudes of differences of columns
    of one unit, magnitudes and linear terms, of the states of the row or of those it led to.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> level, goal, valve = rng.normal(size=(3, 200))
        >>> states = np.stack([level, goal], axis=1)
        >>> reward = -((level - goal) ** 2) - 0.1 * (valve - 0.5) ** 2
        >>> log = Transitions.from_arrays(states, valve, reward, states + 1.0,
        ...                               state_names=["level", "goal"], action_names=["valve"])
        >>> stated_cost(log)
        '(level - goal)**2 + 0.1*(valve - 0.5)**2'
    """
    few = data.take(spread_rows(data, _MOST_ROWS, purpose="rows of a formula"))
    costs, schema = -few.rewards.numpy(), data.schema
    if schema.reward is not None or not np.ptp(costs) > 0:
        return None
    # A formula of an angle is none of the same place a turn later.
    kept = [k for k, name in enumerate(schema.states) if name not in schema.angles]
    names = [schema.states[k] for k in kept]
    units = [schema.units.get(name, "") for name in (*names, *schema.actions)]
    for states, place in ((few.states, "{}"), (few.next_states, "next({})")):
        columns = dict(zip((place.format(quoted(name)) for name in names), states.T[kept], strict=True))
        columns |= dict(zip(map(quoted, schema.actions), few.actions.T, strict=True))
        cost = _formula({name: column.numpy() for name, column in columns.items()}, units, costs)
        if cost is not None:
            apart = (few.with_reward(f"-({cost})").rewards - few.rewards).abs().max()
            return cost if bool(apart <= _EXACT * np.ptp(costs)) else None
    return None


def _candidates(columns: Mapping[str, FloatArray], units: Sequence[str]) -> tuple[list[_Term], FloatArray]:
    """Return all terms, and their values (n, k)."""
    found = dict[_Term, FloatArray]()
    for k, (one, x) in enumerate(columns.items()):
        found |= {_Term(one, "{}**2"): x**2, _Term(one, "{}"): x}
        apart = {
            f"{one} - {other}": x - y
            for unit, (other, y) in list(zip(units, columns.items(), strict=True))[k + 1 :]
            if unit == units[k]
        }
        found |= {_Term(name, "({})**2"): value**2 for name, value in apart.items()}
        # The magnitude of what has one sign in the log is linear there, and another formula elsewhere.
        signed = {one: x} | apart
        found |= {_Term(name, "abs({})"): np.abs(v) for name, v in signed.items() if v.min() < 0.0 < v.max()}
    return [*found], np.stack([*found.values()], axis=1)


def _formula(columns: Mapping[str, FloatArray], units: Sequence[str], costs: FloatArray) -> str | None:
    """Return a sum of few terms that is the cost, the term that explains most added first."""
    terms, X = _candidates(columns, units)
    scale, limit = np.maximum(np.abs(X).max(axis=0), 1e-300), _EXACT_ON_AVERAGE * float(np.ptp(costs))
    X = X / scale
    left, residual, chosen = X - X.mean(axis=0), costs - costs.mean(), list[int]()
    while float(np.sqrt(np.square(residual).mean())) > limit:
        size = np.linalg.norm(left, axis=0)
        gained = np.where(
            size > 1e-9 * len(X) ** 0.5, np.abs(residual @ left) / np.maximum(size, 1e-300), 0.0
        )
        best = int(gained.argmax())
        if len(chosen) == _MOST_NUMBERS or gained[best] == 0.0:
            return None
        chosen.append(best)
        unit = left[:, best] / size[best]
        left = left - np.outer(unit, unit @ left)
        residual = residual - unit * (unit @ residual)
    for one in [*chosen]:  # what entered first may be no longer needed
        fewer = [k for k in chosen if k != one]
        if fewer and _fit(X[:, fewer], costs)[1] <= limit:
            chosen = fewer
    factors, _ = _fit(X[:, chosen], costs)
    numbers = {terms[k]: float(factor / scale[k]) for k, factor in zip(chosen, factors[1:], strict=True)}
    return _in_words(numbers, float(factors[0]), largest=float(np.abs(costs).max()))


def _fit(X: FloatArray, costs: FloatArray) -> tuple[FloatArray, float]:
    """Return the coefficients of 1 and X (n, k), and the root mean square error."""
    Z = np.concatenate([np.ones((len(X), 1)), X], axis=1)
    factors: FloatArray = np.linalg.lstsq(Z, costs, rcond=None)[0]
    return factors, float(np.sqrt(np.square(Z @ factors - costs).mean()))


def _in_words(numbers: dict[_Term, float], constant: float, *, largest: float) -> str:
    """Return the formula; x² and x are completed to one square."""
    parts = list[tuple[float, str]]()
    for term, factor in numbers.items():
        if term.form == "{}" and _Term(term.name, "{}**2") in numbers:
            continue
        text, linear = term.form.format(term.name), numbers.get(_Term(term.name, "{}"))
        if term.form == "{}**2" and linear is not None:
            center = float(f"{-linear / (2.0 * factor):.{_DIGITS}g}")
            constant -= factor * center**2
            text = f"({term.name} {'-' if center > 0 else '+'} {abs(center):g})**2"
        parts.append((factor, text))
    if abs(constant) > _EXACT * largest:
        parts.append((constant, ""))
    words = ""
    for factor, text in parts:
        size = f"{abs(factor):.{_DIGITS}g}"
        product = text if text and size == "1" else "*".join(filter(None, (size, text)))
        sign = ("-" if factor < 0 else "") if not words else (" - " if factor < 0 else " + ")
        words += sign + product
    return words
