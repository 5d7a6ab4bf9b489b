"""Controllers in ONNX: the numbers of torch in a real onnxruntime, the contract, what a failure leaves."""

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from jsonschema import Draft202012Validator

import nopg
from deploy.controller_cases import cases, controller, many_states, torch_answers
from nopg import deploy as runtime
from nopg.deploy import OnnxExport, contract_schema, to_onnx
from nopg.deploy._check import checked_states
from nopg.errors import ArgumentError, ExportError, MissingExtraError
from nopg.policies import LinearPolicy
from nopg.training import TrainingResult

ALL = list(cases())
# Every kind once, with angles and bounds in turn; the others are slow together.
SOME = [
    ("linear", False, True),
    ("diagonal", False, False),
    ("mlp", True, True),
    ("gaussian-linear", True, False),
    ("gaussian-mlp-mean", False, True),
    ("gaussian-mlp", True, False),
    ("formula", True, True),
]
CASES = [case if case in SOME else pytest.param(*case, marks=pytest.mark.slow) for case in ALL]


def session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def answers(path: Path, states: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    found: list[np.ndarray[Any, Any]] = session(path).run(["action", "unknown"], {"observation": states})
    return found


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    return controller("mlp", angles=True, bounds=True)


@pytest.fixture(scope="module")
def exported(result: TrainingResult, tmp_path_factory: pytest.TempPathFactory) -> OnnxExport:
    return to_onnx(result, tmp_path_factory.mktemp("onnx") / "pendulum.onnx")


@pytest.mark.parametrize(("kind", "angles", "bounds"), CASES)
def test_onnxruntime_numpy_and_torch_agree_at_ten_thousand_states(
    kind: str, angles: bool, bounds: bool, tmp_path: Path
) -> None:
    one = controller(kind, angles=angles, bounds=bounds)
    export = to_onnx(one, tmp_path / "one.onnx")
    states = many_states(one)
    actions, unknown = torch_answers(one, states)
    found = answers(export.path, states)
    # A linear policy without bounds has actions of a few thousand.
    assert np.abs(found[0] - actions).max() < 1e-6
    assert np.abs(found[1] - unknown).max() < 1e-6
    robot = runtime.load(one.save(tmp_path / "one", data=False))
    assert np.abs(found[0] - robot(states)).max() < 1e-6
    assert np.abs(found[1] - robot.unknown(states)).max() < 1e-6
    # Far below what was asked; in the units of the check.
    assert export.differences.worst < 1e-9
    assert export.contract["policy"] == kind.removesuffix("-linear").removesuffix("-mlp-mean").replace(
        "diagonal", "linear"
    )


def test_no_number_of_the_graph_was_rounded_to_single_precision(exported: OnnxExport) -> None:
    # The exporter rounds Python numbers; all of ours have to come as tensors.
    numbers = {
        one.name: onnx.numpy_helper.to_array(one) for one in onnx.load(exported.path).graph.initializer
    }
    assert numbers["phases"].tolist() == [np.pi / 2, 0.0, np.pi / 2]
    for name, array in numbers.items():
        assert array.dtype in (np.float64, np.int64, np.bool_), name
        if name.endswith(("places", "radii", "margin")):
            assert not np.array_equal(array, array.astype(np.float32)), name


def test_an_angle_in_degrees_keeps_its_digits_over_many_turns(result: TrainingResult, tmp_path: Path) -> None:
    schema = replace(result.policy.schema, angles={"angle": 360.0})
    one = replace(result, policy=replace(result.policy, schema=schema))
    states = np.array([[36_000.0 * k + 12.3, 0.1] for k in range(50)])
    found = answers(to_onnx(one, tmp_path / "one.onnx").path, states)
    # 2π/360 rounded to float32 would be off by 4e-5 radians after 5000 turns.
    assert np.abs(found[0] - torch_answers(one, states)[0]).max() < 1e-9


def test_single_precision_is_as_near_as_it_says(result: TrainingResult, tmp_path: Path) -> None:
    export = to_onnx(result, tmp_path / "one.onnx", dtype="float32")
    states = many_states(result).astype(np.float32)
    found = answers(export.path, states)
    assert all(array.dtype == np.float32 for array in found)
    actions, unknown = torch_answers(result, states.astype(np.float64))
    assert np.abs(found[0] - actions).max() < 1e-5
    assert np.abs(found[1] - unknown).max() < 1e-4
    assert 1e-9 < export.differences.worst < 1e-3
    # Limits are rounded inward: −0.3 and 0.2 are no numbers of single precision.
    assert found[0].astype(np.float64).min() >= -0.3
    assert found[0].astype(np.float64).max() <= 0.2
    assert export.contract["outputs"][0]["columns"][0]["low"] == found[0].astype(np.float64).min()


def test_large_numbers_in_single_precision_are_measured_not_promised(tmp_path: Path) -> None:
    one = controller("mlp", angles=False, bounds=False)
    export = to_onnx(one, tmp_path / "one.onnx", dtype="float32")
    assert export.contract["check"]["worst"]["unknown"] == export.differences.unknown
    with pytest.raises(ExportError, match="Try dtype='float64'"):
        to_onnx(one, tmp_path / "other.onnx", dtype="float32", tolerance=export.differences.worst / 10)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["one.json", "one.onnx"]


def test_the_batch_may_have_any_size(exported: OnnxExport, result: TrainingResult) -> None:
    one, several = many_states(result, 1), many_states(result, 37)
    assert [array.shape for array in answers(exported.path, one)] == [(1, 1), (1,)]
    found = answers(exported.path, several)
    assert [array.shape for array in found] == [(37, 1), (37,)]
    for k, state in enumerate(several):
        alone = answers(exported.path, state[None])
        assert np.allclose(alone[0], found[0][k], atol=1e-12)
        assert np.allclose(alone[1], found[1][k], rtol=1e-9)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_flagged_in_every_output_and_alone(
    exported: OnnxExport, number: float
) -> None:
    states = np.array([[0.1, 0.0], [number, 0.0], [0.1, number], [0.1, 0.0]])
    action, unknown = answers(exported.path, states)
    assert np.isnan(action[:, 0]).tolist() == [False, True, True, False]
    assert (unknown == 1.0).tolist() == [False, True, True, False]


def test_the_contract_keeps_to_its_schema_and_its_hash_fits(
    exported: OnnxExport, result: TrainingResult
) -> None:
    contract = json.loads(exported.contract_path.read_text())
    schema = contract_schema()
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(contract)
    assert contract == exported.contract
    content = exported.path.read_bytes()
    assert contract["file"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert contract["file"]["bytes"] == len(content)
    assert contract["data"] == result.data_identity
    assert contract["result"]["expected_return"] == result.expected_return
    assert (contract["result"]["interval"], contract["result"]["verdict"]) == (
        None,
        None,
    )  # of the paper's model
    assert contract["check"]["worst"]["states"] == 10_000
    assert contract["check"]["worst"]["action"] == exported.differences.action
    assert contract["versions"]["onnxruntime"] == onnxruntime.__version__
    wrong_parts: list[dict[str, Any]] = [{"format": 4}, {"file": {}}, {"unknown": {"limit": 2.0}}]
    for wrong in wrong_parts:
        assert not Draft202012Validator(schema).is_valid({**contract, **wrong})


def test_the_contract_names_columns_units_periods_and_limits(tmp_path: Path) -> None:
    one = controller("mlp", angles=False, bounds=True)
    contract = to_onnx(one, tmp_path / "levels.onnx").contract
    assert contract["input"]["columns"] == [
        {"name": "upper", "unit": "mm", "period": None, "low": None, "high": None},
        {"name": "lower", "unit": None, "period": None, "low": None, "high": None},
    ]
    feed, drain = contract["outputs"][0]["columns"]
    assert feed == {"name": "feed", "unit": None, "low": -0.3, "high": 0.2}
    assert drain["unit"] == "l/s"
    assert drain["high"] == pytest.approx(4.0, abs=0.1)  # the range of the policy


def test_the_contract_says_what_the_graph_has(exported: OnnxExport) -> None:
    contract, graph = exported.contract, session(exported.path)
    (taken,) = graph.get_inputs()
    assert (taken.name, taken.shape) == (contract["input"]["name"], contract["input"]["shape"])
    assert taken.type == "tensor(double)"
    for given, output in zip(graph.get_outputs(), contract["outputs"], strict=True):
        assert (given.name, given.shape) == (output["name"], output["shape"])
    model = onnx.load(exported.path)
    onnx.checker.check_model(model, full_check=True)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", contract["file"]["opset"])]
    assert contract["input"]["columns"][0]["period"] == pytest.approx(2 * np.pi)


def test_a_file_tells_nothing_of_the_machine_it_was_made_on(exported: OnnxExport) -> None:
    assert str(Path(nopg.__file__).parents[1]).encode() not in exported.path.read_bytes()
    assert b"site-packages" not in exported.path.read_bytes()


def test_exporting_twice_gives_the_same_file_and_says_nothing_on_the_screen(
    exported: OnnxExport, result: TrainingResult, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    again = to_onnx(result, tmp_path / "again.onnx")
    output = capfd.readouterr()
    assert (output.out, output.err) == ("", "")
    assert again.path.read_bytes() == exported.path.read_bytes()
    assert again.differences == exported.differences


def test_a_loaded_result_without_its_data_is_exported_alike(
    exported: OnnxExport, result: TrainingResult, tmp_path: Path
) -> None:
    other = nopg.load(result.save(tmp_path / "bare", data=False))
    export = to_onnx(other, tmp_path / "other.onnx")
    assert export.path.read_bytes() == exported.path.read_bytes()
    assert export.contract["data"] == exported.contract["data"]


def test_nothing_is_overwritten_unless_asked(result: TrainingResult, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text("mine")
    with pytest.raises(ArgumentError, match=r"one.json exists already"):
        to_onnx(result, tmp_path / "one.onnx")
    assert (tmp_path / "one.json").read_text() == "mine"
    export = to_onnx(result, tmp_path / "one.onnx", overwrite=True)
    assert json.loads((tmp_path / "one.json").read_text()) == export.contract
    assert sorted(file.name for file in tmp_path.iterdir()) == ["one.json", "one.onnx"]


class Halved(LinearPolicy):
    """A policy of one's own whose Python number the exporter rounds to single precision."""

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        return 0.1 * super().mode(features)


def test_an_export_that_fails_its_check_is_not_left_behind(result: TrainingResult, tmp_path: Path) -> None:
    policy = Halved([[0.3, -0.2, 0.1]])
    one = replace(result, policy=replace(result.policy, policy=policy))
    with pytest.raises(ExportError, match=r"differs from torch by .*nothing was written"):
        to_onnx(one, tmp_path / "one.onnx", tolerance=1e-12)
    assert not list(tmp_path.iterdir())
    # Its rounding is small enough for the usual tolerance.
    export = to_onnx(one, tmp_path / "one.onnx")
    assert 1e-12 < export.differences.action < 1e-6
    assert export.contract["policy"] == "other"


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("one.json", {}, "ends in .onnx"),
        (".onnx", {}, "ends in .onnx"),
        ("one.onnx", {"dtype": "float16"}, "float64"),
        ("one.onnx", {"tolerance": 0.0}, "positive"),
        ("one.onnx", {"tolerance": float("nan")}, "positive"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    name: str, settings: dict[str, Any], message: str, result: TrainingResult, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=message):
        to_onnx(result, tmp_path / name, **settings)
    assert not list(tmp_path.iterdir())


def test_without_the_extra_it_is_named(
    result: TrainingResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # so that its import fails
    with pytest.raises(MissingExtraError, match=r"pip install 'nopg\[onnx\]'"):
        to_onnx(result, tmp_path / "one.onnx")


@pytest.mark.parametrize("angles", [False, True])
def test_states_are_checked_where_the_data_are_and_where_they_are_not(angles: bool) -> None:
    one = controller("mlp", angles=angles, bounds=False)
    states = checked_states(one, "float64")
    unknown = torch_answers(one, states)[1]
    assert states.shape == (10_000, 2)
    assert 0.2 < (unknown < 0.5).mean() < 0.8
    assert np.array_equal(states, checked_states(one, "float64"))
    single = checked_states(one, "float32")
    assert np.array_equal(single, single.astype(np.float32))


def test_the_words_of_an_export_tell_its_worst_difference(exported: OnnxExport) -> None:
    assert repr(exported).startswith("OnnxExport(pendulum.onnx: float64, as torch to ")
