"""Controllers with a memory in ONNX: numpy, torch and a real onnxruntime on one long stream with faults."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import torch
from jsonschema import Draft202012Validator

from deploy.stream_cases import INTERVAL, derived_log, faulty_stream, log, with_derived
from nopg import TrainingConfig
from nopg import deploy as runtime
from nopg.deploy import OnnxExport, contract_schema, to_onnx
from nopg.deploy import _stream_graph as graphs
from nopg.deploy._graph import Dtype, policy_range
from nopg.errors import ExportError, ObservationError
from nopg.policies import FormulaPolicy, Formulas
from nopg.training import Controller, TrainingResult, optimize

Numbers = npt.NDArray[np.float64]
OUTPUTS = ["action", "unknown", "next_state", "next_age"]


def session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


class OnnxRuntime:
    """A caller of the graph who reads nothing but its contract."""

    def __init__(self, export: OnnxExport) -> None:
        self.run, self.memory = session(export.path).run, export.contract["memory"]
        self.reset()

    def reset(self, applied: Numbers | None = None) -> None:
        widths = {one["name"]: one["shape"][1] for one in self.memory["inputs"]}
        self.state, self.age = np.full((1, widths["state"]), np.nan), np.zeros((1, widths["age"]))
        self.applied = np.full((1, widths["applied"]), np.nan) if applied is None else applied[None]

    def act(self, measured: Numbers, applied: Numbers | None, time: float, last: float) -> Numbers:
        if time - last > self.memory["gap_factor"] * self.memory["interval"]:
            self.reset()
        self.applied = self.applied if applied is None else applied[None]
        values = {"observation": measured[None], "state": self.state, "applied": self.applied}
        found = dict(zip(OUTPUTS, self.run(OUTPUTS, {**values, "age": self.age}), strict=True))
        for name, output in self.memory["feed_back"].items():
            setattr(self, name, found[output])
        self.applied = found["action"]
        action: Numbers = found["action"][0]
        return action


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> OnnxExport:
    return to_onnx(with_derived(), tmp_path_factory.mktemp("streams") / "plant.onnx")


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> runtime.RuntimeController:
    return runtime.load(with_derived().save(tmp_path_factory.mktemp("saved") / "plant", data=False))


def memory_of(stream: runtime.ControllerStream) -> tuple[Numbers, Numbers]:
    memory = stream.state_dict()
    return memory["state"], memory["age"]


def clipped(controller: Controller) -> Controller:
    """Return a controller whose policy stays in its limits, so that torch needs no clipping."""
    found = policy_range(controller.policy)
    assert found is not None
    assert (found[0] >= -1.0).all()
    assert (found[1] <= 1.0).all()
    return controller


def acted(one: runtime.ControllerStream, measured: Numbers, applied: Numbers | None, time: float) -> Numbers:
    """Return the action of a stream, NaN where it refuses to act."""
    try:
        return np.asarray(one.act(measured, applied, time))
    except ObservationError:
        return np.full(2, np.nan)


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_numpy_torch_and_onnxruntime_agree_on_so_many_steps_with_faults(
    exported: OnnxExport, robot: runtime.RuntimeController, count: int
) -> None:
    feed = faulty_stream(count)
    ours, theirs = robot.stream(), OnnxRuntime(exported)
    of_torch = clipped(with_derived().policy).stream()
    rows: dict[str, list[Numbers]] = {"numpy": [], "torch": [], "onnx": []}
    starts: list[tuple[bool, bool]] = []
    last = -np.inf
    for t in range(count):
        measured, time = feed.measured[t], float(feed.times[t])
        override = None if np.isnan(feed.overridden[t]).any() else feed.overridden[t]
        if feed.resets[t]:
            for one in (ours, of_torch, theirs):
                one.reset(override)
        for name, one in (("numpy", ours), ("torch", of_torch)):
            action = acted(one, measured, override, time)
            rows[name].append(np.concatenate([action, *memory_of(one)]))
        action = theirs.act(measured, override, time, -np.inf if feed.resets[t] else last)
        rows["onnx"].append(np.concatenate([action, theirs.state[0], theirs.age[0]]))
        starts.append((bool(ours.states.started), bool(of_torch.states.started)))
        last = time
    found = {name: np.array(values) for name, values in rows.items()}
    worst = {name: np.nanmax(np.abs(found["numpy"] - found[name])) for name in ("torch", "onnx")}
    assert max(worst.values()) <= 1e-12, worst
    assert all(np.array_equal(np.isnan(found["numpy"]), np.isnan(one)) for one in found.values())
    assert all(one == other for one, other in starts)
    # The stream has all of it: values beyond their hold, start-ups, and mostly neither.
    refused, started = int(np.isnan(found["numpy"][:, 0]).sum()), sum(one for one, _ in starts)
    assert refused > count / 50
    assert started > refused + count / 100
    assert count - started > 0.8 * count


def test_the_graph_and_the_step_of_numpy_start_anew_at_the_same_steps(exported: OnnxExport) -> None:
    # At a start-up lags have the present value; elsewhere that would be a coincidence.
    feed, theirs = faulty_stream(2_000, seed=9), OnnxRuntime(exported)
    stream = runtime.StateStream(derived_log().schema)
    at = derived_log().schema.states.index("level_lag2")
    last, found, wanted = -np.inf, [], []
    for t in range(2_000):
        theirs.act(feed.measured[t], np.array([0.1, 0.2]), feed.times[t], last)
        stream.update(feed.measured[t], [0.1, 0.2], feed.times[t])
        state, last = theirs.state[0], feed.times[t]
        if np.isfinite(state).all():
            found.append(state[at] == state[0] and state[-1] == 0.0)
            wanted.append(bool(stream.started))
    assert found == wanted
    assert sum(wanted) > 20


def test_the_contract_of_a_memory_keeps_to_its_schema_and_says_how_to_run_it(exported: OnnxExport) -> None:
    contract = json.loads(exported.contract_path.read_text())
    schema = contract_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    validator.validate(contract)
    memory = contract["memory"]
    assert contract["format"] == 4
    assert [one["name"] for one in contract["input"]["columns"]] == ["level", "angle"]
    assert (memory["hold"], memory["interval"], memory["gap_factor"]) == (
        {"level": 2, "angle": 1},
        INTERVAL,
        5.0,
    )
    schemed = derived_log().schema
    assert {one["name"]: (one["initial"], one["update"]) for one in memory["derived"]} == dict(
        schemed.derived
    )
    assert memory["inputs"][0]["columns"] == list(schemed.states)
    assert {one["name"]: one["period"] for one in memory["derived"]}["angle_lag1"] == pytest.approx(2 * np.pi)
    assert contract["check"]["worst"]["memory"] == exported.differences.memory
    for wrong in (
        {"format": 1},
        {"outputs": contract["outputs"][:3]},
        {"memory": {**memory, "hold": {"a": -1}}},
    ):
        assert not validator.is_valid({**contract, **wrong})
    without = {name: part for name, part in contract.items() if name != "memory"}
    assert not validator.is_valid(without)


def test_the_graph_has_the_tensors_of_its_contract(exported: OnnxExport) -> None:
    contract, graph = exported.contract, session(exported.path)
    inputs = [contract["input"], *contract["memory"]["inputs"]]
    for given, one in zip(graph.get_inputs(), inputs, strict=True):
        assert (given.name, given.shape, given.type) == (one["name"], one["shape"], "tensor(double)")
    for given, one in zip(graph.get_outputs(), contract["outputs"], strict=True):
        assert (given.name, given.shape) == (one["name"], one["shape"])
    model = onnx.load(exported.path)
    onnx.checker.check_model(model, full_check=True)
    for one in model.graph.initializer:
        assert onnx.numpy_helper.to_array(one).dtype in (np.float64, np.int64, np.bool_), one.name


def test_many_plants_run_side_by_side_each_from_its_own_memory(exported: OnnxExport) -> None:
    rng, run = np.random.default_rng(1), session(exported.path).run
    inputs = {
        "observation": rng.normal(size=(5, 2)),
        "state": rng.normal(size=(5, 10)),
        "applied": rng.normal(size=(5, 2)),
        "age": np.zeros((5, 2)),
    }
    inputs["state"][1] = np.nan
    inputs["observation"][2, 0] = np.nan
    inputs["age"][3] = 9.0
    together = run(OUTPUTS, inputs)
    for k in range(5):
        alone = run(OUTPUTS, {name: values[k : k + 1] for name, values in inputs.items()})
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], other[k], rtol=1e-12, atol=1e-12)
    assert together[2][2, 0] == inputs["state"][2, 0]
    assert together[3].tolist() == [[0, 0], [0, 0], [1, 0], [0, 0], [0, 0]]


def test_a_hold_alone_is_a_memory_too(tmp_path: Path) -> None:
    base = optimize(log(), 0.9, model="paper", config=TrainingConfig(updates=1, seed=1, progress=False))
    export = to_onnx(base, tmp_path / "held.onnx")
    assert export.contract["memory"]["derived"] == []
    graph = session(export.path)
    assert [one.name for one in graph.get_inputs()] == ["observation", "state", "applied", "age"]
    theirs, ours = OnnxRuntime(export), runtime.StateStream(log().schema)
    for level in (0.1, np.nan, np.nan, np.nan, 0.2):
        theirs.act(np.array([level, 0.3]), np.zeros(2), 0.0, 0.0)
        assert np.array_equal(theirs.state[0], ours.update([level, 0.3]), equal_nan=True)
    assert theirs.age.tolist() == [[0.0, 0.0]]


def test_single_precision_measures_the_memory_too(tmp_path: Path) -> None:
    export = to_onnx(with_derived(), tmp_path / "one.onnx", dtype="float32")
    assert export.differences.memory is not None
    assert 1e-9 < export.differences.memory < 1e-5
    assert export.differences.worst < 1e-3


def test_a_memory_that_differs_is_found_by_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(graphs.StreamGraph):
        """A graph in which a lag of an action does not begin with the action applied."""

        def __init__(self, result: TrainingResult, dtype: Dtype) -> None:
            super().__init__(result, dtype)
            self.is_lag = torch.zeros_like(self.is_lag)

    monkeypatch.setattr(graphs, "StreamGraph", Forgetful)
    with pytest.raises(ExportError, match=r"memory .*nothing was written"):
        to_onnx(with_derived(), tmp_path / "one.onnx")
    assert not list(tmp_path.iterdir())


def test_a_result_with_derived_columns_is_saved_loaded_and_exported_alike(
    exported: OnnxExport, tmp_path: Path
) -> None:
    import nopg

    other = nopg.load(with_derived().save(tmp_path / "saved", data=False))
    assert to_onnx(other, tmp_path / "other.onnx").path.read_bytes() == exported.path.read_bytes()
    assert replace(other.policy.schema, reward=None).derived == derived_log().schema.derived


def test_a_pi_controller_agrees_in_a_stream_with_faults(tmp_path: Path) -> None:
    """A velocity form on a lag of the action and of the error, beside a law with an angle in it."""
    error = "0.3 - level"
    laws = Formulas(
        {
            "valve": f"valve_lag1 + kp * ({error} - level_error_lag1) + ki * 0.5 * ({error})",
            "pump": "pump_lag1 / 2 - k * angle",
        },
        {"kp": 0.0, "ki": 0.0, "k": 0.0},
        {"level_error_lag1": ("0", error)},
    )
    one = optimize(
        log().starting_at([0.0, 0.0]),
        0.9,
        policy=laws,
        model="paper",
        config=TrainingConfig(updates=1, seed=1, progress=False),
    )
    law = one.policy.policy
    assert isinstance(law, FormulaPolicy)
    law.set_gains(kp=0.8, ki=0.4, k=0.2)
    robot = runtime.load(one.save(tmp_path / "plant", data=False))
    export = to_onnx(one, tmp_path / "plant.onnx")
    assert export.differences.worst <= 1e-12
    feed, ours, theirs = faulty_stream(1_000), robot.stream(), OnnxRuntime(export)
    of_torch, last, found = one.policy.stream(), -np.inf, []
    for t in range(1_000):
        measured, time = feed.measured[t], float(feed.times[t])
        two = [acted(one, measured, None, time) for one in (ours, of_torch)]
        found.append(np.stack([*two, theirs.act(measured, None, time, last)]))
        last = time
    actions = np.array(found)
    assert np.array_equal(np.isnan(actions[:, 0]), np.isnan(actions[:, 2]))
    assert np.nanmax(np.abs(actions - actions[:, :1])) <= 1e-12
    assert np.nanstd(actions[:, 0], axis=0).min() > 0.1
