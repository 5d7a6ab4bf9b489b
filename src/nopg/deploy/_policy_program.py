"""The policies of the runtime as statements of a program."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence

import numpy as np

from nopg._expressions import Expression as Formula
from nopg._formula_law import FormulaLaw
from nopg.deploy._policies import (
    DeviationPolicy,
    FormulaPolicy,
    LinearPolicy,
    NetworkPolicy,
    Policy,
    QuantizedPolicy,
)
from nopg.deploy._program import Array, Builder, Expression, Number, call

_OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "power",
}


def add_policy(build: Builder, policy: Policy, features: Array, actions: Array, prefix: str = "") -> None:
    """Add the statements that set the actions (d_a,) of a policy at features (d_f,).

    Args:
        build: Where they are added.
        policy: Of the runtime.
        features: Finite numbers.
        actions: What is set.
        prefix: Of the names of constants and variables.
    """
    match policy:
        case LinearPolicy():
            _linear(build, policy, features, actions, prefix)
        case NetworkPolicy():
            _network(build, policy, features, actions, prefix)
        case QuantizedPolicy():
            _network(build, policy.network, features, actions, prefix)
            _quantized(build, policy, actions)
        case FormulaPolicy():
            _formulas(build, policy, features, actions, prefix)
        case DeviationPolicy():
            _deviation(build, policy, features, actions)


def clipped(value: Expression, low: Expression, high: Expression) -> Expression:
    """Return a value within limits, NaN if it is NaN."""
    return call("min", call("max", value, low), high)


def _linear(build: Builder, policy: LinearPolicy, features: Array, actions: Array, prefix: str) -> None:
    gain = build.constant(f"{prefix}gain", policy.gain)
    with build.each(actions.size) as i:
        build.set(actions[i], 0.0)
        with build.each(features.size) as j:
            build.set(actions[i], actions[i] + gain[i * features.size + j] * features[j])


def _network(build: Builder, policy: NetworkPolicy, features: Array, actions: Array, prefix: str) -> None:
    (W_1, b_1), (W_2, b_2) = policy.hidden, policy.output
    parts = {"mean": policy.mean, "std": policy.std, "hidden_weight": W_1.T, "hidden_bias": b_1}
    parts |= {"output_weight": W_2.T, "output_bias": b_2, "center": policy.center, "radius": policy.radius}
    of = {name: build.constant(f"{prefix}{name}", values) for name, values in parts.items()}
    scaled = build.array(f"{prefix}scaled", "local", features.size)
    units = build.array(f"{prefix}units", "local", len(b_1))
    with build.each(scaled.size) as i:
        build.set(scaled[i], (features[i] - of["mean"][i]) / of["std"][i])
    with build.each(units.size) as i:
        build.set(units[i], of["hidden_bias"][i])
        with build.each(scaled.size) as j:
            weight = of["hidden_weight"][i * scaled.size + j]
            build.set(units[i], units[i] + weight * scaled[j])
        build.set(units[i], call("max", units[i], 0.0))
    with build.each(actions.size) as i:
        build.set(actions[i], of["output_bias"][i])
        with build.each(units.size) as j:
            build.set(actions[i], actions[i] + of["output_weight"][i * units.size + j] * units[j])
        build.set(actions[i], of["center"][i] + of["radius"][i] * call("tanh", actions[i]))


def _quantized(build: Builder, policy: QuantizedPolicy, actions: Array) -> None:
    """Set the nearest level, in the middle the lower one."""
    level = build.scalar("level", "local")
    for k, row in enumerate(policy.levels):
        if not policy.discrete[k]:
            continue
        build.set(level, float(row[0]))
        for between, above in zip((row[1:] + row[:-1]) / 2, row[1:], strict=True):
            with build.when(actions[k] > float(between)):
                build.set(level, float(above))
        build.set(actions[k], level)


def _deviation(build: Builder, policy: DeviationPolicy, features: Array, actions: Array) -> None:
    base = build.array("base_actions", "local", actions.size)
    limit = build.constant("deviation_limit", policy.limit)
    build.comment("the action from which the policy may deviate")
    add_policy(build, policy.base, features, base, "base_")
    build.comment("the action of the policy")
    add_policy(build, policy.policy, features, actions, "policy_")
    with build.each(actions.size) as i:
        build.set(actions[i], base[i] + clipped(actions[i] - base[i], -limit[i], limit[i]))


def _formulas(build: Builder, policy: FormulaPolicy, features: Array, actions: Array, prefix: str) -> None:
    law = policy.law
    low, high = (
        build.constant(f"{prefix}{name}", ends)
        for name, ends in zip(("lowest", "highest"), policy.action_range, strict=True)
    )
    names: dict[str, Expression] = dict(_raw_columns(build, law, features, prefix))
    if law.gains:
        gains = build.constant(f"{prefix}gains", policy.gains)
        names |= {name: gains[k] for k, name in enumerate(law.gains)}
    for k, formula in enumerate(law.formulas):
        # Numpy finds what only an evaluation shows, such as a division by the number 0.
        formula({name: np.ones(1) for name in formula.names} or {"": np.ones(1)})
        build.set(actions[k], clipped(_Lowered(formula, names).number(formula.tree), low[k], high[k]))


def _raw_columns(
    build: Builder, law: FormulaLaw, features: Array, prefix: str
) -> Sequence[tuple[str, Expression]]:
    """Return the state columns in use; an angle is computed from its cosine and sine."""
    found: list[tuple[str, Expression]] = []
    used = {name for one in law.formulas for name in one.names}
    sources = law.columns.feature_columns
    for number, name in enumerate(law.columns.states):
        k, period = sources.index(number), law.columns.angles.get(name)
        if name not in used:
            continue
        if period is None:
            found.append((name, features[k]))
            continue
        angle = build.scalar(f"{prefix}angle_{number}", "local")
        build.set(angle, call("atan2", features[k + 1], features[k]) * (period / (2 * math.pi)))
        found.append((name, angle))
    return found


class _Lowered:
    """A formula as an expression of a program; conditions are margins, as `nopg._expressions` has them."""

    def __init__(self, formula: Formula, names: Mapping[str, Expression]) -> None:
        self._formula, self._names = formula, names

    def number(self, node: ast.AST) -> Expression:
        """Return a part as a number; a condition counts as 1 or 0."""
        if self._is_condition(node):
            return call("holds", self._margin(node))
        match node:
            case ast.Constant(value=int() | float() as given):
                return Number(float(given))
            case ast.BinOp(left=left, op=op, right=right):
                return call(_OPERATORS[type(op)], self.number(left), self.number(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.number(operand)
            case ast.Call(func=ast.Name(id=name), args=arguments) if name not in {"next", "diff"}:
                return call(name, *(self.number(one) for one in arguments))
        return self._names[self._formula.column(node)]

    def _margin(self, node: ast.AST) -> Expression:
        match node:
            case ast.UnaryOp(operand=operand):
                return call("edge", -self._margin(operand))
            case ast.BoolOp(op=op, values=values):
                function = "min" if isinstance(op, ast.And) else "max"
                return _joined(function, [self._margin(one) for one in values])
            case ast.Compare(left=left, ops=ops, comparators=others):
                terms = [self.number(one) for one in (left, *others)]
                pairs = zip(ops, terms, terms[1:], strict=False)
                return _joined("min", [_compared(op, one, other) for op, one, other in pairs])
        raise AssertionError(node)

    @staticmethod
    def _is_condition(node: ast.AST) -> bool:
        negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        return negated or isinstance(node, (ast.BoolOp, ast.Compare))


def _compared(op: ast.AST, left: Expression, right: Expression) -> Expression:
    apart = right - left if isinstance(op, (ast.Lt, ast.LtE)) else left - right
    return call("edge", apart) if isinstance(op, (ast.LtE, ast.GtE)) else apart


def _joined(function: str, parts: Sequence[Expression]) -> Expression:
    found, *others = parts
    for one in others:
        found = call(function, found, one)
    return found
