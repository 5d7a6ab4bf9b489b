"""Formulas of named columns, as in a reward or a region: read by Python's parser, and nothing else is run."""

from __future__ import annotations

import ast
import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from keyword import iskeyword
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from nopg.errors import ArgumentError

Array = Any
"""A numpy array or a torch tensor; a formula is computed by the library of its columns."""
_Affine = tuple[float, dict[str, float]]

KINDS = (
    "number", "column", "add", "subtract", "multiply", "divide", "power", "negative", "abs", "min", "max",
    "sqrt", "exp", "log", "sin", "cos", "tanh", "edge", "holds",
)  # fmt: skip
"""All operations, in the order of `deploy/core.c`: `edge` is a margin on whose 0 a condition holds, `holds`
is 1 where a margin is positive, else 0."""

_BINARY: Mapping[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}
_OPERATORS: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": operator.pow,
}
_FUNCTIONS = {"min": 2, "max": 2, **dict.fromkeys(("abs", "sqrt", "exp", "log", "sin", "cos", "tanh"), 1)}
_COMPARED = frozenset({ast.Lt, ast.LtE, ast.Gt, ast.GtE})
# A margin of 0 that counts as inside.
_AT_EDGE = 1e-30
# Longer formulas are a program; a linear law of 40 columns has 322 nodes.
_MOST_NODES = 1_000
_NAME = re.compile(r"`([^`]*)`|([^\W\d]\w*)")
_PLACE = re.compile(r"\b__(\d+)\b")
_UNDERSTOOD = "numbers, + - * / **, abs, min, max, sqrt, exp, log, sin, cos, tanh, comparisons, and, or, not"


class Operation(NamedTuple):
    """One number computed from earlier ones."""

    kind: str  # One of `KINDS`
    left: int = 0  # Place of the first operand in the list
    right: int = 0  # Place of the second operand
    number: float = 0.0  # The value of `number`
    name: str = ""  # The name of `column`


