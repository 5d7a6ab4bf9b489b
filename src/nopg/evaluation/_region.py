"""Regions of the state space, as an expression of named states or as a function."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from nopg._typing import as_tensor
from nopg.data import Schema
from nopg.errors import ArgumentError

__all__ = ["Region", "margin_of", "region_of"]

# From raw states (m, d_s) to whether they lie inside, booleans (m,).
Region = Callable[[torch.Tensor], torch.Tensor]

_BINARY: Mapping[type[ast.AST], Any] = MappingProxyType(
    {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
)
_COMPARED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
# A margin of 0 that counts as inside.
_AT_EDGE = 1e-30
_MOST_NODES = 200


def region_of(region: str | Callable[[Any], Any], schema: Schema) -> Region:
    """Return a region as a function of raw states.

    Args:
        region: Such as `"position > 0.3 or abs(angle) > 0.05"`: names of states, numbers, + − * /, abs,
            comparisons, and, or, not; nothing else is evaluated. Or a function of raw states (m, d_s).
        schema: Names of the states.

    Example:
        >>> schema = Schema(("level", "flow"), ("valve",))
        >>> inside = region_of("1 < level < 2 and not flow < 0", schema)
        >>> inside(torch.tensor([[1.5, 1.0], [3.0, 1.0]])).tolist()
        [True, False]
    """
    if callable(region):
        return partial(_evaluate, region)
    margin = margin_of(region, schema)
    return lambda states: margin(states) > 0


def _evaluate(region: Callable[[Any], Any], states: torch.Tensor) -> torch.Tensor:
    """Return whether states (…, d_s) lie in a region that is a function of states (m, d_s)."""
    flat = states.reshape(-1, states.shape[-1])
    inside = as_tensor(region(flat)).bool()
    if inside.shape != (len(flat),):
        raise ArgumentError(
            f"the region returned shape {tuple(inside.shape)} for {len(flat)} states; return one truth value "
            "for each, such as states[:, 0] > 1"
        )
    return inside.reshape(states.shape[:-1])


def margin_of(region: str, schema: Schema) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return how far raw states (m, d_s) lie inside a region, positive inside, in its own units.

    A comparison is the difference of its sides; `and` is the smaller and `or` the larger of two margins.

    Example:
        >>> margin = margin_of("abs(level) > 1", Schema(("level",), ("valve",)))
        >>> margin(torch.tensor([[3.0], [0.5]])).tolist()
        [2.0, -0.5]
    """
    try:
        tree = ast.parse(region, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ArgumentError(f"the region {region!r} cannot be read: {error}") from None
    if sum(1 for _ in ast.walk(tree)) > _MOST_NODES:
        raise ArgumentError("the region is too long an expression; give a function of the states instead")
    columns = {name: number for number, name in enumerate(schema.states)}

    def margin(states: torch.Tensor) -> torch.Tensor:
        found = _value(tree, {name: states[..., column] for name, column in columns.items()})
        if not isinstance(found, _Margin):
            raise ArgumentError(f"the region {region!r} is no condition on the states {list(columns)}")
        return found.inside

    margin(torch.zeros(1, len(columns), dtype=torch.float64))  # report a wrong name at once
    return margin


@dataclass(frozen=True, slots=True)
class _Margin:
    """How far a condition is met."""

    inside: torch.Tensor

    def __and__(self, other: _Margin) -> _Margin:
        return _Margin(torch.minimum(self.inside, other.inside))

    def __or__(self, other: _Margin) -> _Margin:
        return _Margin(torch.maximum(self.inside, other.inside))

    def __invert__(self) -> _Margin:
        return _Margin(torch.where(self.inside == 0, _AT_EDGE, -self.inside))


def _compared(op: ast.AST, left: Any, right: Any) -> _Margin:
    if not (isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor)):
        raise ArgumentError("a comparison of numbers is no condition on the states")
    apart = torch.as_tensor(right - left if isinstance(op, (ast.Lt, ast.LtE)) else left - right)
    # On its edge a region with ≤ or ≥ is entered.
    return _Margin(torch.where(apart == 0, _AT_EDGE, apart) if isinstance(op, (ast.LtE, ast.GtE)) else apart)


def _value(node: ast.AST, columns: Mapping[str, torch.Tensor]) -> Any:  # noqa: PLR0911 (one for each kind of node)
    """Return the value of an expression; only these nodes are understood."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id=name) if name in columns:
            return columns[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, columns), _value(right, columns))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, columns)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~_condition(operand, columns)
        case ast.Call(func=ast.Name(id="abs"), args=[argument], keywords=[]):
            return abs(_value(argument, columns))
        case ast.BoolOp(op=op, values=values):
            joined = _condition(values[0], columns)
            for value in values[1:]:
                other = _condition(value, columns)
                joined = joined & other if isinstance(op, ast.And) else joined | other
            return joined
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARED for op in ops):
            terms = [_value(term, columns) for term in (left, *others)]
            found = [_compared(op, a, b) for op, a, b in zip(ops, terms, terms[1:], strict=False)]
            joined = found[0]
            for condition in found[1:]:
                joined = joined & condition
            return joined
    raise ArgumentError(
        f"{ast.unparse(node)!r} is not understood in a region; use the states {list(columns)}, numbers, "
        "+ - * /, abs(), comparisons, and, or, not; or give a function"
    )


def _condition(node: ast.AST, columns: Mapping[str, torch.Tensor]) -> _Margin:
    found = _value(node, columns)
    if not (isinstance(found, _Margin)):
        raise ArgumentError(f"{ast.unparse(node)!r} is no condition; compare it with something")
    return found
