"""Controllers in Structured Text: parsed by blark, with the decisions and the numbers of numpy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deploy.native import ALL_RULES, InNumpy, compared, faulty_inputs, with_memory, with_sensor_faults
from deploy.stream_cases import faulty_stream
from deploy.structured_text import InStructuredText, Program
from nopg._columns import Columns
from nopg.bundles import SavedController
from nopg.bundles._controller import SavedSupport
from nopg.deploy import GuardedController, RuntimeController
from nopg.deploy._control_program import FALLBACK, LAST_RESORT, LEARNED
from nopg.deploy._structured_text import to_structured_text
from nopg.errors import ArgumentError

STILL = {"measured": [0.0, 0.0], "applied_given": False, "fallback_given": False, "measured_at_given": True}
TOLERANCE = 1e-12
"""Sums in another order, and tanh and atan2 by formulas of our own."""


FORMULAS = {
    "valve": "a * (level - 0.1) + b * max(abs(angle), 2) ** 2 / 7 + (level > 0 or angle < 0) * min(total, 1)",
    "pump": "sin(angle) * cos(level) + tanh(a * level) + (not level <= 0) * log(1 + exp(-sqrt(abs(total))))",
}


def with_formulas() -> RuntimeController:
    """Return a network around formulas that have every function, with derived columns."""
    found = with_memory(every=6, units=10).saved
    base = {"low": [-1.0, -1.0], "high": [1.0, 1.0], "scales": [1.0, 1.0], "raw": [0.4, -0.3]}
    parameters = {f"policy.{name}": value for name, value in found.parameters.items()}
    parameters |= {f"base.{name}": np.array(values) for name, values in base.items()}
    parameters["limit"] = np.array([0.3, 0.5])
    formulas = {"kind": "formula", "formulas": FORMULAS, "gains": ["a", "b"]}
    policy = {"kind": "deviation", "base": formulas, "policy": {"kind": "mlp"}}
    return RuntimeController(replace(found, policy=policy, parameters=parameters))


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_structured_text_and_numpy_agree_on_so_many_steps_with_gaps(count: int, tmp_path: Path) -> None:
    guard = GuardedController(with_formulas(), max_change=0.4, most_unknown=0.6, rules=ALL_RULES)
    feed = faulty_stream(count)
    steps = with_sensor_faults(faulty_inputs(feed.measured, feed.times, feed.resets, feed.overridden))
    block = InStructuredText(guard, tmp_path)
    found = compared(block, InNumpy(guard), steps)
    assert found.same_decisions
    assert found.worst <= TOLERANCE
    assert min(found.counts[status] for status in (LEARNED, FALLBACK, LAST_RESORT)) > count / 100

    # A flag says that a value is missing where NaN cannot: the level may be held for two steps.
    statuses: list[int] = []
    for k, missing in enumerate((False, True, True, True)):
        given = {"restart": k == 0, "missing": [missing, False], "measured_at": 0.2 * k}
        block.program.run(STILL | given)
        statuses.append(block.program.values["status"])
    assert statuses == [LEARNED, LEARNED, LEARNED, LAST_RESORT]


def linear(columns: Columns) -> RuntimeController:
    support = SavedSupport(np.zeros((1, 1)), np.ones(1), np.ones(1), prior_mass=1e-3)
    return RuntimeController(
        SavedController(columns, {"kind": "linear"}, {"gain": np.array([[2.0]])}, support, "here")
    )


def test_a_missing_value_goes_to_the_fallback_where_nothing_is_held(tmp_path: Path) -> None:
    block = InStructuredText(GuardedController(linear(Columns(("level",), ("valve",)))), tmp_path)
    for missing, status in ((False, LEARNED), (True, FALLBACK)):
        given = {"measured": [0.3], "missing": [missing], "fallback": [0.5], "fallback_given": True}
        block.program.run(given)
        assert block.program.values["status"] == status


def test_names_of_columns_cannot_leave_a_comment(tmp_path: Path) -> None:
    guard = GuardedController(linear(Columns(("level *) x",), ("valve (*",))))
    text = to_structured_text(guard, tmp_path / "tank.st").read_text()
    assert "level _) x" in text
    assert all(part.count("(*") == 0 for part in text.split("*)")[-1:])
    assert all(part.count("(*") == 1 for part in text.split("*)")[:-1])


@pytest.mark.parametrize(
    "statement", ["x := 1;", "x := flag;", "x := y;", "x := x AND x;", "IF x THEN x := 0.0; END_IF;"]
)
def test_the_evaluator_refuses_what_a_plc_would_refuse(statement: str) -> None:
    text = f"FUNCTION_BLOCK one\nVAR\n x : LREAL;\n flag : BOOL;\nEND_VAR\n{statement}\nEND_FUNCTION_BLOCK\n"
    with pytest.raises((TypeError, KeyError)):
        Program(text)


def test_a_file_is_called_st_and_not_overwritten(tmp_path: Path) -> None:
    guard = GuardedController(linear(Columns(("level",), ("valve",))))
    to_structured_text(guard, tmp_path / "tank.st")
    with pytest.raises(ArgumentError, match="exists already"):
        to_structured_text(guard, tmp_path / "tank.st")
    with pytest.raises(ArgumentError, match=r"ends in \.st"):
        to_structured_text(guard, tmp_path / "tank.txt")
