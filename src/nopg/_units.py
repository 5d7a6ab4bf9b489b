"""Units of columns as powers of symbols, and their check in sums and comparisons; nothing is converted."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from nopg._expressions import Expression
from nopg.errors import DataError

_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")
_FACTOR = re.compile(
    r"\s*([*·⋅×/]?)\s*(?:([^\s\d^+\-()*·⋅×/][^\s^()*·⋅×/]*?)(?:\^?([+-]?\d+))?|1|-)(?=[\s*·⋅×/]|$)"
)

Powers = Mapping[str, float]
"""Power of each symbol of a unit, none of them 0; empty for a number without a unit."""


def unit_powers(text: str) -> Powers:
    """Return the powers of a unit such as `m/s`, `m²` or `kg*m/s^2`; other texts are one symbol."""
    plain, place, powers = text.strip().replace("**", "^").translate(_RAISED), 0, dict[str, float]()
    while place < len(plain):
        if (found := _FACTOR.match(plain, place)) is None:
            return {text.strip(): 1.0}
        mark, symbol, power = found.groups()
        if symbol:
            powers = _times(powers, {symbol: float(power or 1)}, -1.0 if mark == "/" else 1.0)
        place = found.end()
    return powers


def check_units(expression: Expression, units: Mapping[str, str]) -> None:
    """Refuse a formula that adds or compares quantities of different declared units.

    A number fits any unit, as does a column without one. A number as a factor is a weight with a unit of its
    own; so is a penalty (a power, `abs`, `min`, `max`, a condition), whose weight is 1.

    Example:
        >>> check_units(Expression("level - valve", "the reward"), {"level": "m", "valve": "%"})
        Traceback (most recent call last):
        ...
        nopg.errors.DataError: 'level' is in m and 'valve' in % in the reward 'level - valve'; convert ...
    """
    _Check(expression, units).of(expression.tree)


class _Quantity(NamedTuple):
    """The unit of a part, None if it fits any; and whether it has the form of a penalty."""

    unit: Powers | None = None
    penalty: bool = False


@dataclass(frozen=True, slots=True)
class _Check:
    expression: Expression
    units: Mapping[str, str]

    def of(self, node: ast.AST) -> _Quantity:  # noqa: PLR0911  # one per kind of node
        """Return the unit of a part, after a check of all that is in it."""
        match node:
            case ast.Name() | ast.Call(func=ast.Name(id="next" | "diff"), args=[ast.Name()]):
                column = self.expression.column(node.args[0] if isinstance(node, ast.Call) else node)
                return _Quantity(unit_powers(self.units[column]) if column in self.units else None)
            case ast.UnaryOp(operand=operand):
                return self.of(operand)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                return self._agreed([left, right])
            case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
                self.of(exponent)
                return _Quantity(_raised(self.of(base).unit, exponent), True)
            case ast.BinOp(left=left, op=op, right=right):
                one, other = self.of(left), self.of(right)
                if one.unit is None or other.unit is None:
                    return _Quantity()
                sign = -1.0 if isinstance(op, ast.Div) else 1.0
                return _Quantity(_times(one.unit, other.unit, sign), one.penalty or other.penalty)
            case ast.Compare() | ast.BoolOp():
                parts = node.values if isinstance(node, ast.BoolOp) else [node.left, *node.comparators]
                self._agreed(parts, is_sum=False)
            case ast.Call(func=ast.Name(id="min" | "max" | "abs"), args=arguments):
                return _Quantity(self._agreed(arguments).unit, True)
            case ast.Call(func=ast.Name(id="sqrt"), args=[argument]):
                unit, penalty = self.of(argument)
                return _Quantity(_raised(unit, ast.Constant(0.5)), penalty)
            case ast.Call(args=arguments):
                self._agreed(arguments)
            case _:
                return _Quantity()  # a number
        return _Quantity({}, True)

    def _agreed(self, parts: Sequence[ast.AST], *, is_sum: bool = True) -> _Quantity:
        """Return the one unit of all parts; in a sum others may be penalties."""
        found = [self.of(part) for part in parts]
        known = [(part, one.unit) for part, one in zip(parts, found, strict=True) if one.unit is not None]
        penalty = any(one.penalty for one in found)
        for part, unit in known:
            if unit != known[0][1] and is_sum and penalty:
                return _Quantity(None, True)
            if unit != known[0][1]:
                (left, one), what = known[0], self.expression
                raise DataError(
                    f"{what.part(left)!r} is in {_text(one)} and {what.part(part)!r} in {_text(unit)} in "
                    f"{what.what} {what.text!r}; convert the column, or give a term its weight as a factor, "
                    "such as 0.1 * …"
                )
        return _Quantity(known[0][1] if known else None, penalty)


def _times(one: Powers, other: Powers, power: float) -> dict[str, float]:
    found = dict(one)
    for symbol, own in other.items():
        found[symbol] = found.get(symbol, 0.0) + own * power
    return {symbol: power for symbol, power in found.items() if power}


def _raised(unit: Powers | None, exponent: ast.AST) -> Powers | None:
    with suppress(ValueError):  # the exponent is no number
        return None if unit is None else _times({}, unit, float(ast.literal_eval(exponent)))
    return None


def _text(unit: Powers) -> str:
    names = {name: name if abs(power) == 1 else f"{name}^{abs(power):g}" for name, power in unit.items()}
    above = "*".join(names[name] for name, power in unit.items() if power > 0)
    below = "".join(f"/{names[name]}" for name, power in unit.items() if power < 0)
    return (above or "1" if below else above) + below or "no unit"
