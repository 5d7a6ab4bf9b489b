"""Controllers in Structured Text: parsed by blark, with the decisions and the numbers of numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deploy.controller_cases import controller, many_states
from deploy.native import InNumpy, Inputs, compared, faulty_inputs, with_memory
from deploy.stream_cases import faulty_stream
from deploy.structured_text import InStructuredText, Program
from nopg._columns import Columns
from nopg.bundles import SavedController
from nopg.bundles._controller import SavedSupport
from nopg.deploy import GuardedController, RuntimeController, load
from nopg.deploy._control_program import FALLBACK, LEARNED, NO_ACTION
from nopg.deploy._structured_text import to_structured_text
from nopg.errors import ArgumentError

STILL = {"measured": [0.0, 0.0], "applied_given": False, "fallback_given": False, "measured_at_given": False}
TOLERANCE = 1e-12
"""Sums in another order, and tanh and atan2 by formulas of our own."""


def test_structured_text_and_numpy_agree_on_ten_thousand_steps_with_gaps(tmp_path: Path) -> None:
    guard = GuardedController(with_memory(every=6, units=10), max_change=0.4, most_unknown=0.6)
    feed = faulty_stream(10_000)
    steps = faulty_inputs(feed.measured, feed.times, feed.resets, feed.overridden)
    block = InStructuredText(guard, tmp_path)
    found = compared(block, InNumpy(guard), steps)
    assert found.same_decisions
    assert found.worst <= TOLERANCE
    assert min(found.counts[status] for status in (LEARNED, FALLBACK, NO_ACTION)) > 100

    # A flag says that a value is missing where NaN cannot: the level may be held for two steps.
    statuses: list[int] = []
    for missing in (False, True, True, True, False):
        block.program.run(STILL | {"restart": not statuses, "missing": [missing, False]})
        statuses.append(block.program.values["status"])
    assert statuses == [LEARNED, LEARNED, LEARNED, NO_ACTION, LEARNED]


def test_formulas_act_as_in_numpy_at_states_in_and_around_the_data(tmp_path: Path) -> None:
    result = controller("formula", angles=True, bounds=True)
    guard = GuardedController(load(result.save(tmp_path / "saved", data=False)))
    steps = [Inputs(state) for state in many_states(result, 400)]
    block = InStructuredText(guard, tmp_path)
    found = compared(block, InNumpy(guard), steps)
    assert found.same_decisions
    assert found.worst <= TOLERANCE
    assert min(found.counts[LEARNED], found.counts[NO_ACTION]) > 50
    block.program.run({"measured": result.data.states[0].tolist(), "missing": [False, True]})
    assert block.program.values["status"] == NO_ACTION


def linear(columns: Columns) -> RuntimeController:
    support = SavedSupport(np.zeros((1, 1)), np.ones(1), np.ones(1), prior_mass=1e-3)
    return RuntimeController(
        SavedController(columns, {"kind": "linear"}, {"gain": np.array([[2.0]])}, support, "here")
    )


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
