"""Limits of a formula whatever its columns are, by interval arithmetic over its operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from nopg._expressions import Expression, Operation

Limits = tuple[float, float]

_ANY: Limits = (-math.inf, math.inf)
_OF_FUNCTIONS: Mapping[str, Limits] = {
    "holds": (0.0, 1.0),
    "exp": (0.0, math.inf),
    "sqrt": (0.0, math.inf),
    "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
    "tanh": (-1.0, 1.0),
}


def formula_limits(formula: Expression) -> Limits:
    """Return the lowest and the highest value of a formula; they are infinite where no rule knows better.

    Example:
        >>> formula_limits(Expression("2 - (level - goal) ** 2 - 0.1 * abs(valve)"))
        (-inf, 2.0)
    """
    found = list[Limits]()
    for one in formula.operations:
        found.append(_limits(one, found))
    low, high = found[-1]
    return low + 0.0, high + 0.0  # a zero has no sign


def _limits(one: Operation, found: Sequence[Limits]) -> Limits:
    if one.kind in {"number", "column"}:
        return (one.number, one.number) if one.kind == "number" else _ANY
    left, right = found[one.left], found[one.right]
    if _is_even(one, right):
        least, most = _sizes(left)
        times = 2.0 if one.kind == "multiply" else right[0]
        return _power(least, times), _power(most, times)
    rule = _RULES.get(one.kind)
    return _OF_FUNCTIONS.get(one.kind, _ANY) if rule is None else rule(left, right)


def _is_even(one: Operation, right: Limits) -> bool:
    """Return whether an operation is an even power, such as the product of a part with itself."""
    if one.kind == "multiply":
        return one.left == one.right
    return one.kind == "power" and right[0] == right[1] > 0 and right[0] % 2 == 0


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def _sizes(limits: Limits) -> Limits:
    low, high = limits
    return max(low, -high, 0.0), max(-low, high)


def _product(left: Limits, right: Limits) -> Limits:
    ends = [x * y if x and y else 0.0 for x in left for y in right]  # 0 times any number is 0
    return min(ends), max(ends)


def _quotient(left: Limits, right: Limits) -> Limits:
    if right[0] != right[1] or right[0] == 0.0:
        return _ANY
    return _product(left, (1.0 / right[0], 1.0 / right[0]))


_RULES: Mapping[str, Callable[[Limits, Limits], Limits]] = {
    "add": lambda left, right: (left[0] + right[0], left[1] + right[1]),
    "subtract": lambda left, right: (left[0] - right[1], left[1] - right[0]),
    "multiply": _product,
    "divide": _quotient,
    "negative": lambda left, _: (-left[1], -left[0]),
    "abs": lambda left, _: _sizes(left),
    "min": lambda left, right: (min(left[0], right[0]), min(left[1], right[1])),
    "max": lambda left, right: (max(left[0], right[0]), max(left[1], right[1])),
    "edge": lambda left, _: left,
}
