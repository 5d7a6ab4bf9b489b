"""Controllers in C: decisions and numbers of numpy, at many states and in long streams with faults."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from deploy.controller_cases import cases, controller, many_states, trained
from deploy.known_places import known_around
from deploy.native import (
    ALL_RULES,
    COMPILERS,
    NEEDS_COMPILER,
    STRICT,
    InC,
    InNumpy,
    Inputs,
    compared,
    difference,
    faulty_inputs,
    with_memory,
    with_sensor_faults,
)
from deploy.stream_cases import faulty_stream
from nopg._columns import Columns
from nopg.bundles import SavedController
from nopg.deploy import GuardedController, RuntimeController, load
from nopg.deploy._c99 import to_c
from nopg.deploy._control_program import FALLBACK, LAST_RESORT, LEARNED, NO_ACTION
from nopg.errors import ArgumentError
from nopg.policies import DeviationPolicy, FormulaPolicy, LinearPolicy
from nopg.training import Controller

pytestmark = pytest.mark.skipif(not COMPILERS, reason=NEEDS_COMPILER)

Numbers = npt.NDArray[np.float64]
CASES = [one for one in cases() if one[1:] == (True, True) or one[0] in {"linear", "formula", "diagonal"}]
TOLERANCE = 1e-12
"""Sums in another order, and functions of the C library that differ in the last bit."""


def saved(columns: Columns, policy: dict[str, object], **parameters: object) -> RuntimeController:
    """Return a controller known around 0 with a radius of 1."""
    support = known_around(columns, np.zeros(len(columns.states)), 1.0)
    arrays = {name: np.array(values, dtype=np.float64) for name, values in parameters.items()}
    return RuntimeController(SavedController(columns, policy, arrays, support, "here"))


def quantized() -> RuntimeController:
    """Return a network whose first action has three levels, and whose second has none."""
    result = controller("mlp", angles=False, bounds=False)
    columns = Columns(("upper", "lower"), ("feed", "drain"), levels={"feed": (-1.0, 0.0, 1.0)})
    parameters = {
        f"policy.{name}": value.numpy() for name, value in result.policy.policy.state_dict().items()
    }
    parameters |= {"discrete": np.array([1.0, 0.0]), "levels": np.array([[-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])}
    return RuntimeController(
        SavedController(columns, {"kind": "quantized"}, parameters, result.support, "here")
    )


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
def test_every_policy_acts_as_in_numpy_at_ten_thousand_states(
    kind: str, angles: bool, bounds: bool, tmp_path: Path
) -> None:
    result = controller(kind, angles=angles, bounds=bounds)
    runtime = load(result.save(tmp_path / "saved", data=False))
    agree_at_states(runtime, many_states(result), tmp_path)


@pytest.mark.parametrize("kind", ["quantized", "deviation"])
def test_policies_made_of_others_act_as_in_numpy(kind: str, tmp_path: Path) -> None:
    runtime = quantized() if kind == "quantized" else deviating(tmp_path)
    agree_at_states(runtime, many_states(trained(kind == "deviation")), tmp_path)


def test_c_and_numpy_agree_on_ten_thousand_steps_with_gaps(tmp_path: Path) -> None:
    guard = GuardedController(with_memory(), max_change=0.4, most_unknown=0.6)
    feed = faulty_stream(10_000)
    steps = faulty_inputs(feed.measured, feed.times, feed.resets, feed.overridden)
    reference = InNumpy(guard)
    wanted = [reference.step(one) for one in steps]
    for compiler in COMPILERS:
        (tmp_path / compiler).mkdir()
        native = InC(guard, tmp_path / compiler, compiler)
        found = difference([native.step(one) for one in steps], wanted)
        assert found.same_decisions
        assert found.worst <= TOLERANCE
        # All of it happens: the policy, the fallback, and neither.
        assert min(found.counts[status] for status in (LEARNED, FALLBACK, LAST_RESORT)) > 100


def test_c_and_numpy_agree_where_sensors_clocks_and_fallbacks_fail(tmp_path: Path) -> None:
    guard = GuardedController(with_memory(), most_unknown=0.6, rules=ALL_RULES)
    feed = faulty_stream(3_000, seed=6)
    steps = with_sensor_faults(faulty_inputs(feed.measured, feed.times, feed.resets, feed.overridden))
    reference = InNumpy(guard)
    found = compared(InC(guard, tmp_path), reference, steps)
    assert found.same_decisions
    assert found.worst <= TOLERANCE
    assert min(found.counts[status] for status in (LEARNED, FALLBACK, LAST_RESORT)) > 100
    reasons = " ".join(reference.counts.by_reason)
    for part in (
        "frozen: level",
        "frozen: angle",
        "missing: angle",
        "back",
        "advance",
        "deadline",
        "waiting",
    ):
        assert part in reasons


AWKWARD = st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, 5e-324]) | st.floats(-3.0, 3.0)
ROW = st.lists(AWKWARD, min_size=2, max_size=2).map(np.array)
STEP = st.builds(Inputs, ROW, st.none() | ROW, st.none() | ROW, st.none() | AWKWARD, st.booleans())


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> tuple[GuardedController, InC]:
    guard = GuardedController(with_memory(), max_change=0.3, most_unknown=1.0)
    return guard, InC(guard, tmp_path_factory.mktemp("awkward"))


@hypothesis.example([Inputs(np.zeros(2), time=1e308), Inputs(np.zeros(2), time=-1e308)])
@hypothesis.given(steps=st.lists(STEP, min_size=1, max_size=12))
@hypothesis.settings(max_examples=60, deadline=None)
def test_numbers_that_no_sensor_should_give_are_treated_as_in_numpy(
    awkward: tuple[GuardedController, InC], steps: list[Inputs]
) -> None:
    guard, native = awkward
    found = compared(native, InNumpy(guard), [replace(steps[0], reset=True), *steps[1:]])
    assert found.same_decisions
    assert found.worst <= TOLERANCE


def test_an_action_that_overflows_goes_to_the_fallback(tmp_path: Path) -> None:
    runtime = saved(Columns(("level",), ("valve",)), {"kind": "linear"}, gain=[[1e200]])
    guard = GuardedController(runtime, most_unknown=1.0)
    native = InC(guard, tmp_path)
    large = Inputs(np.array([1e200]), fallback=np.array([0.5]))
    found = native.step(large)
    assert (found.status, found.action.tolist(), found.unknown) == (FALLBACK, [0.5], 1.0)
    assert compared(native, InNumpy(guard), [large, Inputs(np.array([1.0]))]).same_decisions


def test_an_applied_action_that_is_not_finite_is_a_fault_and_such_a_time_is_none(
    awkward: tuple[GuardedController, InC],
) -> None:
    guard, native = awkward
    steps = [
        Inputs(np.array([0.1, 0.2]), reset=True),
        Inputs(np.array([0.1, 0.2]), time=float("inf")),
        Inputs(np.array([0.1, 0.2]), applied=np.array([0.0, np.inf])),
    ]
    found = [native.step(one) for one in steps]
    assert [one.status for one in found] == [LEARNED, LEARNED, LAST_RESORT]
    assert found[2].action.tolist() == found[1].action.tolist()
    assert compared(native, InNumpy(guard), steps).same_decisions


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
    guard = GuardedController(runtime, most_unknown=1.0)
    found = compared(InC(guard, tmp_path), InNumpy(guard), steps)
    assert found.same_decisions
    assert found.worst <= TOLERANCE
    assert found.counts[LEARNED] > 10


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_policy_compiles_without_warnings_at_every_optimization(compiler: str, tmp_path: Path) -> None:
    for kind in ("linear", "mlp", "formula"):
        result = controller(kind, angles=False, bounds=False)
        runtime = load(result.save(tmp_path / f"saved-{kind}", data=False))
        source = to_c(GuardedController(runtime), tmp_path / f"{kind.replace('-', '_')}.c").source
        for level in ("-O0", "-O3"):
            command = [compiler, *STRICT, level, "-c", str(source), "-o", str(tmp_path / "one.o")]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")


def test_the_source_has_no_allocation_no_recursion_and_one_return_per_function(tmp_path: Path) -> None:
    text = to_c(GuardedController(with_memory()), tmp_path / "plant.c").source.read_text()
    assert not {"malloc(", "calloc(", "free(", "goto", "while("} & {*text.replace("(", "( ").split()}
    step = text[text.index("int plant_step") :]
    assert step.count("return") == 1
    assert step.count("plant_step") == 1


def test_names_of_columns_cannot_leave_a_comment(tmp_path: Path) -> None:
    names = ("a */ int x; /*", "b\n#error", "c??/", "d\\")
    runtime = saved(Columns(names, ("ä *)",), units={names[0]: "*/"}), {"kind": "linear"}, gain=[[0.0] * 4])
    InC(GuardedController(runtime), tmp_path)


def test_exporting_twice_gives_the_same_bytes_and_overwrites_only_if_told(tmp_path: Path) -> None:
    runtime = saved(Columns(("level",), ("valve",)), {"kind": "linear"}, gain=[[1.0]])
    guard, path = GuardedController(runtime), tmp_path / "tank.c"
    first = [one.read_bytes() for one in files(guard, path)]
    with pytest.raises(ArgumentError, match=r"tank\.c exists already"):
        to_c(guard, path)
    assert [one.read_bytes() for one in files(guard, path)] == first


def files(guard: GuardedController, path: Path) -> Iterator[Path]:
    export = to_c(guard, path, overwrite=True)
    yield from (export.source, export.header)


@pytest.mark.parametrize("name", ["tank.h", "tank", "2tank.c", "my tank.c", "double.c", ".c"])
def test_a_name_that_is_no_word_of_c_is_refused(name: str, tmp_path: Path) -> None:
    runtime = saved(Columns(("level",), ("valve",)), {"kind": "linear"}, gain=[[1.0]])
    with pytest.raises(ArgumentError, match=r"the path is|the file is called"):
        to_c(GuardedController(runtime), tmp_path / name)
