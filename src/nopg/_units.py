"""Units of columns as powers of symbols, and their check in sums and comparisons; nothing is converted."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, NoReturn

from nopg._expressions import Expression
from nopg.errors import DataError

_POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_RAISED = re.compile("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_TOKEN = re.compile(r"\s*([()]|\*(?!\*)|[·⋅×/]|[^\s()*·⋅×/]+)")
_FACTOR = re.compile(r"(?P<symbol>[^\d^+\-−][^^]*?)(?:\^?(?P<power>[+\-−]?\d+))?")
# Texts of numbers without a unit, and units of angles that sin and cos take.
_NO_UNIT = frozenset({"1", "-"})
_TURNS = frozenset({"rad", "radian", "radians"})


@dataclass(frozen=True, slots=True)
class Unit:
    """A product of powers of symbols; every symbol is a unit of its own, so m and cm differ.

    Attributes:
        powers: Power of each symbol, none of them 0; empty for a number without a unit.

    Example:
        >>> Unit.of("kg*m/s^2") == Unit.of("kg m s⁻²")
        True
        >>> print(Unit.of("m3/h"), "|", Unit.of("%"), "|", Unit.of("1"))
        m^3/h | % | no unit
    """

    powers: Mapping[str, Fraction] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Unit:
        """Return the unit of a text such as `m/s`, `m^2`, `kg*m/s^2`, `J/(kg*K)` or `°C`.

        A text of another form is one symbol as a whole.
        """
        if not text.strip():
            return cls()
        plain = _RAISED.sub(lambda found: "^" + found.group().translate(_POWERS), text.replace("**", "^"))
        try:
            unit, rest = _product(_TOKEN.findall(plain))
        except ValueError:
            return cls({text.strip(): Fraction(1)})
        return cls({text.strip(): Fraction(1)}) if rest else unit

    def times(self, other: Unit, power: Fraction = Fraction(1)) -> Unit:
        """Return the product with a power of another unit."""
        powers = dict(self.powers)
        for symbol, own in other.powers.items():
            powers[symbol] = powers.get(symbol, Fraction(0)) + own * power
        return Unit({symbol: found for symbol, found in powers.items() if found})

    def __str__(self) -> str:
        above = "*".join(_power(symbol, power) for symbol, power in self.powers.items() if power > 0)
        below = "".join(f"/{_power(symbol, -power)}" for symbol, power in self.powers.items() if power < 0)
        return (above or "1" if below else above) + below or "no unit"


def check_units(expression: Expression, units: Mapping[str, str]) -> None:
    """Refuse a formula that adds or compares quantities of different declared units.

    A number fits any unit, as does a column without one. A number as a factor is a weight with a unit of its
    own, so `0.1 * valve` may be added to anything; so may what has the form of a penalty, a power, `abs`,
    `min`, `max` or a condition, whose weight is 1.

    Args:
        expression: The formula.
        units: Declared units, by column name.

    Example:
        >>> check_units(Expression("-(level - 1)**2 - valve**2", "the reward"), {"level": "m", "valve": "%"})
        >>> check_units(Expression("level - valve", "the reward"), {"level": "m", "valve": "%"})
        Traceback (most recent call last):
        ...
        nopg.errors.DataError: 'level' is in m and 'valve' in % in the reward 'level - valve'; convert ...
    """
    _Check(expression, units).of(expression.tree)


class _Quantity(NamedTuple):
    """The unit of a part, None if it fits any; and whether it has the form of a penalty."""

    unit: Unit | None = None
    penalty: bool = False


@dataclass(frozen=True, slots=True)
class _Check:
    expression: Expression
    units: Mapping[str, str]

    def of(self, node: ast.AST) -> _Quantity:
        """Return the unit of a part, after a check of all that is in it."""
        match node:
            case ast.Name() | ast.Call(func=ast.Name(id="next" | "diff"), args=[ast.Name()], keywords=[]):
                column = self.expression.column(node.args[0] if isinstance(node, ast.Call) else node)
                return _Quantity(Unit.of(self.units[column]) if column in self.units else None)
            case ast.UnaryOp(operand=operand):
                return self.of(operand)
            case ast.BinOp(left=left, op=op, right=right):
                return self._combined(left, op, right)
            case ast.Compare() | ast.BoolOp():
                self._condition(node)
                return _Quantity(Unit(), True)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._called(name, arguments)
        return _Quantity()  # a number

    def _combined(self, left: ast.AST, op: ast.AST, right: ast.AST) -> _Quantity:
        if isinstance(op, (ast.Add, ast.Sub)):
            return self._agreed(left, right)
        if isinstance(op, ast.Pow):
            return self._raised(left, right)
        one, other = self.of(left), self.of(right)
        if one.unit is None or other.unit is None:
            return _Quantity()
        power = Fraction(-1 if isinstance(op, ast.Div) else 1)
        return _Quantity(one.unit.times(other.unit, power), one.penalty or other.penalty)

    def _condition(self, node: ast.Compare | ast.BoolOp) -> None:
        """Check the parts of a condition; what is compared has one unit, penalty or not."""
        parts = node.values if isinstance(node, ast.BoolOp) else [node.left, *node.comparators]
        known = [(part, unit) for part in parts if (unit := self.of(part).unit) is not None]
        for part, unit in known[1:]:
            if unit != known[0][1]:
                self._refuse(*known[0], part, unit)

    def _agreed(self, left: ast.AST, right: ast.AST) -> _Quantity:
        """Return the unit of a sum; of different units one part must be a penalty."""
        one, other = self.of(left), self.of(right)
        penalty = one.penalty or other.penalty
        if one.unit is None or other.unit is None or one.unit == other.unit:
            return _Quantity(one.unit if other.unit is None else other.unit, penalty)
        if not penalty:
            self._refuse(left, one.unit, right, other.unit)
        return _Quantity(None, penalty)

    def _raised(self, base: ast.AST, exponent: ast.AST) -> _Quantity:
        unit, _ = self.of(base).unit, self.of(exponent)
        match exponent:
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return _Quantity(_raise(unit, -number), True)
            case ast.Constant(value=int() | float() as number):
                return _Quantity(_raise(unit, number), True)
        return _Quantity(None, True)

    def _called(self, name: str, arguments: list[ast.expr]) -> _Quantity:
        if name in {"min", "max"} and len(arguments) == 2:
            return _Quantity(self._agreed(*arguments).unit, True)
        parts = [self.of(part) for part in arguments]
        if len(parts) != 1:
            return _Quantity()  # which cannot be computed either
        [(unit, penalty)] = parts
        if name == "abs":
            return _Quantity(unit, True)
        if name == "sqrt":
            return _Quantity(_raise(unit, 0.5), penalty)
        if name in {"sin", "cos"} and unit is not None and not {*unit.powers} <= _TURNS and not penalty:
            raise DataError(
                f"{self._text(arguments[0])} in {self.expression.what} {self.expression.text!r} is in "
                f"{unit}, but {name} takes radians; convert the column"
            )
        return _Quantity(Unit(), True)

    def _refuse(self, left: ast.AST, one: Unit, right: ast.AST, other: Unit) -> NoReturn:
        raise DataError(
            f"{self._text(left)} is in {one} and {self._text(right)} in {other} in {self.expression.what} "
            f"{self.expression.text!r}; convert the column, or give a term its weight as a factor, such as "
            "0.1 * …"
        )

    def _text(self, node: ast.AST) -> str:
        return repr(self.expression.part(node))


def _product(tokens: list[str]) -> tuple[Unit, list[str]]:
    """Return the unit of a product up to a closing parenthesis, and the tokens after it."""
    unit, power, rest = Unit(), Fraction(1), tokens
    while rest and rest[0] != ")":
        token, *rest = rest
        if token in "*·⋅×/":
            power = Fraction(-1 if token == "/" else 1)
            if not rest or rest[0] in ")*·⋅×/":
                raise ValueError(token)
            continue
        if token == "(":
            inner, rest = _product(rest)
            if not rest:
                raise ValueError(token)
            rest = rest[1:]
        else:
            inner = _factor(token)
        unit, power = unit.times(inner, power), Fraction(1)
    return unit, rest


def _factor(token: str) -> Unit:
    if token in _NO_UNIT:
        return Unit()
    if (found := _FACTOR.fullmatch(token)) is None:
        raise ValueError(token)
    power = (found["power"] or "1").replace("−", "-")
    return Unit({found["symbol"]: Fraction(power)} if int(power) else {})


def _raise(unit: Unit | None, power: float) -> Unit | None:
    """Return a power of a unit; 1/3 is a third although 0.333… is not."""
    if unit is None or not math.isfinite(power):
        return None
    return Unit().times(unit, Fraction(power).limit_denominator(1000))


def _power(symbol: str, power: Fraction) -> str:
    return symbol if power == 1 else f"{symbol}^{power}"
