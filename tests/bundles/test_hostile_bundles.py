"""A saved controller that was changed: a named error or an honest answer, never anything else."""

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from safetensors.numpy import load, save

import nopg
from nopg import deploy as runtime
from nopg.bundles import new_key_pair, open_bundle, sign_bundle
from nopg.bundles._bundle import FORMAT, MANIFEST
from nopg.bundles._writing import write_bundle
from nopg.envs import Pendulum, collect_grid
from nopg.errors import BundleError, SupportWarning

HOSTILE = Path(__file__).parent / "hostile.py"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two small results, one of each model."""
    data, folder = collect_grid(Pendulum(), (5, 5, 2)), tmp_path_factory.mktemp("bundles")
    saved = []
    models: tuple[Literal["local", "paper"], ...] = ("local", "paper")
    for model in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)  # fifty rows and one update are doubted
            result = nopg.optimize(
                data, 0.5, model=model, config=nopg.TrainingConfig(updates=1, start="given", progress=False)
            )
        saved.append(result.save(folder / model))
    return saved


def attacked(bundle: Path, cases: int, forged: int, key: Path | None) -> dict[str, object]:
    command = [sys.executable, "-W", "error", str(HOSTILE), str(bundle), "--cases", str(cases)]
    command += ["--forged", str(forged), *(() if key is None else ("--key", str(key)))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "CODE RAN" not in done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return {**found, "unforeseen": done.stderr}


def check(bundle: Path, folder: Path, cases: int, forged: int) -> None:
    """Change copies of a controller, which is signed if the package that signs is there."""
    copy, key = Path(shutil.copytree(bundle, folder / bundle.name)), None
    if importlib.util.find_spec("cryptography"):
        private, key = new_key_pair(folder / "key")
        sign_bundle(copy, private)
    found = attacked(copy, cases, forged, key)
    counted = found["counted"]
    assert isinstance(counted, dict)
    assert sum(counted.values()) == cases + forged
    assert set(counted) <= {"BundleError", "DataError", "loaded", "loaded the same"}, found["unforeseen"]
    assert counted["BundleError"] > cases / 2
    assert counted["loaded the same"] > 0
    assert float(str(found["slowest"])) < 5.0
    assert float(str(found["megabytes"])) < 512
    sys.stdout.write(f"{bundle.name}: {found}\n")


@pytest.mark.parametrize(("model", "cases", "forged"), [(0, 10, 5), (1, 30, 10)], ids=["local", "paper"])
def test_some_changed_controllers_are_refused_or_tell_the_truth(
    bundles: list[Path], tmp_path: Path, model: int, cases: int, forged: int
) -> None:
    check(bundles[model], tmp_path, cases, forged)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "cases", "forged"), [(0, 15, 8), (1, 200, 60)], ids=["local", "paper"])
def test_hundreds_of_changed_controllers_are_refused_or_tell_the_truth(
    bundles: list[Path], tmp_path: Path, model: int, cases: int, forged: int
) -> None:
    check(bundles[model], tmp_path, cases, forged)


# 20 000 and 2 000 in all.
@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("model", "cases", "forged"), [(0, 1_000, 200), (1, 19_000, 1_800)], ids=["local", "paper"]
)
def test_thousands_of_changed_controllers_are_refused_or_tell_the_truth(
    bundles: list[Path], tmp_path: Path, model: int, cases: int, forged: int
) -> None:
    check(bundles[model], tmp_path, cases, forged)


def test_a_member_that_was_changed_is_named(bundles: list[Path], tmp_path: Path) -> None:
    bundle = open_bundle(bundles[0])
    path = nopg.load(bundles[0]).save(tmp_path / "changed")
    (path / "controller.json").write_text((path / "controller.json").read_text() + " ")
    with pytest.raises(BundleError, match=r"controller.json is not what was saved"):
        nopg.load(path)
    assert bundle.has("data.safetensors")
    with pytest.raises(BundleError, match=r"secrets.txt is not listed"):
        bundle.document("secrets.txt")


def forged(bundle: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Return a copy with another answer in `result.json`, and hashes that fit."""
    path = Path(shutil.copytree(bundle, folder / "forged"))
    document = json.loads((path / "result.json").read_text())
    change(document["answer"])
    put(path, "result.json", json.dumps(document).encode())
    return path


def put(path: Path, name: str, content: bytes) -> None:
    """Write a member, with hashes that fit."""
    (path / name).write_bytes(content)
    manifest = json.loads((path / MANIFEST).read_text())
    manifest["members"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (path / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("member", "name"),
    [("data", "initial_states"), ("result", "start.states"), ("result", "solution.nodes")],
)
def test_states_too_large_to_compute_with_are_refused_though_hashes_fit(
    bundles: list[Path], tmp_path: Path, member: str, name: str
) -> None:
    path = Path(shutil.copytree(bundles[0], tmp_path / "forged"))
    arrays = load((path / f"{member}.safetensors").read_bytes())
    arrays[name][0, 1] = 1e300
    put(path, f"{member}.safetensors", save(arrays))
    with pytest.raises(BundleError, match=r"reaches 1e\+300"):
        _ = nopg.load(path).solution


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"discount": 1.0}, r"discount is 1\.0; it must lie in \[0, 1\)"),
        ({"discount": -0.1}, r"discount is -0\.1"),
    ],
    ids=str,
)
@pytest.mark.parametrize("model", [0, 1], ids=["local", "paper"])
def test_a_discount_that_cannot_be_is_refused_though_hashes_fit(
    bundles: list[Path], tmp_path: Path, model: int, changes: dict[str, float], message: str
) -> None:
    path = forged(bundles[model], tmp_path, lambda answer: answer.update(changes))
    with pytest.raises(BundleError, match=message):
        nopg.load(path)


def test_arrays_of_types_that_are_never_saved_are_refused(tmp_path: Path) -> None:
    arrays = {"a.safetensors": {"good": np.zeros(2), "odd": np.zeros(2, dtype=np.uint64)}}
    path = write_bundle(tmp_path / "odd", documents={}, arrays=arrays, about={})
    with pytest.raises(BundleError, match=r"a\.safetensors holds odd as uint64"):
        open_bundle(path).arrays("a.safetensors")


def test_a_newer_format_asks_for_a_newer_nopg(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "new", documents={}, arrays={}, about={})
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**manifest, "format": FORMAT + 1}))
    with pytest.raises(BundleError, match="pip install --upgrade nopg"):
        open_bundle(path)


@pytest.mark.parametrize("number", range(2, FORMAT + 1))
def test_a_controller_saved_in_every_format_so_far_still_acts(number: int) -> None:
    """What the folders in `formats` held is written beside them."""
    folder = Path(__file__).parent / "formats" / str(number)
    counted = json.loads((folder / "expected.json").read_text())
    controller = runtime.load(folder / "controller")
    assert controller([1.0, 2.0]).tolist() == pytest.approx(counted["action"], rel=1e-12)


def test_a_result_of_the_first_format_is_refused_with_the_way_out() -> None:
    folder = Path(__file__).parent / "formats" / "1" / "controller"
    with pytest.raises(BundleError, match=r"another measure of what lies outside the data; train again"):
        nopg.load(folder)


def test_numbers_that_json_lacks_are_written_as_text(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "one", documents={"a.json": {"x": float("inf")}}, arrays={}, about={})
    fields = open_bundle(path).document("a.json")
    assert fields.number("x", finite=False) == float("inf")
    with pytest.raises(BundleError, match="not a number"):
        fields.number("x")