@dataclass(frozen=True, slots=True)
class Expression:
    """A formula of columns by name; a name that is no word of Python is quoted: `` `level [m]` ``.

    A condition counts as 1 where it holds and as 0 elsewhere, if something is computed from it. `next(level)`
    and `diff(level)` are columns of that name.

    Attributes:
        text: The formula.
        what: What it is, for errors: "the region", "the reward".
        names: The columns in it, in the order of their appearance.
        operations: The formula as a list of operations, the last of which is its value.
        tree: The formula as Python's parser reads it; `column` and `part` name what is in it.

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
    operations: tuple[Operation, ...] = field(init=False, repr=False, compare=False)
    tree: ast.AST = field(init=False, repr=False, compare=False)
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
            raise ArgumentError(f"{self.what} is too long an expression; compute a part of it as a column")
        object.__setattr__(self, "tree", tree)
        object.__setattr__(self, "_quoted", tuple(quoted))
        object.__setattr__(self, "names", tuple(dict.fromkeys(self.columns_of(tree))))
        reader = _Reader(self)
        (reader.margin if _is_condition(tree) else reader.number)(tree)
        object.__setattr__(self, "operations", tuple(reader.found))

    @property
    def is_condition(self) -> bool:
        """Whether it holds or does not, instead of being a number."""
        return _is_condition(self.tree)

    def margin(self, columns: Mapping[str, Array]) -> Array:
        """Return how far a condition is met by columns by name, all of one shape; of a number its value.

        A comparison is the difference of its sides, positive where it holds; `and` is the smaller and `or`
        the larger of two margins.
        """
        if missing := [name for name in self.names if name not in columns]:
            raise ArgumentError(
                f"{missing[0]!r} in {self.what} {self.text!r} is not known; there are {sorted(columns)}"
            )
        return _computed(self.operations, _library(*columns.values()), columns)

    def __call__(self, columns: Mapping[str, Array]) -> Array:
        """Return the numbers of the formula, in the shape of the columns."""
        found = self.margin(columns)
        if self.is_condition:
            found = _holds(found, _library(found))
        if not columns:
            return found
        one = next(iter(columns.values()))
        return _library(one).broadcast_to(found, one.shape)

    def part(self, node: ast.AST) -> str:
        """Return the text of a part of the tree."""
        return _PLACE.sub(lambda found: f"`{self._quoted[int(found.group(1))]}`", ast.unparse(node))

    @property
    def affine(self) -> _Affine | None:
        """The formula as a constant and a factor by column; None where it is not affine in columns."""
        return self._affine(self.tree)

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

        look(self.tree, inside=False)
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

    def columns_of(self, node: ast.AST) -> Iterator[str]:
        """Yield the columns in a part, in the order of their appearance."""
        match node:
            case ast.Name() | ast.Call(func=ast.Name(id="next" | "diff"), args=[ast.Name()], keywords=[]):
                yield self.column(node)
            case _:
                parts = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
                for part in parts:
                    yield from self.columns_of(part)

    def column(self, node: ast.AST) -> str:
        """Return the name of a column as it is in the data, `next(level)` for such a part."""
        match node:
            case ast.Call(func=ast.Name(id=function), args=[argument]):
                return f"{function}({self.column(argument)})"
            case ast.Name(id=name):
                number = name.removeprefix("__")
                return self._quoted[int(number)] if name != number and number.isdigit() else name
        raise AssertionError(node)


@dataclass(slots=True)
class _Reader:
    """The parts of a formula as operations, each once; what is not understood is refused."""

    formula: Expression
    found: dict[Operation, int] = field(default_factory=dict)

    def add(self, kind: str, left: int = 0, right: int = 0, number: float = 0.0, name: str = "") -> int:
        """Return the place of an operation."""
        return self.found.setdefault(Operation(kind, left, right, number, name), len(self.found))

    def number(self, node: ast.AST) -> int:
        """Return the place of a part as a number; a condition counts as 1 or 0."""
        if _is_condition(node):
            return self.add("holds", self.margin(node))
        match node:
            case ast.Constant(value=int() | float() as given) if not isinstance(given, bool):
                if abs(given) > sys.float_info.max:
                    raise ArgumentError(
                        f"a number in {self.formula.what} is too large; the largest is about 1e308"
                    )
                return self.add("number", number=float(given))
            case ast.Name() | ast.Call(func=ast.Name(id="next" | "diff"), args=[ast.Name()], keywords=[]):
                return self.add("column", name=self.formula.column(node))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                if isinstance(op, ast.Div) and self.is_constant(right):
                    (alone := _Reader(self.formula)).number(right)
                    if _computed(alone.found, np, {}) == 0.0:
                        raise ArgumentError(f"{self.formula.what} {self.formula.text!r} divides by zero")
                return self.add(_BINARY[type(op)], self.number(left), self.number(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.add("negative", self.number(operand))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
                if len(arguments) != (count := _FUNCTIONS[name]):
                    s = "s" if count > 1 else ""
                    raise ArgumentError(
                        f"{name} in {self.formula.what} takes {count} argument{s}, not {len(arguments)}"
                    )
                places = [*map(self.number, arguments)]
                return self.add(name, places[0], places[-1])
        raise ArgumentError(
            f"{self.formula.part(node)!r} is not understood in {self.formula.what}; use names of columns, "
            f"{_UNDERSTOOD}; or give a function"
        )

    def margin(self, node: ast.AST) -> int:
        """Return the place of the margin of a condition."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.add("edge", self.add("negative", self.margin(operand)))
            case ast.BoolOp(op=op, values=values):
                kind = "min" if isinstance(op, ast.And) else "max"
                return reduce(lambda one, other: self.add(kind, one, other), map(self.margin, values))
            case ast.Compare(left=left, ops=ops, comparators=others):
                parts = (left, *others)
                if all(map(self.is_constant, parts)):
                    raise ArgumentError(f"{self.formula.part(node)!r} compares numbers alone")
                terms = [self.number(one) for one in parts]
                margins = [self.compared(*one) for one in zip(ops, terms, terms[1:], strict=False)]
                return reduce(lambda one, other: self.add("min", one, other), margins)
        raise ArgumentError(f"{self.formula.part(node)!r} is not a condition; compare it, as in x > 1")

    def compared(self, op: ast.AST, left: int, right: int) -> int:
        """Return the place of the margin of a comparison; on its edge ≤ and ≥ hold."""
        pair = (right, left) if isinstance(op, (ast.Lt, ast.LtE)) else (left, right)
        apart = self.add("subtract", *pair)
        return self.add("edge", apart) if isinstance(op, (ast.LtE, ast.GtE)) else apart

    def is_constant(self, node: ast.AST) -> bool:
        """Return whether there is no column in a part."""
        return not any(True for _ in self.formula.columns_of(node))


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


def _is_condition(node: ast.AST) -> bool:
    """Return whether a part of a formula holds or does not, instead of being a number."""
    match node:
        case ast.UnaryOp(op=ast.Not()) | ast.BoolOp():
            return True
        case ast.Compare(ops=ops):
            return {type(op) for op in ops} <= _COMPARED
    return False


def _computed(operations: Iterable[Operation], library: ModuleType, columns: Mapping[str, Array]) -> Array:
    """Return the result of the last operation."""
    found: list[Array] = []
    with np.errstate(all="ignore"):
        for kind, left, right, number, name in operations:
            if kind == "number":
                found.append(library.asarray(number, dtype=library.float64))
            elif kind == "column":
                found.append(columns[name])
            elif kind in _OPERATORS:
                found.append(_OPERATORS[kind](found[left], found[right]))
            elif kind in {"min", "max"}:
                found.append(getattr(library, f"{kind}imum")(found[left], found[right]))
            elif kind == "edge":
                found.append(library.where(found[left] == 0, _AT_EDGE, found[left]))
            elif kind == "holds":
                found.append(_holds(found[left], library))
            else:
                found.append(getattr(library, kind)(found[left]))
    return found[-1]


def _holds(margin: Array, library: ModuleType) -> Array:
    return (margin > 0) * library.ones_like(margin)


def _library(*values: Array) -> ModuleType:
    """Return torch if a value is a tensor, else numpy: a controller at runtime has no torch."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and any(isinstance(one, torch.Tensor) for one in values) else np
