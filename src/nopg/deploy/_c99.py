"""Export of a guarded controller to C99: one header, one source file, no memory of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nopg._files import write_files
from nopg._version import __version__
from nopg.deploy._control_program import ControlProgram, control_program
from nopg.deploy._guard import GuardedController
from nopg.deploy._program import (
    Call,
    Comment,
    Expression,
    If,
    Item,
    Kind,
    Loop,
    Number,
    Set,
    Statement,
    Variable,
    all_calls,
)
from nopg.deploy._source_text import column_lines, plain_text, source_target

_TYPES: Mapping[Kind, str] = {"real": "double", "flag": "bool", "code": "int"}
_INFIX = {"and": "&&", "or": "||"}
_PREFIX = {"negative": "-", "not": "!"}
_MACROS = {"is_nan": "isnan", "is_finite": "isfinite"}
_OF_LIBRARY = {"abs": "fabs", "power": "pow", "round": "rint"} | {
    name: name for name in ("sqrt", "exp", "log", "sin", "cos", "tanh", "atan2")
}
# Functions that the standard library has not, or not with NaN as numpy treats it.
_OWN = {
    "min": ("a, b", "(isnan(a) || (a < b)) ? a : b"),
    "max": ("a, b", "(isnan(a) || (a > b)) ? a : b"),
    "edge": ("a", "((a < 0.0) || (a > 0.0) || isnan(a)) ? a : 1e-30"),
    "holds": ("a", "(a > 0.0) ? 1.0 : 0.0"),
}


@dataclass(frozen=True, slots=True)
class CExport:
    """An exported controller in C.

    Attributes:
        source: The `.c` file.
        header: The `.h` file.
    """

    source: Path
    header: Path


def to_c(guard: GuardedController, path: str | os.PathLike[str], *, overwrite: bool = False) -> CExport:
    """Write a guarded controller as C99: `path`, which ends in `.c`, and a header beside it.

    Functions have the name of the file in front: `tank.c` has `tank_init` and `tank_step`. A step takes raw
    measurements and returns who acts, with the decisions of `GuardedController.act`; its fallback is an
    argument of the step. The caller owns the memory. There are no allocations, no recursion, no static data
    that change, and all loops have fixed counts. It needs `exp`, and what the policy uses, of the C library.

    Args:
        guard: The controller with its limits; a fallback function in it is left out.
        path: The source file; neither file may exist yet.
        overwrite: Whether older files are replaced.
    """
    target = source_target(path, ".c", overwrite, also=".h")
    header, source = c_sources(control_program(guard), target.stem)
    export = CExport(target, target.with_suffix(".h"))
    write_files({export.header: header.encode("ascii"), export.source: source.encode("ascii")})
    return export


def c_sources(program: ControlProgram, name: str) -> tuple[str, str]:
    """Return the header and the source of a program whose functions start with a name."""
    return _header(program, name), _source(program, name)


def _header(program: ControlProgram, name: str) -> str:
    upper, columns = name.upper(), program.columns
    fields = "\n".join(f"    {_declared(one)};" for one in (*program.of_role("memory"), *_reported(program)))
    about = "\n".join(f" *   {line}" for line in column_lines(program))
    return f"""\
/* Controller {name}, written by nopg {__version__}.
 *
{about}
 *
 * The policy acts where the unknown share of the state and its action is at most {program.most_unknown:.6g}.
 */
#ifndef {upper}_H
#define {upper}_H

#include <stdbool.h>

#define {upper}_MEASURED {len(columns.measured)}
#define {upper}_ACTIONS {len(columns.actions)}

/* Who acts: the policy, the fallback, the last resort where the fallback fails, or nobody before there is an
 * action to hold (the actions are left as they were). */
#define {upper}_LEARNED 0
#define {upper}_FALLBACK 1
#define {upper}_LAST_RESORT 2
#define {upper}_NO_ACTION 3

/* The memory, and the unknown share of the last step. All zero before the first step. */
typedef struct {{
{fields}
}} {name}_memory;

/* Clear the memory before a run. */
void {name}_init({name}_memory *memory);

/* Compute one action.
 *
 * measured:    NaN where a value is missing.
 * applied:     the actions that the plant received since the last step; NULL if they are those returned.
 * fallback:    what a trusted controller would do now; NULL if there is none.
 * measured_at: the time in seconds on any clock; NaN if there is none.
 * now:         the present time on the same clock; NaN if there is none.
 */
int {name}_step({name}_memory *memory, const double measured[{upper}_MEASURED],
    const double *applied, const double *fallback, double measured_at, double now,
    double actions[{upper}_ACTIONS]);

