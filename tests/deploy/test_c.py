"""Controllers in C: decisions and numbers of numpy, at many states and in long streams with faults."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from deploy.controller_cases import CASES, controller, many_states, trained
from deploy.known_places import AWKWARD_NAMES, known_around
from deploy.native import (
    ALL_RULES,
    COMPILERS,
    FALLBACK,
    LAST_RESORT,
    LEARNED,
    NEEDS_COMPILER,
    NO_ACTION,
    STRICT,
    InC,
    InNumpy,
    Inputs,
    Outcome,
    difference,
    faulty_inputs,
    with_memory,
)
from nopg._columns import Columns
from nopg.bundles import SavedController
from nopg.deploy import GuardedController, GuardRules, RuntimeController, load, to_c
from nopg.errors import ArgumentError
from nopg.policies import DeviationPolicy, FormulaPolicy, LinearPolicy
from nopg.training import Controller

pytestmark = pytest.mark.skipif(not COMPILERS, reason=NEEDS_COMPILER)

Numbers = npt.NDArray[np.float64]
TOLERANCE = 1e-12
"""Sums in another order, and functions of the C library that differ in the last bit."""
TRUSTING = GuardRules(most_unknown=1.0)


def saved(columns: Columns, policy: dict[str, object], **parameters: object) -> RuntimeController:
    """Return a controller known around 0 with a radius of 1."""
    support = known_around(columns, np.zeros(len(columns.states)), 1.0)
    arrays = {name: np.array(values, dtype=np.float64) for name, values in parameters.items()}
    return RuntimeController(SavedController(columns, policy, arrays, support))


def linear() -> GuardedController:
    """Return valve = level."""
    return GuardedController(saved(Columns(("level",), ("valve",)), {"kind": "linear"}, gain=[[1.0]]))


def quantized() -> RuntimeController:
    """Return a network whose first action has three levels, and whose second has none."""
    result = controller("mlp", angles=False, bounds=False)
    columns = Columns(("upper", "lower"), ("feed", "drain"), levels={"feed": (-1.0, 0.0, 1.0)})
    parameters = {
        f"policy.{name}": value.numpy() for name, value in result.policy.policy.state_dict().items()
    }
    return RuntimeController(SavedController(columns, {"kind": "quantized"}, parameters, result.support))


def deviating(folder: Path) -> RuntimeController:
    """Return a formula that may deviate from a linear law by little."""
    result = controller("formula", angles=True, bounds=False)
    assert isinstance(result.policy.policy, FormulaPolicy)
    policy = DeviationPolicy(LinearPolicy(np.full((1, 3), 0.3)), result.policy.policy, np.array([0.2]))
    deviation = replace(result, policy=Controller(policy, result.policy.schema))
    return load(deviation.save(folder / "deviation", data=False))


def agree_at_states(runtime: RuntimeController, states: Numbers, folder: Path) -> None:
    """Check decisions and numbers at states; numpy computes them all at once."""
    status, actions, unknown = InC(GuardedController(runtime), folder).step_many(states)
    wanted_unknown = runtime.unknown(states)
    learned = wanted_unknown <= 0.5
    assert status.tolist() == np.where(learned, LEARNED, NO_ACTION).tolist()
    assert 0.1 < learned.mean() < 0.9
    wanted = runtime(states[learned])
    span = np.maximum(np.ptp(wanted, axis=0), 1.0)
    assert (np.abs(actions[learned] - wanted) / span).max() <= TOLERANCE
    assert np.isnan(actions[~learned]).all()
    assert np.abs(unknown - wanted_unknown).max() <= TOLERANCE


@pytest.mark.parametrize(("kind", "angles", "bounds"), CASES)
def test_every_policy_acts_as_in_numpy_at_thousands_of_states(
    kind: str, angles: bool, bounds: bool, tmp_path: Path
) -> None:
    result = controller(kind, angles=angles, bounds=bounds)
    runtime = load(result.save(tmp_path / "saved", data=False))
    agree_at_states(runtime, many_states(result), tmp_path)


@pytest.mark.parametrize("kind", ["quantized", "deviation"])
def test_policies_made_of_others_act_as_in_numpy(kind: str, tmp_path: Path) -> None:
    runtime = quantized() if kind == "quantized" else deviating(tmp_path)
    agree_at_states(runtime, many_states(trained(kind == "deviation")), tmp_path)


def keep_what_a_guard_promises(guard: GuardedController, steps: list[Inputs], found: list[Outcome]) -> None:
    """Check limits, rate and dwell time of every step."""
    last, since, before = None, 0, None
    for one, outcome in zip(steps, found, strict=True):
        if one.reset:
            last, before = None, None
        if one.applied is not None and np.isfinite(one.applied).all():
            last = one.applied
        if outcome.status == NO_ACTION:
            continue
        assert ((guard.low <= outcome.action) & (outcome.action <= guard.high)).all()  # false for NaN
        if last is not None and (np.abs(last) <= guard.high).all():
            assert (np.abs(outcome.action - last) <= guard.limits.max_change * (1 + 1e-12)).all()
        since = since + 1 if before not in {None, LEARNED} else 0
        if outcome.status == LEARNED and before not in {None, LEARNED}:
            assert since >= guard.rules.dwell
            assert outcome.unknown <= guard.limits.return_unknown
        last, before = outcome.action, outcome.status


@pytest.mark.parametrize("rules", [GuardRules(max_change=0.4, most_unknown=0.6), ALL_RULES])
@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_c_and_numpy_agree_on_so_many_steps_with_every_fault(
    count: int, rules: GuardRules, tmp_path: Path
) -> None:
    guard, steps = GuardedController(with_memory(), rules=rules), faulty_inputs(count)
    reference = InNumpy(guard)
    wanted = reference.run(steps)
    keep_what_a_guard_promises(guard, steps, wanted)
    for compiler in COMPILERS:
        (tmp_path / compiler).mkdir()
        found = difference(InC(guard, tmp_path / compiler, compiler).run(steps), wanted)
        assert found.same_decisions
        assert found.worst <= TOLERANCE
        # All of it happens: the policy, the fallback, and neither.
        assert min(found.counts[status] for status in (LEARNED, FALLBACK, LAST_RESORT)) > count / 100
    if rules is ALL_RULES:
        reasons = " ".join(reference.reasons)
        parts = ("frozen: level", "frozen: angle", "missing: angle", "back", "advance", "deadline", "waiting")
        assert [
            part for part in (*parts, "no time stamp", "applied is not finite") if part not in reasons
        ] == []


AWKWARD = st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 3e13, 0.0, 5e-324]) | st.floats(-3.0, 3.0)
ROW = st.lists(AWKWARD, min_size=2, max_size=2).map(np.array)
STEP = st.builds(Inputs, ROW, st.none() | ROW, st.none() | ROW, st.none() | AWKWARD, st.booleans())


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> tuple[GuardedController, InC]:
    guard = GuardedController(with_memory(), rules=GuardRules(max_change=0.3, most_unknown=1.0))
    return guard, InC(guard, tmp_path_factory.mktemp("awkward"))


@hypothesis.example([Inputs(np.zeros(2), time=1e308), Inputs(np.zeros(2), time=-1e308)])
@hypothesis.given(steps=st.lists(STEP, min_size=1, max_size=12))
@hypothesis.settings(max_examples=60, deadline=None)
def test_numbers_that_no_sensor_should_give_are_treated_as_in_numpy(
    awkward: tuple[GuardedController, InC], steps: list[Inputs]
) -> None:
    guard, native = awkward
    steps = [replace(steps[0], reset=True), *steps[1:]]
    found = difference(native.run(steps), InNumpy(guard).run(steps))
    assert found.same_decisions
    assert found.worst <= TOLERANCE


def test_an_action_that_overflows_goes_to_the_fallback(tmp_path: Path) -> None:
    runtime = saved(Columns(("level",), ("valve",)), {"kind": "linear"}, gain=[[1e200]])
    guard = GuardedController(runtime, rules=TRUSTING)
    steps = [Inputs(np.array([1e200]), fallback=np.array([0.5])), Inputs(np.array([1.0]))]
    found = InC(guard, tmp_path).run(steps)
    assert (found[0].status, found[0].action.tolist(), found[0].unknown) == (FALLBACK, [0.5], 1.0)
    assert difference(found, InNumpy(guard).run(steps)).same_decisions


@pytest.mark.parametrize("period", [2 * np.pi, 360.0])
def test_an_angle_has_the_same_limit_in_c_and_in_numpy(period: float, tmp_path: Path) -> None:
    columns = Columns(("angle",), ("valve",), angles={"angle": period})
    guard = GuardedController(saved(columns, {"kind": "linear"}, gain=[[1.0, 0.5]]), rules=TRUSTING)
    angles = columns.largest_angle("angle") * np.array([0.5, 1.0, 1.0 + 1e-9, 2.0, 30.0, -2.0])
    steps = [Inputs(np.array([one]), reset=True) for one in angles]
    found = InC(guard, tmp_path).run(steps)
    assert [one.status for one in found] == [LEARNED] * 2 + [NO_ACTION] * 4
    assert [one.status for one in InNumpy(guard).run(steps)] == [one.status for one in found]


def test_formulas_treat_conditions_and_missing_numbers_as_numpy_does(tmp_path: Path) -> None:
    # The margins of conditions are NaN where log is: `or` is then false, and so is `not`.
    law = (
        "(log(x) > 0 or y > 1) + 2 * (not (x > y)) + 4 * (x <= y) + 8 * (-1 < x < 1 and y >= 0) "
        "+ 16 * (not (log(x) < 0)) + 0.1 * max(y, sqrt(abs(x))) ** 3 + 0 * min(x, log(abs(y)))"
    )
    runtime = saved(
        Columns(("x", "y"), ("a",)),
        {"kind": "formula", "formulas": {"a": law}, "gains": []},
        low=[-1e3], high=[1e3], scales=[], raw=[],
    )  # fmt: skip
    grid = np.array([[x, y] for x in (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0) for y in (-1.0, 0.0, 1.0, 1.5)])
    steps = [Inputs(row, reset=True) for row in grid]
    guard = GuardedController(runtime, rules=TRUSTING)
    found = difference(InC(guard, tmp_path).run(steps), InNumpy(guard).run(steps))
    assert found.same_decisions
    assert found.worst <= TOLERANCE
    assert found.counts[LEARNED] > 10


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_policy_compiles_without_warnings_at_every_optimization(compiler: str, tmp_path: Path) -> None:
    for kind in ("linear", "mlp", "formula"):
        result = controller(kind, angles=False, bounds=False)
        source = to_c(
            GuardedController(load(result.save(tmp_path / kind, data=False))), tmp_path / f"{kind}.c"
        )
        for level in ("-O0", "-O3"):
            command = [compiler, *STRICT, level, "-c", str(source), "-o", str(tmp_path / "one.o")]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")


def test_the_step_is_the_same_for_every_controller_without_allocation_or_recursion(tmp_path: Path) -> None:
    cores = []
    for k, guard in enumerate((linear(), GuardedController(with_memory()))):
        folder = tmp_path / str(k)
        cores.append(to_c(guard, folder / "plant.c").with_name("nopg_core.c").read_text())
    assert cores[0] == cores[1]
    assert not re.search(r"\b(malloc|calloc|free|while) ?\(|\bgoto\b", cores[0])
    functions = re.findall(r"^(?:static )?\w+ (\w+)\(.*?^}", cores[0], re.MULTILINE | re.DOTALL)
    bodies = re.split(r"^(?:static )?\w+ \w+\(", cores[0], flags=re.MULTILINE)[1:]
    assert len(functions) == len(bodies) > 20
    for k, body in enumerate(bodies):  # a function calls earlier ones alone
        assert not [one for one in functions[k:] if re.search(rf"\b{one}\(", body)], functions[k]


def test_names_of_columns_are_readable_and_cannot_leave_a_comment(tmp_path: Path) -> None:
    units = {"level": "m³/h", "valve": "*/"}
    runtime = saved(
        Columns(("level", *AWKWARD_NAMES), ("valve",), units=units),
        {"kind": "linear"},
        gain=[[0.0] * (1 + len(AWKWARD_NAMES))],
    )
    InC(GuardedController(runtime), tmp_path)
    header = (tmp_path / "control.h").read_text("ascii")
    assert " *   measured[0] = level [m3/h]\n" in header
    assert " = Hohe des Behalters\n" in header
    assert header.count("*/") == header.count("/*")


def test_files_are_the_same_twice_and_overwritten_only_if_told(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in sorted(to_c(linear(), tmp_path / "tank.c").parent.iterdir())]
    with pytest.raises(ArgumentError, match=r"tank\.\w exists already"):
        to_c(linear(), tmp_path / "tank.c")
    to_c(linear(), tmp_path / "tank.c", overwrite=True)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == first
    to_c(linear(), tmp_path / "other.c")  # beside it, with the same core
    (tmp_path / "nopg_core.c").write_text("mine")
    with pytest.raises(ArgumentError, match=r"nopg_core\.c exists already"):
        to_c(linear(), tmp_path / "third.c")


@pytest.mark.parametrize("name", ["tank.h", "tank", "2tank.c", "my tank.c", ".c", "nopg_core.c"])
def test_a_name_that_is_no_word_of_c_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"the path is|the file is called"):
        to_c(linear(), tmp_path / name)


def test_two_controllers_fit_into_one_program(tmp_path: Path) -> None:
    for name in ("one", "double"):  # a keyword is but the beginning of a name
        to_c(linear(), tmp_path / f"{name}.c")
    (tmp_path / "main.c").write_text('#include "one.h"\n#include "double.h"\nint main(void) { return 0; }\n')
    files: list[Any] = [tmp_path / f"{name}.c" for name in ("one", "double", "main")]
    subprocess.run([COMPILERS[0], *STRICT, *files, "-lm", "-o", tmp_path / "both"], check=True)
