"""Formulas of named columns, as in a reward or a region: read by Python's parser, and nothing else is run."""

from __future__ import annotations

import ast
import math
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from keyword import iskeyword
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from nopg.errors import ArgumentError

Array = Any
"""A numpy array or a torch tensor; a formula is computed by the library of its columns."""
_Affine = tuple[float, dict[str, float]]

_BINARY: Mapping[type[ast.AST], Callable[[Array, Array], Array]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.Pow: operator.pow,
    }
)
# Number of arguments, and the name that numpy and torch both have.
_FUNCTIONS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "abs": (1, "abs"),
        "min": (2, "minimum"),
        "max": (2, "maximum"),
        "sqrt": (1, "sqrt"),
        "exp": (1, "exp"),
        "log": (1, "log"),
        "sin": (1, "sin"),
        "cos": (1, "cos"),
        "tanh": (1, "tanh"),
    }
)
_COMPARED = frozenset({ast.Lt, ast.LtE, ast.Gt, ast.GtE})
# A margin of 0 that counts as inside.
_AT_EDGE = 1e-30
# Longer formulas are a program: a function is read more easily.
_MOST_NODES = 200
_NAME = re.compile(r"`([^`]*)`|([^\W\d]\w*)")
_PLACE = re.compile(r"\b__(\d+)\b")
_UNDERSTOOD = "numbers, + - * / **, abs, min, max, sqrt, exp, log, sin, cos, tanh, comparisons, and, or, not"


@dataclass(frozen=True, slots=True)
class Condition:
    """How far a condition is met: a comparison is the difference of its sides, positive where it holds.

    `and` is the smaller and `or` the larger of two margins.
    """

    margin: Array

    @classmethod
    def compared(cls, op: ast.AST, left: Array, right: Array) -> Condition:
        """Return a comparison; on its edge ≤ and ≥ hold."""
        apart = right - left if isinstance(op, (ast.Lt, ast.LtE)) else left - right
        equal_holds = isinstance(op, (ast.LtE, ast.GtE))
        return cls(_library(apart).where(apart == 0, _AT_EDGE, apart) if equal_holds else apart)

    def __and__(self, other: Condition) -> Condition:
        return Condition(_library(self.margin).minimum(self.margin, other.margin))

    def __or__(self, other: Condition) -> Condition:
        return Condition(_library(self.margin).maximum(self.margin, other.margin))

    def __invert__(self) -> Condition:
        return Condition(_library(self.margin).where(self.margin == 0, _AT_EDGE, -self.margin))