#endif
"""


def _source(program: ControlProgram, name: str) -> str:
    printer = _Printer({one.name for one in (*program.of_role("memory"), *_reported(program))})
    calls = {found.function for one in program.step for found in all_calls(one)}
    constants = "\n".join(_constant(key, values) for key, values in program.constants.items())
    local = "\n".join(f"    {_declared(one)};" for one in program.of_role("local"))
    cleared = "\n".join(_cleared(one) for one in (*program.of_role("memory"), *_reported(program)))
    step = "\n".join(printer.lines(program.step, 1))
    flags = ("measured_at_given", "now_given")
    unused = "".join(f"\n    (void){flag};" for flag in flags if flag not in step)
    upper = name.upper()
    return f"""\
/* Controller {name}, written by nopg {__version__}. See {name}.h. */
#include "{name}.h"

#include <math.h>
#include <stddef.h>

#ifdef __FAST_MATH__
#error "missing values are NaN: compile without -ffast-math"
#endif

{constants}
{_own_functions(calls)}
void {name}_init({name}_memory *memory)
{{
{cleared}
}}

int {name}_step({name}_memory *memory, const double measured[{upper}_MEASURED],
    const double *applied, const double *fallback, double measured_at, double now,
    double actions[{upper}_ACTIONS])
{{
    const bool applied_given = (applied != NULL);
    const bool fallback_given = (fallback != NULL);
    const bool measured_at_given = !isnan(measured_at);
    const bool now_given = !isnan(now);
    int status;
{local}{unused}

{step}

    return status;
}}
"""


def _reported(program: ControlProgram) -> list[Variable]:
    """Return the outputs that are read from the memory."""
    return [one for one in program.of_role("output") if one.name == "unknown"]


def _declared(one: Variable) -> str:
    size = "" if one.size is None else f"[{one.size}]"
    return f"{_TYPES[one.kind]} {one.name}{size}"


def _cleared(one: Variable) -> str:
    zero = {"flag": "false", "code": "0", "real": "0.0"}[one.kind]
    if one.size is None:
        return f"    memory->{one.name} = {zero};"
    return f"    for (int i = 0; i < {one.size}; i++) {{\n        memory->{one.name}[i] = {zero};\n    }}"


def _constant(name: str, values: Iterable[float]) -> str:
    texts = [repr(float(one)) for one in np.asarray(values)]
    rows = [", ".join(texts[k : k + 4]) for k in range(0, len(texts), 4)]
    return f"static const double {name}[{len(texts)}] = {{\n    " + ",\n    ".join(rows) + "\n};"


def _own_functions(calls: set[str]) -> str:
    found = []
    for name, (arguments, body) in _OWN.items():
        if name in calls:
            declared = ", ".join(f"double {one}" for one in arguments.split(", "))
            found.append(f"\nstatic double {_own(name)}({declared})\n{{\n    return {body};\n}}\n")
    return "".join(found)


def _own(name: str) -> str:
    return f"number_{name}"


def bare(text: str) -> str:
    """Return an expression without parentheses around the whole of it."""
    depth = 0
    for place, mark in enumerate(text):
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text


class _Printer:
    """Statements as lines of C.

    Args:
        kept: Names of the variables that are in the memory of the caller.
    """

    def __init__(self, kept: set[str]) -> None:
        self._kept = kept

    def lines(self, statements: Sequence[Statement], depth: int) -> Iterator[str]:
        """Yield the lines of statements."""
        indent = "    " * depth
        for one in statements:
            match one:
                case Comment(text):
                    yield f"{indent}/* {plain_text(text)} */"
                case Set(target, value):
                    yield f"{indent}{self.text(target)} = {bare(self.text(value))};"
                case Loop(index, count, body):
                    yield f"{indent}for (int {index} = 0; {index} < {count}; {index}++) {{"
                    yield from self.lines(body, depth + 1)
                    yield indent + "}"
                case If(condition, then, otherwise):
                    yield f"{indent}if ({bare(self.text(condition))}) {{"
                    yield from self.lines(then, depth + 1)
                    if otherwise:
                        yield indent + "} else {"
                        yield from self.lines(otherwise, depth + 1)
                    yield indent + "}"

    def text(self, expression: Expression) -> str:
        """Return an expression, in parentheses where it has an operator between two parts."""
        match expression:
            case Number(bool() as flag):
                return "true" if flag else "false"
            case Number(value):
                return f"({value!r})" if value < 0 else repr(value)
            case Item(name, index):
                place = f"memory->{name}" if name in self._kept else name
                return place if index is None else f"{place}[{bare(self.text(index))}]"
            case Call(function, arguments):
                return self.call(function, [self.text(one) for one in arguments])
        raise AssertionError(expression)

    def call(self, function: str, arguments: list[str]) -> str:
        """Return an operator or a function of printed arguments."""
        if function in _PREFIX:
            return f"({_PREFIX[function]}{arguments[0]})"
        names = _OF_LIBRARY | _MACROS | {name: _own(name) for name in _OWN}
        if function in names:
            return f"{names[function]}({', '.join(arguments)})"
        return f"({arguments[0]} {_INFIX.get(function, function)} {arguments[1]})"
