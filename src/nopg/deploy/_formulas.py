"""Formulas of a controller as a list of operations, from which C and ONNX follow."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import reduce
from typing import NamedTuple

from nopg._columns import Columns
from nopg._expressions import Expression
from nopg.deploy._policies import Formulas

KINDS = (
    "number", "column", "add", "subtract", "multiply", "divide", "power", "negative", "abs", "min", "max",
    "sqrt", "exp", "log", "sin", "cos", "tanh", "edge", "holds",
)  # fmt: skip
"""All operations, in the order of `core.c`. `edge` is a margin on whose 0 a condition holds, `holds` is 1
where a margin is positive, else 0."""

_BINARY: Mapping[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}


class Operation(NamedTuple):
    """One number computed from earlier ones.

    Attributes:
        kind: One of `KINDS`.
        left: Place of the first operand in the list; of `column`, that of the state column.
        right: Place of the second operand.
        number: The value of `number`.
    """

    kind: str
    left: int = 0
    right: int = 0
    number: float = 0.0


def operations(formulas: Formulas, columns: Columns) -> tuple[list[Operation], list[int]]:
    """Return the operations of all formulas, and the places of the actions in them."""
    found: dict[Operation, int] = {}
    known = {name: Operation("column", k) for k, name in enumerate(columns.states)}
    known |= {name: Operation("number", number=value) for name, value in formulas.gains.items()}
    results = [_Lowering(one, found, known).number(one.tree) for one in formulas.law.formulas]
    return [*found], results


class _Lowering:
    """The parts of a formula as operations; conditions are margins, as `nopg._expressions` has them."""

    def __init__(
        self, formula: Expression, found: dict[Operation, int], known: Mapping[str, Operation]
    ) -> None:
        self.formula, self.found, self.known = formula, found, known

    def add(self, kind: str, *operands: int) -> int:
        return self.place(Operation(kind, *operands))

    def place(self, operation: Operation) -> int:
        return self.found.setdefault(operation, len(self.found))

    def number(self, node: ast.AST) -> int:
        """Return the place of a part as a number; a condition counts as 1 or 0."""
        match node:
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return self.add("holds", self.margin(node))
            case ast.Constant(value=int() | float() as given):
                return self.place(Operation("number", number=float(given)))
            case ast.BinOp(left=left, op=op, right=right):
                return self.add(_BINARY[type(op)], self.number(left), self.number(right))
            case ast.UnaryOp(operand=operand):
                return self.add("negative", self.number(operand))
            case ast.Call(func=ast.Name(id=name), args=arguments) if name not in {"next", "diff"}:
                return self.add(name, *map(self.number, arguments))
        return self.place(self.known[self.formula.column(node)])

    def margin(self, node: ast.AST) -> int:
        match node:
            case ast.UnaryOp(operand=operand):
                return self.add("edge", self.add("negative", self.margin(operand)))
            case ast.BoolOp(op=op, values=values):
                kind = "min" if isinstance(op, ast.And) else "max"
                return reduce(lambda one, other: self.add(kind, one, other), map(self.margin, values))
            case ast.Compare(left=left, ops=ops, comparators=others):
                terms = [self.number(one) for one in (left, *others)]
                parts = [self.compared(*one) for one in zip(ops, terms, terms[1:], strict=False)]
                return reduce(lambda one, other: self.add("min", one, other), parts)
        raise AssertionError(node)

    def compared(self, op: ast.AST, left: int, right: int) -> int:
        pair = (right, left) if isinstance(op, ast.Lt | ast.LtE) else (left, right)
        apart = self.add("subtract", *pair)
        return self.add("edge", apart) if isinstance(op, ast.LtE | ast.GtE) else apart
