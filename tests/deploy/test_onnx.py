"""Controllers in ONNX: the numbers of numpy in a real onnxruntime, at states and in streams with faults."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

import nopg
from deploy.controller_cases import CASES, controller, many_states
from deploy.native import runtime_of, with_memory
from deploy.stream_cases import INTERVAL, derived_log, faulty_stream, log
from deploy.test_c import deviating, quantized
from nopg.deploy import RuntimeController, load, to_onnx
from nopg.deploy import _onnx as module
from nopg.errors import ArgumentError, ExportError, MissingExtraError, ObservationError
from nopg.policies import FormulaPolicy, Formulas

Numbers = npt.NDArray[np.float64]
OUTPUTS = ["action", "unknown", "next_state", "next_age"]
TOLERANCE = 1e-12


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # others would wait for work between two steps
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def about(path: Path) -> dict[str, str]:
    return {one.key: one.value for one in onnx.load(path).metadata_props}


def exported(controller: RuntimeController, path: Path) -> Path:
    """Return the path of a controller that agrees with numpy."""
    assert to_onnx(controller, path) <= TOLERANCE
    return path


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory: pytest.TempPathFactory) -> RuntimeController:
    result = controller("mlp", angles=True, bounds=True)
    return load(result.save(tmp_path_factory.mktemp("saved") / "pendulum", data=False))


@pytest.fixture(scope="module")
def graph(pendulum: RuntimeController, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(pendulum, tmp_path_factory.mktemp("onnx") / "pendulum.onnx")


def agree(robot: RuntimeController, states: Numbers, folder: Path) -> None:
    path = exported(robot, folder / "one.onnx")
    action, unknown = session(path).run(["action", "unknown"], {"observation": states})
    wanted = robot(states)
    assert (np.abs(action - wanted) / np.maximum(np.ptp(wanted, axis=0), 1.0)).max() <= TOLERANCE
    assert np.abs(unknown - robot.unknown(states)).max() <= TOLERANCE


@pytest.mark.parametrize(("kind", "angles", "bounds"), CASES)
def test_onnxruntime_and_numpy_agree_at_thousands_of_states(
    kind: str, angles: bool, bounds: bool, tmp_path: Path
) -> None:
    one = controller(kind, angles=angles, bounds=bounds)
    agree(load(one.save(tmp_path / "one", data=False)), many_states(one), tmp_path)


@pytest.mark.parametrize("kind", ["quantized", "deviation"])
def test_policies_made_of_others_agree_too(kind: str, tmp_path: Path) -> None:
    robot = quantized() if kind == "quantized" else deviating(tmp_path)
    agree(robot, many_states(controller("mlp", angles=kind == "deviation", bounds=False)), tmp_path)


def test_an_angle_in_degrees_keeps_its_digits_over_many_turns(tmp_path: Path) -> None:
    result = controller("mlp", angles=True, bounds=True)
    schema = replace(result.policy.schema, angles={"angle": 360.0})
    one = replace(result, policy=replace(result.policy, schema=schema))
    robot = load(one.save(tmp_path / "one", data=False))
    states = np.array([[36_000.0 * k + 12.3, 0.1] for k in range(50)])
    found = session(exported(robot, tmp_path / "one.onnx")).run(["action"], {"observation": states})[0]
    # 2π/360 rounded to float32 would be off by 4e-5 radians after 5000 turns.
    assert np.abs(found - robot(states)).max() < 1e-9


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 3e13])
def test_a_row_on_which_no_controller_may_act_is_flagged_in_every_output_and_alone(
    graph: Path, number: float
) -> None:
    states = np.array([[0.1, 0.0], [number, 0.0], [0.1, number], [0.1, 0.0]])
    action, unknown = session(graph).run(["action", "unknown"], {"observation": states})
    velocity_too = not np.isfinite(number)  # a large velocity is far from the data
    assert np.isnan(action[:, 0]).tolist() == [False, True, velocity_too, False]
    assert (unknown == 1.0).tolist() == [False, True, True, False]


def test_the_file_says_what_a_program_needs(graph: Path, pendulum: RuntimeController, tmp_path: Path) -> None:
    found, model = about(graph), onnx.load(graph)
    assert json.loads(found["observation"]) == ["angle", "velocity"]
    assert json.loads(found["limits"]) == [[-0.3, 0.2]]
    assert json.loads(found["periods"]) == {"angle": 2 * np.pi}
    assert found["saved controller"] == pendulum.saved.sha256
    assert json.loads(found["difference"]) <= TOLERANCE
    onnx.checker.check_model(model, full_check=True)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 18)]
    content = graph.read_bytes()
    assert str(Path(nopg.__file__).parents[1]).encode() not in content
    exported(pendulum, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == content


def test_it_is_written_and_checked_without_torch(pendulum: RuntimeController, tmp_path: Path) -> None:
    path = controller("mlp", angles=True, bounds=True).save(tmp_path / "one", data=False)
    script = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'torch', 'scipy', 'pandas'}: raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from nopg.deploy import load, to_onnx, to_c, GuardedController\n"
        "to_onnx(load(sys.argv[1]), sys.argv[1] + '.onnx')\n"
        "to_c(GuardedController(load(sys.argv[1])), sys.argv[1] + '.c')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert {"one.onnx", "one.c", "one.h", "nopg_core.c"} < {one.name for one in tmp_path.iterdir()}


def test_an_export_that_differs_is_not_left_behind(
    pendulum: RuntimeController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TINY", 0.1)
    with pytest.raises(ExportError, match=r"differs from numpy by .*nothing was written"):
        to_onnx(pendulum, tmp_path / "one.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one.json", "ends in .onnx"),
        (".onnx", "ends in .onnx"),
        ("mine.onnx", "mine.onnx exists already"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    name: str, message: str, pendulum: RuntimeController, tmp_path: Path
) -> None:
    (tmp_path / "mine.onnx").write_text("mine")
    with pytest.raises(ArgumentError, match=message):
        to_onnx(pendulum, tmp_path / name)
    assert [one.read_text() for one in tmp_path.iterdir()] == ["mine"]


def test_without_the_extra_it_is_named(
    pendulum: RuntimeController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # so that its import fails
    with pytest.raises(MissingExtraError, match=r"pip install 'nopg\[onnx\]'"):
        to_onnx(pendulum, tmp_path / "one.onnx")


# Controllers with a memory.


class OnnxStream:
    """A caller of the graph who does what its metadata say."""

    def __init__(self, path: Path) -> None:
        self.run, self.about = session(path).run, about(path)
        self.reset()

    def reset(self, applied: Numbers | None = None) -> None:
        widths = [len(json.loads(self.about[name])) for name in ("state", "action", "observation")]
        self.state, self.age = np.full((1, widths[0]), np.nan), np.zeros((1, widths[2]))
        self.applied = np.full((1, widths[1]), np.nan) if applied is None else applied[None]

    def act(self, measured: Numbers, applied: Numbers | None, time: float, last: float) -> Numbers:
        if time - last > 5 * json.loads(self.about["interval"]):
            self.reset()
        self.applied = self.applied if applied is None else applied[None]
        values = {"observation": measured[None], "state": self.state, "applied": self.applied}
        self.applied, _, self.state, self.age = self.run(OUTPUTS, {**values, "age": self.age})
        action: Numbers = self.applied[0]
        return action


def agree_in_a_stream(robot: RuntimeController, path: Path, count: int) -> tuple[Numbers, int]:
    """Return actions, NaN where it refuses to act, and number of starts, after comparing all numbers."""
    feed, ours, theirs, last = faulty_stream(count), robot.stream(), OnnxStream(path), -np.inf
    found, wanted, started = [], [], 0
    for measured, time, reset, other in zip(
        feed.measured, feed.times, feed.resets, feed.overridden, strict=True
    ):
        override = None if np.isnan(other).any() else other
        if reset:
            ours.reset(override)
            theirs.reset(override)
            last = -np.inf
        try:
            action = ours.act(measured, override, time)
        except ObservationError:
            action = np.full(2, np.nan)
        memory = ours.state_dict()
        wanted.append(np.concatenate([action, memory["state"], memory["age"]]))
        action = theirs.act(measured, override, time, last)
        found.append(np.concatenate([action, theirs.state[0], theirs.age[0]]))
        started += bool(ours.started)
        last = time
    one, two = np.array(found), np.array(wanted)
    assert np.array_equal(np.isnan(one), np.isnan(two))
    assert np.nanmax(np.abs(one - two)) <= TOLERANCE
    return two[:, :2], started


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_numpy_and_onnxruntime_agree_on_so_many_steps_with_faults(count: int, tmp_path: Path) -> None:
    robot = with_memory()
    actions, started = agree_in_a_stream(robot, exported(robot, tmp_path / "plant.onnx"), count)
    # The stream has all of it: values beyond their hold, start-ups, and mostly neither.
    refused = int(np.isnan(actions[:, 0]).sum())
    assert refused > count / 50
    assert started > refused + count / 100
    assert count - started > 0.8 * count
    tensors = session(tmp_path / "plant.onnx").get_inputs()
    assert [one.name for one in tensors] == ["observation", "state", "applied", "age"]
    assert json.loads(about(tmp_path / "plant.onnx")["interval"]) == INTERVAL


def test_many_plants_run_side_by_side_each_from_its_own_memory(tmp_path: Path) -> None:
    run, rng = session(exported(with_memory(), tmp_path / "plant.onnx")).run, np.random.default_rng(1)
    sizes = {"observation": 2, "state": 10, "applied": 2, "age": 2}
    inputs = {name: rng.normal(size=(5, size)) for name, size in sizes.items()}
    inputs["age"][:3], inputs["age"][3] = 0.0, 9.0
    inputs["state"][1], inputs["observation"][2, 0] = np.nan, np.nan
    together = run(OUTPUTS, inputs)
    for k in range(5):
        alone = run(OUTPUTS, {name: values[k : k + 1] for name, values in inputs.items()})
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], other[k], rtol=1e-12, atol=1e-12)
    assert together[2][2, 0] == inputs["state"][2, 0]
    assert together[3].tolist() == [[0, 0], [0, 0], [1, 0], [0, 0], [0, 0]]


def test_a_pi_controller_agrees_in_a_stream_with_faults(tmp_path: Path) -> None:
    """A velocity form on a lag of the action and of the error, beside a law with an angle in it."""
    error = "0.3 - level"
    laws = Formulas(
        {
            "valve": f"valve_lag1 + kp * ({error} - level_error_lag1) + ki * 0.5 * ({error})",
            "pump": "pump_lag1 / 2 - k * angle",
        },
        {"kp": 0.8, "ki": 0.4, "k": 0.2},
        {"level_error_lag1": ("0", error)},
    )
    data = log().derive(lags=laws.lags(log().schema), formulas=laws.columns)
    law = FormulaPolicy.from_data(
        data.schema, laws.actions, laws.gains, features=data.features, actions=data.actions
    )
    robot = runtime_of(law, data)
    actions, _ = agree_in_a_stream(robot, exported(robot, tmp_path / "plant.onnx"), 1_000)
    assert np.nanstd(actions, axis=0).min() > 0.1
    assert {"valve_lag1", "level_error_lag1"} <= {*robot.columns.states} - {*derived_log().schema.measured}