@dataclass(frozen=True, slots=True)
class Expression:
    """A formula of columns by name; a name that is no word of Python is quoted: `` `level [m]` ``.

    A condition counts as 1 where it holds and as 0 elsewhere, if something is computed from it. `next(level)`
    and `diff(level)` are columns of that name.

    Attributes:
        text: The formula.
        what: What it is, for errors: "the region", "the reward".
        names: The columns in it, in the order of their appearance.

    Example:
        >>> cost = Expression("(level - 1) ** 2 + 10 * (`flow [l/s]` > 2)", "the cost")
        >>> cost.names
        ('level', 'flow [l/s]')
        >>> cost({"level": np.array([1.0, 3.0]), "flow [l/s]": np.array([3.0, 0.0])}).tolist()
        [10.0, 4.0]
    """

    text: str
    what: str = "the expression"
    names: tuple[str, ...] = field(init=False)
    _tree: ast.AST = field(init=False, repr=False, compare=False)
    _quoted: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        quoted: dict[str, int] = {}

        def place(found: re.Match[str]) -> str:
            name = found[1] if found[2] is None else found[2]
            if found[2] is not None and name.isascii():
                return name
            return f"__{quoted.setdefault(name, len(quoted))}"  # Python would read µ as μ, and m³ not at all

        plain = _NAME.sub(place, self.text.strip())
        try:
            tree = ast.parse(plain, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else error
            raise ArgumentError(f"{self.what} {self.text!r} cannot be read: {reason}") from None
        if sum(1 for _ in ast.walk(tree)) > _MOST_NODES:
            raise ArgumentError(f"{self.what} is too long an expression; give a function instead")
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "_quoted", tuple(quoted))
        object.__setattr__(self, "names", tuple(dict.fromkeys(self._columns(tree))))

    def value(self, columns: Mapping[str, Array]) -> Array | Condition:
        """Return the value of the formula for columns by name, all of one shape."""
        if missing := [name for name in self.names if name not in columns]:
            raise ArgumentError(
                f"{missing[0]!r} in {self.what} {self.text!r} is not known; there are {sorted(columns)}"
            )
        with np.errstate(all="ignore"):
            return self._value(self._tree, columns)

    def __call__(self, columns: Mapping[str, Array]) -> Array:
        """Return the numbers of the formula, in the shape of the columns."""
        found = _as_number(self.value(columns))
        if not columns:
            return found
        one = next(iter(columns.values()))
        return _library(one).broadcast_to(found, one.shape)

    @property
    def tree(self) -> ast.AST:
        """The formula as Python's parser reads it; `column` and `part` name what is in it."""
        return self._tree

    def part(self, node: ast.AST) -> str:
        """Return the text of a part of the tree."""
        return _PLACE.sub(lambda found: f"`{self._quoted[int(found.group(1))]}`", ast.unparse(node))

    def affine_parts(self) -> list[_Affine]:
        """Return what squares, magnitudes and other functions are taken of, where it is affine in columns.

        Each is a constant and a factor by column; a sum of the formula's own is none.

        Example:
            >>> Expression("-(level - goal) ** 2 - 0.1 * abs(2 * valve - 1) - 3 * level").affine_parts()
            [(0.0, {'level': 1.0, 'goal': -1.0}), (-1.0, {'valve': 2.0})]
        """
        found = list[_Affine]()

        def look(node: ast.AST, *, inside: bool) -> None:
            part = self._affine(node)
            if part is not None:
                if inside and part[1] and part not in found:
                    found.append(part)
                return
            match node:
                case ast.UnaryOp(op=ast.USub()) | ast.BinOp(op=ast.Add() | ast.Sub()):
                    further = inside
                case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
                    further = inside or not any(isinstance(side, ast.Constant) for side in (left, right))
                case _:
                    further = True
            for child in node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node):
                look(child, inside=further)

        look(self._tree, inside=False)
        return found

    def _affine(self, node: ast.AST) -> _Affine | None:
        """Return a part as a constant and factors of columns; None where it is not affine in them."""
        found: _Affine | None = None
        match node:
            case ast.Constant(value=int() | float() as value):
                found = float(value), {}
            case ast.Name() | ast.Call(func=ast.Name(id="next" | "diff"), args=[ast.Name()], keywords=[]):
                found = 0.0, {self.column(node): 1.0}
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                found = _combined(None, self._affine(operand), -1.0)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                one, other = self._affine(left), self._affine(right)
                if one is not None:
                    found = _combined(one, other, -1.0 if isinstance(op, ast.Sub) else 1.0)
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as op, right=right):
                one, other = self._affine(left), self._affine(right)
                if isinstance(op, ast.Mult) and one is not None and not one[1]:
                    found = _combined(None, other, one[0])
                elif other is not None and not other[1]:
                    by = other[0] if isinstance(op, ast.Mult) else 1.0 / (other[0] or math.inf)
                    found = _combined(None, one, by)
        return found

    def _columns(self, node: ast.AST) -> Iterator[str]:
        """Yield the columns in a part, in the order of their appearance."""
        match node:
            case ast.Name() | ast.Call(func=ast.Name(id="next" | "diff"), args=[ast.Name()], keywords=[]):
                yield self.column(node)
            case _:
                parts = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
                for part in parts:
                    yield from self._columns(part)

    def column(self, node: ast.AST) -> str:
        """Return the name of a column as it is in the data, `next(level)` for such a part."""
        match node:
            case ast.Call(func=ast.Name(id=function), args=[argument]):
                return f"{function}({self.column(argument)})"
            case ast.Name(id=name):
                number = name.removeprefix("__")
                return self._quoted[int(number)] if name != number and number.isdigit() else name
        raise AssertionError(node)

    def _value(self, node: ast.AST, columns: Mapping[str, Array]) -> Array | Condition:
        """Return the value of a part: a condition or a number."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~self._condition(operand, columns)
            case ast.BoolOp(op=op, values=values):
                parts = [self._condition(part, columns) for part in values]
                return reduce(operator.and_ if isinstance(op, ast.And) else operator.or_, parts)
            case ast.Compare(left=left, ops=ops, comparators=others) if {type(op) for op in ops} <= _COMPARED:
                terms = [self._number(part, columns) for part in (left, *others)]
                if all(term.ndim == 0 for term in terms):
                    raise ArgumentError(f"{self.part(node)!r} compares numbers alone")
                pairs = zip(ops, terms, terms[1:], strict=False)
                return reduce(operator.and_, [Condition.compared(op, one, other) for op, one, other in pairs])
        return self._computed(node, columns)

    def _computed(self, node: ast.AST, columns: Mapping[str, Array]) -> Array:
        """Return the number that a part is; no other kinds of parts are understood."""
        match node:
            case ast.Constant(value=int() | float() as given) if not isinstance(given, bool):
                return self._constant(given, columns)
            case ast.Name() | ast.Call(func=ast.Name(id="next" | "diff"), args=[ast.Name()], keywords=[]):
                return columns[self.column(node)]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                one, other = self._number(left, columns), self._number(right, columns)
                if isinstance(op, ast.Div) and other.ndim == 0 and other == 0:
                    raise ArgumentError(f"{self.what} {self.text!r} divides by zero")
                return _BINARY[type(op)](one, other)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._number(operand, columns)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
                return self._call(name, [self._number(part, columns) for part in arguments])
        raise ArgumentError(
            f"{self.part(node)!r} is not understood in {self.what}; use names of columns, {_UNDERSTOOD}; "
            "or give a function"
        )

    def _number(self, node: ast.AST, columns: Mapping[str, Array]) -> Array:
        return _as_number(self._value(node, columns))

    def _condition(self, node: ast.AST, columns: Mapping[str, Array]) -> Condition:
        found = self._value(node, columns)
        if not isinstance(found, Condition):
            raise ArgumentError(f"{self.part(node)!r} is no condition; compare it with something")
        return found

    def _constant(self, given: float, columns: Mapping[str, Array]) -> Array:
        try:
            value = float(given)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise ArgumentError(f"a number in {self.what} is too large; the largest is about 1e308")
        library = _library(*columns.values())
        return library.asarray(value, dtype=library.float64)

    def _call(self, name: str, arguments: list[Array]) -> Array:
        count, function = _FUNCTIONS[name]
        if len(arguments) != count:
            plural = "s" if count > 1 else ""
            raise ArgumentError(f"{name} in {self.what} takes {count} argument{plural}, not {len(arguments)}")
        return getattr(_library(*arguments), function)(*arguments)


def _combined(one: _Affine | None, other: _Affine | None, factor: float) -> _Affine | None:
    """Return one + factor·other, the first 0 if there is none; None without the other."""
    if other is None:
        return None
    constant, factors = (0.0, {}) if one is None else one
    by_name = {name: factors.get(name, 0.0) + factor * other[1].get(name, 0.0) for name in factors | other[1]}
    return constant + factor * other[0], by_name


def column_of(name: str) -> str:
    """Return the column that a name in a formula is of: `level` of `next(level)`."""
    return name[5:-1] if name.startswith("next(") and name.endswith(")") else name


def quoted(name: str) -> str:
    """Return the name of a column as it stands in a formula, in backquotes where it is no word."""
    return name if name.isidentifier() and not iskeyword(name) else f"`{name}`"


def _as_number(value: Array | Condition) -> Array:
    """Return a condition as 1 or 0, anything else as it is."""
    if not isinstance(value, Condition):
        return value
    return (value.margin > 0) * _library(value.margin).ones_like(value.margin)


def _library(*values: Array) -> ModuleType:
    """Return torch if a value is a tensor, else numpy: a controller at runtime has no torch."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and any(isinstance(one, torch.Tensor) for one in values) else np
