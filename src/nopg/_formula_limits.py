"""Limits of a formula whatever its columns are, by interval arithmetic over its operations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nopg._expressions import Expression, Operation

Limits = tuple[float, float]

_ANY: Limits = (-math.inf, math.inf)
_OF_FUNCTIONS: Mapping[str, Limits] = {
    "holds": (0.0, 1.0),
    **dict.fromkeys(("exp", "sqrt"), (0.0, math.inf)),
    **dict.fromkeys(("sin", "cos", "tanh"), (-1.0, 1.0)),
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
    (a, b), (c, d) = (found[place] if place < len(found) else _ANY for place in (one.left, one.right))
    sizes, limits = (max(a, -b, 0.0), max(-a, b)), _OF_FUNCTIONS.get(one.kind, _ANY)
    match one.kind:
        case "number":
            limits = one.number, one.number
        case "add":
            limits = a + c, b + d
        case "subtract":
            limits = a - d, b - c
        case "multiply" if one.left == one.right:
            limits = _power(sizes[0], 2.0), _power(sizes[1], 2.0)
        case "multiply":
            limits = _product((a, b), (c, d))
        case "divide" if c == d != 0.0:
            limits = _product((a, b), (1.0 / c, 1.0 / c))
        case "power" if c == d > 0 and c % 2 == 0:
            limits = _power(sizes[0], c), _power(sizes[1], c)
        case "negative":
            limits = -b, -a
        case "abs":
            limits = sizes
        case "min":
            limits = min(a, c), min(b, d)
        case "max":
            limits = max(a, c), max(b, d)
        case "edge":
            limits = a, b
    return limits


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def _product(left: Limits, right: Limits) -> Limits:
    ends = [x * y if x and y else 0.0 for x in left for y in right]  # 0 times any number is 0
    return min(ends), max(ends)
