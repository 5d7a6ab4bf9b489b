"""Export of a guarded controller to C99: the fixed step of `core.c`, and the numbers of this controller."""

from __future__ import annotations

import math
import os
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from nopg._checks import check_target
from nopg._derived import StateStep
from nopg._expressions import KINDS, Operation
from nopg._files import write_files
from nopg._support import BLENDED, TINY, ChartSupport, FirstFeatures, FitVariance
from nopg._version import __version__
from nopg.bundles._policies import Formulas, Linear, Numbers, Part, Policy
from nopg.deploy._controller import Embedding
from nopg.deploy._guard import GuardedController
from nopg.errors import ArgumentError

CORE = "nopg_core.c"  # the step beside the numbers

_NO_FIT = FitVariance(FirstFeatures(np.zeros(0, np.int64), *np.zeros((2, 0))), *np.zeros((2, 0)))
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
Table = Mapping[str, Any]


def to_c(guard: GuardedController, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a guarded controller as C99, and return the path of the source to compile.

    The file at `path` has the numbers of this controller and includes `nopg_core.c`, which is the same for
    every controller; its header is beside it. Functions have the name of the file in front: `tank.c` has
    `tank_init` and `tank_step`. A step takes raw measurements and returns who acts, with the decisions of
    `GuardedController.act`; its fallback is an argument. The caller owns the memory.

    Args:
        guard: The controller with its limits; a fallback function in it is left out.
        path: Ends in `.c`; no other file may exist under the names.
        overwrite: Whether older files are replaced.
    """
    target = source_target(path, ".c", overwrite=overwrite)
    sources = {target.with_name(name): text for name, text in c_sources(guard, target.stem).items()}
    for file, content in sources.items():
        if not (file.name == CORE and file.exists() and file.read_bytes() == content):
            check_target(file, overwrite=overwrite)
    write_files(sources)
    return target


def c_sources(guard: GuardedController, name: str) -> dict[str, bytes]:
    """Return the contents of the header, the core and the source of a name, by file."""
    units = {column: f" [{unit}]" for column, unit in guard.controller.columns.units.items()}
    header = rendered("interface.h", guard=guard, name=name, units=units, plain=plain_text)
    source = f"""\
/* The numbers of the controller {name}, written by nopg {__version__}; see {name}.h. */
#include "{name}.h"

#include <float.h>
#include <math.h>

#define MEMORY {name}_memory
#define INIT {name}_init
#define STEP {name}_step
{_numbers(guard)}
#include "{CORE}"
"""
    core = files("nopg.deploy").joinpath("core.c").read_bytes()
    return {f"{name}.h": header, CORE: core, f"{name}.c": source.encode("ascii")}


def rendered(file: str, **facts: Any) -> bytes:
    """Return a file beside this one with facts filled in."""
    from jinja2 import StrictUndefined, Template  # a controller at work needs numpy alone

    text = files("nopg.deploy").joinpath(file).read_text(encoding="utf-8")
    xml = file.endswith(".xml")
    template = Template(
        text, autoescape=xml, trim_blocks=True, keep_trailing_newline=not xml, undefined=StrictUndefined
    )
    found: bytes = template.render(facts, version=__version__).encode()
    return found


def source_target(path: str | os.PathLike[str], suffix: str, *, overwrite: bool) -> Path:
    """Return where to write; a name that is no identifier is refused."""
    target = check_target(path, overwrite=overwrite, suffix=suffix)
    if not _NAME.fullmatch(target.stem) or f"{target.stem.lower()}.c" == CORE:
        raise ArgumentError(
            f"the file is called {target.stem!r}, and functions are named after it; use letters, digits and "
            f"_, such as 'tank{suffix}'"
        )
    return target


def plain_text(text: str) -> str:
    """Return a text that may stand in a comment: letters without accents; what is not of a unit is `_`.

    Example:
        >>> plain_text("Zulauf [m³/h] */ Höhe")
        'Zulauf [m3/h] _/ Hohe'
    """
    parts = unicodedata.normalize("NFKD", text)
    letters = "".join(one for one in parts if not unicodedata.combining(one))
    return re.sub(r"[^A-Za-z0-9 _.,:;/%()\[\]^+<>=-]", "_", letters)


def _numbers(guard: GuardedController) -> str:
    """Return the numbers of a controller as definitions and arrays of C."""
    saved, columns, rules = guard.controller.saved, guard.controller.columns, guard.rules
    step, support, policy = StateStep.of(columns), saved.support, saved.law
    limits = guard.limits
    names = (*columns.states, *columns.actions)
    periods = np.array([columns.angles.get(name, 0.0) for name in names])
    nothing = ChartSupport(periods[None], np.ones(1), np.zeros((1, 1, 1)), 0 * periods, periods)
    laws = [_law(one, guard) for one in (policy.law, *(() if policy.base is None else policy.base[:1]))]
    charts, fits = [_charts(one) for one in support.charts], [_fit(one) for one in support.fits]
    maps = [Embedding.of_columns(columns), *map(Embedding.of_charts, support.charts)]
    maps += [Embedding.of_fit(one.first) for one in support.fits]
    definitions: dict[str, float] = {
        "MEASURED": len(columns.measured),
        "STATES": len(columns.states),
        "ACTIONS": len(columns.actions),
        "FEATURES": len(columns.features),
        "DERIVED": len(columns.derived),
        "CHARTS": len(charts),
        "FITS": len(fits),
        "LAWS": len(laws),
        "LEVELS": 0 if policy.levels is None else policy.levels[0].shape[1],
        "NEAREST": BLENDED + 1,
        "POINTS": max(1, *(len(one.columns) for one in maps)),
        "FITTED": max((one["size"] for one in fits), default=1),
        "UNITS": max(1, *(one["units"] for one in laws)),
        "OPERATIONS": max(1, *(one["operations"] for one in laws)),
        "HAS_ANGLES": int(bool(columns.angles)),
        "HAS_NETWORK": int(any(one["type"] == 1 for one in laws)),
        "HAS_FORMULAS": int(any(one["type"] == 2 for one in laws)),
        "NEEDS_ACTIONS": int(step.needs_actions),
        "HAS_LAST_RESORT": int(limits.last_resort is not None),
        "GAP": guard.states.gap,
        "DEADLINE": float(rules.deadline or 0.0),
        "DWELL": float(rules.dwell),
        "TRANSFER": float(rules.transfer),
        "MOST_UNKNOWN": float(rules.most_unknown),
        "RETURN_UNKNOWN": limits.return_unknown,
        "ODDS_INSIDE": support.inside,
        "ODDS_SLOPE": support.slope,
        "TINY": TINY,
    }
    lines = [f"#define {name} {_text(value)}" for name, value in definitions.items()]
    lines += [_array(name, values) for name, values in _arrays(guard, policy, periods).items()]
    lines += _table("maps", [{"size": len(one.columns), **one._asdict()} for one in maps])
    lines += [*_table("laws", laws), *_table("charts", charts or [_charts(nothing)])]
    return "\n".join([*lines, *_table("fits", fits or [_fit(_NO_FIT)])])


def _arrays(guard: GuardedController, policy: Policy, periods: Numbers) -> Table:
    """Return the arrays of sizes that follow from the columns."""
    controller, limits, step = guard.controller, guard.limits, StateStep.of(guard.controller.columns)
    support, derived, zeros = controller.saved.support, step.derived, np.zeros(len(guard.low))
    levels, discrete = policy.levels or (np.zeros((len(zeros), 0)), zeros)
    return {
        "largest": np.minimum(controller.largest, sys.float_info.max),
        "frozen": limits.frozen,
        "hold": step.hold,
        "first_constant": derived.constants[0],
        "update_constant": derived.constants[1],
        "first": derived.initial,
        "by_state": derived.by_state,
        "by_action": derived.by_action,
        "by_next": derived.by_next,
        "lagged": step.lagged,
        "period": periods,
        "radian": periods / (2 * math.pi),
        "logged_low": support.low,
        "logged_high": support.high,
        "margin": support.margin,
        "discrete": discrete.astype(np.int64),
        "levels": levels,
        "deviation": zeros if policy.base is None else policy.base[1],
        "low": guard.low,
        "high": guard.high,
        "max_change": limits.max_change,
        "last_resort": zeros if limits.last_resort is None else limits.last_resort,
    }


def _law(law: Part, guard: GuardedController) -> Table:
    """Return the numbers of a law; those of the other kinds are left out."""
    zeros, results, found = np.zeros(len(guard.low)), [0], list[Operation]()
    names = ("mean", "std", "hidden", "hidden_bias", "output", "center", "radius", "low", "high")
    parts: dict[str, Any] = dict.fromkeys(names, np.zeros(0)) | {"output_bias": zeros, "units": 0}
    if isinstance(law, Linear):
        kind, parts["output"] = 0, law.gain
    elif isinstance(law, Formulas):
        kind, (parts["low"], parts["high"]), (found, results) = 2, law.action_range, law.operations()
    else:
        kind, (W_1, b_1), (W_2, b_2) = 1, law.hidden, law.output
        parts |= {"mean": law.mean, "std": law.std, "hidden": W_1.T, "hidden_bias": b_1, "output": W_2.T}
        parts |= {"output_bias": b_2, "center": law.center, "radius": law.radius, "units": len(b_1)}
    steps = np.array([(KINDS.index(one.kind), one.left, one.right) for one in found], np.int64).reshape(-1, 3)
    parts |= {"kind": steps[:, 0], "left": steps[:, 1], "right": steps[:, 2], "result": np.array(results)}
    numbers = np.array([one.number for one in found], np.float64)
    return parts | {"type": kind, "operations": len(found), "number": numbers}


def _charts(charts: ChartSupport) -> Table:
    return {
        "count": len(charts.centers),
        "nearest": charts.num_nearest,
        "places": charts.places.T,
        "centers": charts.centers,
        "squared_radii": np.square(charts.radii),
        "covariance": charts.covariance,
    }


def _fit(fit: FitVariance) -> Table:
    return {"size": len(fit.center), "center": fit.center, "covariance": fit.covariance}


def _table(name: str, rows: Sequence[Table]) -> list[str]:
    """Return the columns of a table: numbers as an array, arrays by pointers to them."""
    lines = list[str]()
    for key, value in rows[0].items():
        if isinstance(value, int):
            lines.append(_array(f"{name}_{key}", np.array([row[key] for row in rows])))
            continue
        lines += [_array(f"{name}{k}_{key}", row[key]) for k, row in enumerate(rows)]
        pointers = ", ".join(f"{name}{k}_{key}" for k in range(len(rows)))
        kind = "int" if value.dtype.kind == "i" else "double"
        lines.append(f"static const {kind} *const {name}_{key}[] = {{{pointers}}};")
    return lines


def _array(name: str, values: Any) -> str:
    flat = np.asarray(values).ravel()
    texts = [_text(one) for one in flat.tolist()] or ["0"]
    rows = [", ".join(texts[k : k + 8]) for k in range(0, len(texts), 8)]
    kind = "int" if flat.dtype.kind == "i" else "double"
    return f"static const {kind} {name}[] = {{\n    " + ",\n    ".join(rows) + "\n};"


def _text(value: float) -> str:
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(value)
