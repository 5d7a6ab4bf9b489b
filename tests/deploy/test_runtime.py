"""The numpy runtime: the same numbers as torch, without torch, and nothing that a bundle can do to it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nopg
from deploy.controller_cases import CASES, controller, many_states, torch_answers
from deploy.known_places import AWKWARD_NAMES
from nopg import deploy as runtime
from nopg.errors import ObservationError
from nopg.policies import LinearPolicy
from nopg.training import TrainingResult

# The same formulas in another order of summation; what was asked for is 1e-6.
TOLERANCE = 1e-9


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    return controller("mlp", angles=True, bounds=True)


@pytest.fixture(scope="module")
def saved(result: TrainingResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return result.save(tmp_path_factory.mktemp("saved") / "pendulum")


@pytest.mark.parametrize(("kind", "angles", "bounds"), CASES)
def test_numpy_and_torch_agree_at_thousands_of_states(
    kind: str, angles: bool, bounds: bool, tmp_path: Path
) -> None:
    one = controller(kind, angles=angles, bounds=bounds)
    robot = runtime.load(one.save(tmp_path / "one", data=False))
    states = many_states(one)
    actions, unknown = torch_answers(one, states)
    assert np.abs(robot(states) - actions).max() < TOLERANCE
    assert np.abs(robot.unknown(states) - unknown).max() < TOLERANCE
    # The states tell known from unknown, and bounds are met.
    assert unknown.min() < 0.1
    assert unknown.max() > 0.9
    assert bounds == bool(((actions[:, 0] == -0.3) | (actions[:, 0] == 0.2)).any())


def test_one_observation_is_a_batch_of_one(saved: Path, result: TrainingResult) -> None:
    robot = runtime.load(saved)
    states = many_states(result, 20)
    for k, state in enumerate(states):
        # Products of one row and of many are summed in different orders.
        assert robot(state) == pytest.approx(robot(states)[k], abs=1e-12)
        assert robot.unknown(list(state)) == pytest.approx(robot.unknown(states)[k], rel=1e-9)
    assert robot(states[0]).shape == (1,)
    assert robot(states[:1]).shape == (1, 1)
    assert robot(states[:0]).shape == (0, 1)
    assert robot(states[0].astype(np.float32)).dtype == np.float64


def test_limits_are_the_bounds_declared_else_the_range_of_the_policy_else_none(tmp_path: Path) -> None:
    robots = {
        (kind, bounds): runtime.load(
            controller(kind, angles=False, bounds=bounds).save(tmp_path / f"{kind}{bounds}", data=False)
        )
        for kind in ("linear", "mlp")
        for bounds in (False, True)
    }
    free, bounded = robots["linear", False], robots["linear", True]
    assert free.high.tolist() == [np.inf, np.inf]
    assert (bounded.low.tolist(), bounded.high.tolist()) == ([-0.3, -np.inf], [0.2, np.inf])
    network, narrow = robots["mlp", False], robots["mlp", True]
    assert network.high == pytest.approx([1.0, 4.0], abs=0.1)
    assert narrow.high.tolist() == [0.2, network.high[1]]


def test_an_open_bound_is_saved_and_read(tmp_path: Path) -> None:
    one = controller("linear", angles=False, bounds=False)
    schema = replace(one.policy.schema, bounds={"feed": (-1.0, np.inf)})
    path = replace(one, policy=replace(one.policy, schema=schema)).save(tmp_path / "one")
    assert runtime.load(path).high[0] == np.inf
    assert nopg.load(path).policy.schema.bounds == {"feed": (-1.0, np.inf)}


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_a_name_of_a_column_is_saved_and_read_as_it_is(name: str, tmp_path: Path) -> None:
    one = controller("linear", angles=False, bounds=False)
    schema = replace(
        one.policy.schema, states=(name, "lower"), actions=("feed", f"to {name}"), units={name: name}
    )
    path = replace(one, policy=replace(one.policy, schema=schema)).save(tmp_path / "one", data=False)
    robot = runtime.load(path)
    assert (robot.columns.states, robot.columns.actions) == (schema.states, schema.actions)
    assert (robot.columns.units, nopg.load(path).policy.schema.states) == ({name: name}, schema.states)
    with pytest.raises(ObservationError) as refused:
        robot([np.nan, 0.0])
    assert name in str(refused.value)


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ([np.nan, 0.0], "angle is nan"),
        ([[0.0, 0.0], [0.0, -np.inf]], "velocity is -inf"),
        ([0.0], "2 numbers"),
        ([[0.0, 0.0, 0.0]], "2 numbers"),
        ([[[0.0, 0.0]]], "2 numbers"),
        (0.0, "2 numbers"),
        (["a", "b"], "made of numbers"),
        ([[0.0], [0.0, 1.0]], "made of numbers"),
        ([None, 0.0], "made of numbers"),
        ([1j, 0.0], "made of numbers"),
        (np.ma.MaskedArray([0.0, 1.0], mask=[False, True]), "is nan; no controller may act"),
    ],
)
def test_what_no_controller_may_act_on_is_refused(saved: Path, observation: object, message: str) -> None:
    robot = runtime.load(saved)
    with pytest.raises(ObservationError, match=message):
        robot(observation)  # type: ignore[arg-type]


def test_a_state_too_far_away_for_the_policy_is_refused(tmp_path: Path) -> None:
    one = controller("linear", angles=False, bounds=True)
    policy = LinearPolicy([[5.0, -5.0], [1.0, 1.0]])
    robot = runtime.load(replace(one, policy=replace(one.policy, policy=policy)).save(tmp_path / "one"))
    assert robot.unknown([1.7e308, -1.7e308]) == 1.0
    with pytest.raises(ObservationError, match="so large"):
        robot([1.7e308, -1.7e308])


def test_an_angle_without_direction_is_refused(tmp_path: Path) -> None:
    one = controller("linear", angles=True, bounds=False)
    schema = replace(one.policy.schema, angles={"angle": 1.0})
    path = replace(one, policy=replace(one.policy, schema=schema)).save(tmp_path / "one")
    with pytest.raises(ObservationError, match="no direction"):
        runtime.load(path).unknown([1.7e308, 0.0])
    with pytest.raises(ObservationError, match=r"'angle' .*no direction"):
        runtime.load(path).unknown([1e17, 0.0])
    assert np.isfinite(runtime.load(path).unknown([1e12, 0.0]))


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "scipy", "pandas", "jinja2"}:
            raise ImportError(f"{name} is not installed here")
sys.meta_path.insert(0, Absent())
"""
ACT = """
import sys
from nopg import deploy as runtime
robot = runtime.load(sys.argv[1])
guard = runtime.GuardedController(robot, fallback=lambda state: [0.0])
decision = guard.act([float(x) for x in sys.argv[2:]])
assert not {"torch", "scipy", "pandas", "jinja2"} & set(sys.modules)
print(repr(float(decision.action[0])), repr(decision.unknown), decision.source)
"""


def acted(python: str, script: str, saved: Path, **settings: object) -> tuple[float, float, str]:
    done = subprocess.run(
        [python, "-W", "error", "-c", script, str(saved), "0.1", "-0.2"],
        capture_output=True,
        text=True,
        check=False,
        **settings,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stderr
    action, unknown, source = done.stdout.split()
    return float(action), float(unknown), source


def test_it_runs_where_torch_scipy_and_pandas_cannot_be_imported(saved: Path, result: TrainingResult) -> None:
    action, unknown, source = acted(sys.executable, WITHOUT + ACT, saved)
    actions, unknowns = torch_answers(result, np.array([[0.1, -0.2]]))
    assert action == pytest.approx(actions[0, 0], abs=TOLERANCE)
    assert unknown == pytest.approx(unknowns[0], abs=TOLERANCE)
    assert source == "learned"
