"""Export of a guarded controller to Structured Text of IEC 61131-3: a function block for a PLC."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from nopg._files import write_files
from nopg._version import __version__
from nopg.deploy._control_program import ControlProgram, control_program
from nopg.deploy._guard import GuardedController
from nopg.deploy._program import (
    Kind,
    Variable,
    all_calls,
)
from nopg.deploy._source_text import Printer, column_lines, source_target

__all__ = ["structured_text", "to_structured_text"]

_TYPES: Mapping[Kind, str] = {"real": "LREAL", "flag": "BOOL", "code": "INT"}
_INFIX = {"and": "AND", "or": "OR"}
_PREFIX = {"negative": "-", "not": "NOT "}
_STANDARD = {"abs": "ABS", "sqrt": "SQRT", "exp": "EXP", "log": "LN", "sin": "SIN", "cos": "COS"} | {
    "power": "EXPT"
}
# Arguments, then value by condition, of functions that the standard has not, or not with NaN.
_OWN: Mapping[str, tuple[str, tuple[tuple[str, str], ...], str]] = {
    "min": ("a b", (("(a <> a) OR (a < b)", "a"),), "b"),
    "max": ("a b", (("(a <> a) OR (a > b)", "a"),), "b"),
    "edge": ("a", (("a = 0.0", "1.0E-30"),), "a"),
    "holds": ("a", (("a > 0.0", "1.0"),), "0.0"),
    "tanh": ("a", (("a > 20.0", "1.0"), ("a < -20.0", "-1.0")), "1.0 - (2.0 / (EXP(2.0 * a) + 1.0))"),
    "atan2": (
        "a b",
        (
            ("(ABS(b) >= ABS(a)) AND (b > 0.0)", "ATAN(a / b)"),
            ("(ABS(b) >= ABS(a)) AND (a >= 0.0)", f"ATAN(a / b) + {math.pi!r}"),
            ("ABS(b) >= ABS(a)", f"ATAN(a / b) - {math.pi!r}"),
            ("a > 0.0", f"{math.pi / 2!r} - ATAN(b / a)"),
        ),
        f"-{math.pi / 2!r} - ATAN(b / a)",
    ),
}


def to_structured_text(
    guard: GuardedController, path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write a guarded controller as a function block in Structured Text, and return its path.

    The block has the name of the file. It decides as `GuardedController.act` does; the fallback is an input.
    Numbers are LREAL. A missing value is NaN or has its flag in `missing`. `restart` clears the memory.

    Args:
        guard: The controller with its limits; a fallback function in it is left out.
        path: Ends in `.st`, and must not exist yet.
        overwrite: Whether an older file is replaced.
    """
    target = source_target(path, ".st", overwrite)
    text = structured_text(control_program(guard, flagged=True), target.stem)
    write_files({target: text.encode("ascii")})
    return target


def structured_text(program: ControlProgram, name: str) -> str:
    """Return a program as a function block, after the functions that it needs."""
    printer = _Printer(name)
    calls = {found.function for one in program.step for found in all_calls(one)}
    functions = "".join(_function(name, own) for own in _OWN if own in calls)
    about = "\n".join(f"   {line}" for line in column_lines(program))
    constants = "\n".join(_constant(key, values) for key, values in program.constants.items())
    kept = "\n".join(_declared(one) for one in (*program.of_role("memory"), *program.of_role("local")))
    cleared = "\n".join(_cleared(one) for one in program.of_role("memory"))
    restart = f"IF restart THEN\n{cleared}\nEND_IF;\n" if cleared else ""
    return f"""\
(* Controller {name}, written by nopg {__version__}.

{about}

   The policy acts where the unknown share of the data is at most {program.most_unknown:.6g}.
   status: 0 the policy acts, 1 the fallback, 2 the last resort where the fallback fails,
   3 nobody, before there is an action to hold, and actions are as before. *)
{functions}
FUNCTION_BLOCK {name}
VAR_INPUT
    restart : BOOL;
{_listed(program, "input")}
END_VAR
VAR_OUTPUT
{_listed(program, "output")}
END_VAR
VAR
{kept}
    i : DINT;
    j : DINT;
END_VAR
VAR CONSTANT
{constants}
END_VAR

{restart}{chr(10).join(printer.lines(program.step, 0))}
END_FUNCTION_BLOCK
"""


def _listed(program: ControlProgram, role: str) -> str:
    return "\n".join(_declared(one) for one in program.of_role(role))


def _declared(one: Variable) -> str:
    size = "" if one.size is None else f"ARRAY[0..{one.size - 1}] OF "
    return f"    {one.name} : {size}{_TYPES[one.kind]};"


def _cleared(one: Variable) -> str:
    zero = {"flag": "FALSE", "code": "0", "real": "0.0"}[one.kind]
    if one.size is None:
        return f"    {one.name} := {zero};"
    return f"    FOR i := 0 TO {one.size - 1} DO\n        {one.name}[i] := {zero};\n    END_FOR;"


def _constant(name: str, values: Iterable[float]) -> str:
    texts = [_real(float(one)) for one in np.asarray(values)]
    rows = [", ".join(texts[k : k + 4]) for k in range(0, len(texts), 4)]
    joined = ",\n        ".join(rows)
    return f"    {name} : ARRAY[0..{len(texts) - 1}] OF LREAL := [\n        {joined}];"


def _real(value: float) -> str:
    """Return a literal with a decimal point, which LREAL needs."""
    digits, mark, exponent = repr(value).partition("e")
    return (digits if "." in digits else f"{digits}.0") + (f"E{int(exponent)}" if mark else "")


def _function(name: str, own: str) -> str:
    arguments, branches, last = _OWN[own]
    declared = "\n".join(f"    {one} : LREAL;" for one in arguments.split())
    result = f"{name}_{own}"
    tests = "ELS".join(f"IF {test} THEN\n    {result} := {value};\n" for test, value in branches)
    return f"""
FUNCTION {result} : LREAL
VAR_INPUT
{declared}
END_VAR
{tests}ELSE
    {result} := {last};
END_IF;
END_FUNCTION
"""


class _Printer(Printer):
    """Statements as lines of Structured Text.

    Args:
        name: Of the function block, with which the names of its functions begin.
    """

    comment = "(* {} *)"
    assignment = "{} := {};"
    loop = ("FOR {index} := 0 TO {last} DO", "END_FOR;")
    condition = ("IF {} THEN", "ELSE", "END_IF;")
    flags = ("FALSE", "TRUE")

    def __init__(self, name: str) -> None:
        self._name = name

    def number(self, value: float) -> str:
        """Return a constant; a float has a point or an exponent."""
        return _real(value) if isinstance(value, float) else repr(value)

    def call(self, function: str, arguments: list[str]) -> str:
        """Return an operator or a function of printed arguments."""
        if function in _PREFIX:
            return f"({_PREFIX[function]}{arguments[0]})"
        if function == "is_nan":
            return f"({arguments[0]} <> {arguments[0]})"
        if function == "is_finite":
            return f"(ABS({arguments[0]}) <= {_real(sys.float_info.max)})"
        if function in _OWN:
            return f"{self._name}_{function}({', '.join(arguments)})"
        if function in _STANDARD:
            return f"{_STANDARD[function]}({', '.join(arguments)})"
        return f"({arguments[0]} {_INFIX.get(function, function)} {arguments[1]})"
