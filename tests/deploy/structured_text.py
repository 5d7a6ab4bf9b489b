"""A checked evaluator of the Structured Text that we write: parsed by blark, typed, run as Python."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from blark import parse_source_code
from blark import transform as tree

from deploy.native import Inputs, Outcome
from nopg.deploy import GuardedController
from nopg.deploy._structured_text import to_structured_text

_VALUES = re.compile(r"(\w+) : ARRAY\[0\.\.(\d+)\] OF LREAL := \[([^\]]*)\];")
_MOST_VALUES = 1
_TYPES = {"LREAL": "real", "BOOL": "flag", "INT": "whole", "DINT": "whole"}
_STARTS = {"real": 0.0, "flag": False, "whole": 0}
_OPERATORS = {"AND": "and", "OR": "or", "<>": "!=", "=": "=="}


def _safely(function: Callable[..., float]) -> Callable[..., float]:
    def computed(*numbers: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*map(np.float64, numbers)))

    return computed


_STANDARD = {
    "ABS": abs,
    "SQRT": _safely(np.sqrt),
    "EXP": lambda number: math.exp(number) if abs(number) < 700.0 else _safely(np.exp)(number),
    "LN": _safely(np.log),
    "SIN": _safely(np.sin),
    "COS": _safely(np.cos),
    "ATAN": _safely(np.arctan),
    "EXPT": _safely(np.power),
}


class Program:
    """A function block of the subset that we write, as a Python function.

    Every name is declared, LREAL, BOOL and whole numbers are never mixed, and an index is a sum of products
    of loop variables and whole numbers; anything else is a TypeError, and an index beyond an array an
    IndexError. Constants of more than one value are read apart: blark takes hours for large ones.

    Args:
        text: Of functions and one block.
    """

    def __init__(self, text: str) -> None:
        self._constants: dict[str, list[float]] = {}
        parsed = parse_source_code(_VALUES.sub(self._apart, text)).transform()
        *functions, block = parsed.items
        self.names: dict[str, str] = {}
        self._functions = {str(one.name) for one in functions}
        lines = [line for one in functions for line in self._function(one)]
        self.names, arrays = self._declared(block)
        lines += [f"def block(store):\n    ({', '.join(self.names)},) = store"]
        lines += self._statements(block.body, 1)
        lines += [f"    return ({', '.join(self.names)},)"]
        space: dict[str, Any] = dict(_STANDARD) | {"_divided": _safely(np.divide)}
        exec("\n".join(lines), space)
        self._run = space["block"]
        self.values: dict[str, Any] = {
            name: [_STARTS[kind]] * arrays[name] if name in arrays else _STARTS[kind]
            for name, kind in self.names.items()
        } | self._constants

    def _apart(self, found: re.Match[str]) -> str:
        """Store the values of a large constant, and leave its declaration."""
        name, last, values = found.groups()
        numbers = [float(one) for one in values.split(",")]
        assert len(numbers) == int(last) + 1, name
        if len(numbers) <= _MOST_VALUES:
            return found.group()
        self._constants[name] = numbers
        return f"{name} : ARRAY[0..{last}] OF LREAL;"

    def run(self, inputs: dict[str, Any]) -> None:
        """Run the block once; `values` are then those after it."""
        unknown = {*inputs} - {*self.names}
        assert not unknown, unknown
        found = self._run(tuple((self.values | inputs).values()))
        self.values = dict(zip(self.names, found, strict=True))

    def _declared(self, part: Any) -> tuple[dict[str, str], dict[str, int]]:
        names, arrays = {}, {}
        for section in part.declarations:
            for item in section.items:
                (variable,) = item.variables
                name, spec = str(variable.variable.name), item.init.spec
                if isinstance(spec, tree.ArraySpecification):
                    (limits,) = spec.subranges
                    arrays[name] = int(limits.stop.value) + 1
                    names[name] = _TYPES[str(spec.type.type_name)]
                    if item.init.value is not None:
                        elements = [self._value(one.element) for one in item.init.value.elements]
                        _require([kind for _, kind in elements] == ["real"] * arrays[name], item)
                        self._constants[name] = [float(ast.literal_eval(text)) for text, _ in elements]
                else:
                    names[name] = _TYPES[str(spec.type)]
        return names, arrays

    def _function(self, part: Any) -> Iterator[str]:
        self.names, _ = self._declared(part)
        yield f"def {part.name}({', '.join(self.names)}):"
        self.names[str(part.name)] = "real"
        yield from self._statements(part.body, 1)
        yield f"    return {part.name}"

    def _statements(self, body: Any, depth: int) -> Iterator[str]:
        indent = "    " * depth
        for one in body.statements:
            match one:
                case tree.AssignmentStatement(variables=[target], expression=value):
                    (place, kind), (text, found) = self._value(target), self._value(value)
                    _require(kind == found, one)
                    yield f"{indent}{place} = {text}"
                case tree.ForStatement(control=control, from_=first, to=last, statements=inner):
                    (name, kind), (low, _), (high, _) = map(self._value, (control, first, last))
                    _require(kind == "whole", one)
                    yield f"{indent}for {name} in range({low}, {high} + 1):"
                    yield from self._statements(inner, depth + 1)
                case tree.IfStatement(if_expression=test, statements=inner, else_ifs=others):
                    yield f"{indent}if {self._condition(test)}:"
                    yield from self._statements(inner, depth + 1)
                    for other in others:
                        yield f"{indent}elif {self._condition(other.if_expression)}:"
                        yield from self._statements(other.statements, depth + 1)
                    if one.else_clause is not None:
                        yield f"{indent}else:"
                        yield from self._statements(one.else_clause.statements, depth + 1)
                case _:
                    raise TypeError(str(one))

    def _condition(self, part: Any) -> str:
        text, kind = self._value(part)
        _require(kind == "flag", part)
        return text

    def _value(self, part: Any) -> tuple[str, str]:
        """Return an expression in Python, and its type."""
        if (simple := self._simple(part)) is not None:
            return simple
        match part:
            case tree.MultiElementVariable(name=name, elements=[tree.SubscriptList(subscripts=[index])]):
                place, kind = self._value(index)
                _require(kind == "whole" and "-" not in place, part)
                return f"{name}[{place}]", self.names[str(name)]
            case tree.ParenthesizedExpression(expr=inner):
                text, kind = self._value(inner)
                return f"({text})", kind
            case tree.UnaryOperation(op=op, expr=inner):
                text, kind = self._value(inner)
                _require(kind == ("flag" if str(op) == "NOT" else "real"), part)
                return f"({str(op).lower()} {text})", kind
            case tree.FunctionCall(name=name, parameters=parameters):
                values = [self._value(one.value) for one in parameters]
                _require({*_STANDARD, *self._functions} >= {str(name)}, part)
                _require({kind for _, kind in values} == {"real"}, part)
                return f"{name}({', '.join(text for text, _ in values)})", "real"
            case tree.BinaryOperation(left=left, op=op, right=right):
                return self._binary(str(op), self._value(left), self._value(right), part)
        raise TypeError(str(part))

    def _simple(self, part: Any) -> tuple[str, str] | None:
        match part:
            case tree.Real(value=value):
                return repr(float(value)), "real"
            case tree.Integer(value=value):
                return str(int(value)), "whole"
            case tree.Boolean(value=value):
                return str(str(value) == "TRUE"), "flag"
            case tree.SimpleVariable(name=name):
                return str(name), self.names[str(name)]
        return None

    @staticmethod
    def _binary(op: str, left: tuple[str, str], right: tuple[str, str], part: Any) -> tuple[str, str]:
        (one, kind), (other, found) = left, right
        _require(kind == found, part)
        _require((kind == "flag") == (op in {"AND", "OR"}), part)
        if op == "/":
            return f"_divided({one}, {other})", kind
        result = "flag" if op in {"AND", "OR", "<", ">", "<=", ">=", "<>", "="} else kind
        return f"({one} {_OPERATORS.get(op, op)} {other})", result


def _require(holds: bool, part: Any) -> None:
    if not holds:
        raise TypeError(str(part))


class InStructuredText:
    """A guarded controller, exported to Structured Text."""

    def __init__(self, guard: GuardedController, folder: Path) -> None:
        path = to_structured_text(guard, folder / "control.st")
        self.program = Program(path.read_text(encoding="ascii"))
        self.count = len(guard.controller.columns.actions)

    def step(self, inputs: Inputs) -> Outcome:
        given: dict[str, Any] = {"restart": inputs.reset, "measured": inputs.measured.tolist()}
        for name, value in (("applied", inputs.applied), ("fallback", inputs.fallback)):
            given[f"{name}_given"] = value is not None
            given[name] = [0.0] * self.count if value is None else value.tolist()
        for name, time in (("measured_at", inputs.time), ("now", inputs.now)):
            given[f"{name}_given"] = time is not None and not math.isnan(time)
            given[name] = 0.0 if time is None else time
        given["actions"] = [math.nan] * self.count
        self.program.run(given)
        found = self.program.values
        return Outcome(found["status"], np.array(found["actions"]), found["support"], found["unknown"])
