"""Saved controllers that were changed, as the runtime reads them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nopg
from bundles.forge import forge
from deploy.controller_cases import controller
from nopg import deploy as runtime
from nopg.bundles import open_bundle
from nopg.errors import BundleError, ObservationError

Arrays = dict[str, np.ndarray[Any, Any]]
Change = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    there = tmp_path_factory.mktemp("kinds")
    return {
        kind: controller(kind, angles=True, bounds=True).save(there / kind)
        for kind in ("linear", "mlp", "gaussian-mlp", "formula")
    }


def changed(source: Path, target: Path, change: Callable[[Arrays], object]) -> Path:
    """Return a copy of a controller with other arrays, and hashes that fit."""
    return forge(source, target, arrays=lambda groups: change(groups["controller"]))


CHANGES: dict[str, Change] = {
    "longer": lambda array: np.concatenate([array, array]),
    "another axis": lambda array: array[None],
    "empty": lambda array: array[:0],
    "turned": lambda array: np.concatenate([array.T, array.T], axis=-1),
    "not a number": lambda array: np.full_like(array, np.nan),
    "whole numbers": lambda array: np.ones_like(array, dtype=np.int32),
}


@pytest.mark.parametrize("kind", ["linear", "gaussian-mlp", "formula"])
def test_every_array_of_another_shape_is_refused_by_both_readers(
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    names = sorted(open_bundle(folders[kind]).arrays("controller"))
    tried = 0
    for name in names:
        for what, change in CHANGES.items():
            folder = tmp_path / f"{name} {what}"

            def apply(arrays: Arrays, name: str = name, change: Change = change) -> None:
                arrays[name] = change(arrays[name] if arrays[name].ndim else arrays[name][None])

            changed(folders[kind], folder, apply)
            for reader in (runtime.load, nopg.load):
                with pytest.raises(BundleError):
                    pytest.fail(f"{name} {what}: {reader(folder)}")
            tried += 1
        for what in ("missing", "renamed"):
            folder = changed(
                folders[kind],
                tmp_path / f"{name} {what}",
                lambda arrays, name=name, what=what: arrays.update(  # type: ignore[misc]
                    {"policy.other": arrays.pop(name)} if what == "renamed" else {} | {"": arrays.pop(name)}
                ),
            )
            with pytest.raises(BundleError):
                runtime.load(folder)
    assert tried > 20


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("support.margin", 0.0),
        ("support.margin", np.inf),
        ("support.low", np.nan),
        ("support.charts0.weights", -1.0),
        ("support.charts0.radii", 0.0),
        ("support.charts0.radii", -1.0),
        ("support.charts0.radii", 5e-324),
        ("policy.network.standardizer.std", 0.0),
        ("policy.action_range.radius", 0.0),
        ("policy.action_range.radius", -1.0),
        ("policy.action_range.radius", 1e-300),
    ],
)
def test_numbers_with_which_nobody_could_act_are_refused_by_both_readers(
    name: str, number: float, folders: dict[str, Path], tmp_path: Path
) -> None:
    def apply(arrays: Arrays) -> None:
        arrays[name].flat[0] = number

    folder = changed(folders["mlp"], tmp_path / "one", apply)
    with pytest.raises(BundleError):
        runtime.load(folder)
    with pytest.raises(BundleError):
        nopg.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"policy": {"kind": "oracle"}},
        {"policy": {"kind": ["mlp"]}},
        {"policy": {}},
        {"policy": {"kind": "gaussian", "mean": {}}},
        {"policy": {"kind": "gaussian-mlp"}},
        {"policy": {"kind": "linear"}},
        {"policy": {"kind": "gaussian-mlp", "num_action_samples": "many"}},
        {"support": {"slope": 0.0}},
        {"support": {"slope": "nan"}},
        {"support": {"inside": None}},
        {"support": {"charts": 10**6}},
        {"support": {"fits": 5}},
        {"schema": {"states": ["angle"]}},
        {"schema": {"states": ["angle", "angle"]}},
        {"schema": {"states": []}},
        {"schema": {"actions": ["torque", "brake"]}},
        {"schema": {"angles": {}}},
        {"schema": {"angles": {"angle": 0.0}}},
        {"schema": {"angles": {"angle": 1.0, "velocity": 1.0}}},
        {"schema": {"angles": {"torque": 1.0}}},
        {"schema": {"bounds": {"torque": [1.0, -1.0]}}},
        {"schema": {"bounds": {"torque": [1.0]}}},
        {"schema": {"bounds": {"torque": ["nan", 1.0]}}},
        {"schema": {"bounds": {"torque": [True, 2.0]}}},
        {"schema": {"bounds": {"speed": [0.0, 1.0]}}},
        {"schema": {"units": {"torque": 3}}},
    ],
)
def test_a_document_that_does_not_fit_is_refused_by_both_readers(
    change: dict[str, dict[str, object]], folders: dict[str, Path], tmp_path: Path
) -> None:
    def apply(documents: dict[str, Any]) -> None:
        output = documents["controller"]
        for part, values in change.items():
            output[part] = values if part == "policy" else {**output[part], **values}

    folder = forge(folders["mlp"], tmp_path / "one", documents=apply)
    with pytest.raises(BundleError):
        runtime.load(folder)
    with pytest.raises(BundleError):
        nopg.load(folder)


def test_numbers_at_the_end_of_the_range_are_read_without_a_warning(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    def apply(arrays: Arrays) -> None:
        arrays["policy.action_range.center"][:] = arrays["policy.action_range.radius"][:] = 1.7e308

    def turn(documents: dict[str, Any]) -> None:
        documents["controller"]["schema"]["angles"] = {"angle": 1e-75}

    folder = changed(folders["mlp"], tmp_path / "one", apply)
    forge(folder, folder, documents=turn)
    with pytest.raises(ObservationError, match="no direction"):
        runtime.load(folder)([1.0, 0.0])
