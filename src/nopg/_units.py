"""Units of columns, compared in the sums and comparisons of a formula; nothing is converted."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from nopg._expressions import Expression
from nopg.errors import DataError

# m², m^2 and m2 are one unit; so are kg·m, kg*m and kg m.
_SIGNS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−·⋅× ", "0123456789--****", "^")


def check_units(expression: Expression, units: Mapping[str, str]) -> None:
    """Refuse a formula that adds or compares columns of different declared units.

    Numbers fit any unit, as do columns without one, and what was multiplied, divided or put into a function:
    a factor is a weight with a unit of its own.

    Example:
        >>> check_units(Expression("level - valve", "the reward"), {"level": "m", "valve": "%"})
        Traceback (most recent call last):
        ...
        nopg.errors.DataError: 'level' is in m and 'valve' in % in the reward 'level - valve'; convert ...
    """

    def unit_of(node: ast.AST) -> str | None:
        """Return the declared unit of a part, None if it fits any, after a check of all that is in it."""
        match node:
            case ast.Name() | ast.Call(func=ast.Name(id="next" | "diff"), args=[ast.Name()]):
                return units.get(expression.column(node.args[0] if isinstance(node, ast.Call) else node))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return unit_of(operand)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                return agreed(left, right)
            case ast.Compare(left=left, comparators=others):
                agreed(left, *others)
            case ast.Call(func=ast.Name(id="min" | "max"), args=arguments):
                agreed(*arguments)
            case _:
                for part in node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node):
                    unit_of(part)
        return None

    def agreed(*parts: ast.AST) -> str | None:
        known = [(part, unit) for part in parts if (unit := unit_of(part)) is not None]
        for part, unit in known[1:]:
            first, own = known[0]
            if unit.strip().translate(_SIGNS) != own.strip().translate(_SIGNS):
                raise DataError(
                    f"{expression.part(first)!r} is in {own} and {expression.part(part)!r} in {unit} in "
                    f"{expression.what} {expression.text!r}; convert the column, or give a term its weight "
                    "as a factor, such as 0.1 * …"
                )
        return known[0][1] if known else None

    unit_of(expression.tree)
