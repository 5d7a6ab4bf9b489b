"""A computation as statements on arrays of fixed size, which C prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["real", "flag", "code"]
"""A float64, a truth value, or a small whole number."""
Role = Literal["input", "output", "memory", "local"]


class Expression:
    """A number, a truth value or an index; operators make larger expressions of it."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Expression:
        return call("+", self, other)

    def __sub__(self, other: Operand) -> Expression:
        return call("-", self, other)

    def __mul__(self, other: Operand) -> Expression:
        return call("*", self, other)

    def __truediv__(self, other: Operand) -> Expression:
        return call("/", self, other)

    def __neg__(self) -> Expression:
        return call("negative", self)

    def __lt__(self, other: Operand) -> Expression:
        return call("<", self, other)

    def __le__(self, other: Operand) -> Expression:
        return call("<=", self, other)

    def __gt__(self, other: Operand) -> Expression:
        return call(">", self, other)

    def __and__(self, other: Expression) -> Expression:
        return call("and", self, other)

    def __or__(self, other: Expression) -> Expression:
        return call("or", self, other)

    def __invert__(self) -> Expression:
        return call("not", self)


Operand = Expression | float | int | bool


@dataclass(frozen=True, slots=True)
class Number(Expression):
    """A constant: a real if it is a float, else an index, a code or a truth value."""

    value: float | int | bool


@dataclass(frozen=True, slots=True)
class Item(Expression):
    """A scalar variable, an element of an array, or the index of a loop."""

    name: str
    index: Expression | None = None


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """An operator or a function of expressions.

    Operators are + − * / < <= > `negative`, `and`, `or`, `not`. Functions are those of formulas with their
    names there, `atan2`, `power` and `round` (half to even), and `is_nan`, `is_finite`. `min` and `max` are
    NaN if one argument is. `edge` is 10⁻³⁰ at 0 and its argument elsewhere, `holds` is 1 above 0 and 0
    elsewhere. `and` and `or` may evaluate both arguments.
    """

    function: str
    arguments: tuple[Expression, ...]


def call(function: str, *arguments: Operand) -> Call:
    """Return a call; plain values become constants."""
    return Call(function, tuple(one if isinstance(one, Expression) else Number(one) for one in arguments))


@dataclass(frozen=True, slots=True)
class Set:
    """An assignment."""

    target: Item
    value: Expression


@dataclass(frozen=True, slots=True)
class Loop:
    """Statements for every index from 0 to count − 1."""

    index: str
    count: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If:
    """Statements where a condition holds, and others where it does not."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    """What the statements after it do."""

    text: str


Statement = Set | Loop | If | Comment


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a program.

    Attributes:
        name: In lower case.
        role: An input, an output, kept from one step to the next, or of one step.
        size: Number of elements; None of a scalar.
        kind: Of the elements.
    """

    name: str
    role: Role
    size: int | None = None
    kind: Kind = "real"


@dataclass(frozen=True, slots=True)
class Array:
    """An array under construction: an index gives an element."""

    name: str
    size: int

    def __getitem__(self, index: Operand) -> Item:
        return Item(self.name, index if isinstance(index, Expression) else Number(index))


@dataclass(slots=True)
class Builder:
    """Statements in the order in which they are added, with their constants and variables.

    Attributes:
        constants: Values by name, in one dimension.
        variables: In the order of their declaration.

    Example:
        >>> build = Builder()
        >>> gain, level = build.constant("gain", [2.0, 3.0]), build.array("level", "input", 2)
        >>> total = build.scalar("total", "output")
        >>> with build.each(2) as i:
        ...     build.set(total, total + gain[i] * level[i])
        >>> build.statements[0].index, build.statements[0].count
        ('i', 2)
    """

    constants: dict[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    _blocks: list[list[Statement]] = field(default_factory=lambda: [[]])
    _loops: int = 0

    @property
    def statements(self) -> tuple[Statement, ...]:
        """What was added so far."""
        return tuple(self._blocks[0])

    def constant(self, name: str, values: npt.ArrayLike) -> Array:
        """Declare a constant array."""
        flat = np.asarray(values, dtype=np.float64).ravel()
        self.constants[name] = flat
        return Array(name, len(flat))

    def array(self, name: str, role: Role, size: int, kind: Kind = "real") -> Array:
        """Declare an array."""
        self.variables.append(Variable(name, role, size, kind))
        return Array(name, size)

    def scalar(self, name: str, role: Role, kind: Kind = "real") -> Item:
        """Declare a scalar."""
        self.variables.append(Variable(name, role, None, kind))
        return Item(name)

    def comment(self, text: str) -> None:
        """Say what the next statements do."""
        self._blocks[-1].append(Comment(text))

    def set(self, target: Item, value: Operand) -> None:
        """Assign a value."""
        self._blocks[-1].append(Set(target, value if isinstance(value, Expression) else Number(value)))

    def fill(self, target: Array, value: Operand) -> None:
        """Assign one value to all elements of an array."""
        with self.each(target.size) as i:
            self.set(target[i], value)

    @contextmanager
    def each(self, count: int) -> Iterator[Item]:
        """Repeat the statements of the context for every index below a count."""
        index = "ijk"[self._loops]
        self._loops += 1
        with self._block() as body:
            yield Item(index)
        self._loops -= 1
        self._blocks[-1].append(Loop(index, count, tuple(body)))

    @contextmanager
    def when(self, condition: Expression) -> Iterator[None]:
        """Run the statements of the context where a condition holds."""
        with self._block() as body:
            yield
        self._blocks[-1].append(If(condition, tuple(body), ()))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Run the statements of the context where the condition just before does not hold."""
        last = self._blocks[-1].pop()
        assert isinstance(last, If)
        with self._block() as body:
            yield
        self._blocks[-1].append(If(last.condition, last.then, tuple(body)))

    @contextmanager
    def _block(self) -> Iterator[list[Statement]]:
        self._blocks.append([])
        yield self._blocks[-1]
        self._blocks.pop()


def all_calls(part: Statement | Expression) -> Iterator[Call]:
    """Yield all operators and functions in a part of a program."""
    match part:
        case Set(target, value):
            yield from (*all_calls(target), *all_calls(value))
        case Loop(_, _, body):
            yield from (found for one in body for found in all_calls(one))
        case If(condition, then, otherwise):
            yield from all_calls(condition)
            yield from (found for one in (*then, *otherwise) for found in all_calls(one))
        case Item(_, Expression() as index):
            yield from all_calls(index)
        case Call(_, arguments):
            yield part
            yield from (found for one in arguments for found in all_calls(one))
