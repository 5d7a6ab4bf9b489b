"""A saved controller that was changed: a named error or an honest answer, never anything else."""

import json
import os
import random
import struct
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from safetensors.numpy import save

import nopg
from bundles.forge import forge
from nopg import deploy
from nopg.bundles import open_bundle
from nopg.bundles._bundle import FORMAT, KIND, MANIFEST, write_bundle
from nopg.envs import Pendulum, collect_grid
from nopg.errors import BundleError, NopgError, SupportWarning

resource = pytest.importorskip("resource")

ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, 1e308, -0.5, "", "../../etc/passwd", "\x00", [], {}, [[]], "nan", "inf",
    "9" * 5000,
)  # fmt: skip
MODELS: tuple[Literal["local", "paper"], ...] = ("local", "paper")


@pytest.fixture(scope="module", params=MODELS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small result of each model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # fifty rows and one update are doubted
        config = nopg.TrainingConfig(updates=1, start="given", progress=False)
        data = collect_grid(Pendulum(), (5, 5, 2))
        result = nopg.optimize(data, 0.5, model=request.param, config=config)
    return result.save(tmp_path_factory.mktemp("saved") / request.param)


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """Allow one GiB more than the process takes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + 2**30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def bytes_changed(path: Path, target: Path, rng: random.Random) -> None:
    """Flip bits, cut, append, or swap two parts, as a bad disk or an enemy would."""
    content = bytearray(path.read_bytes())
    what = rng.randrange(5)
    if what == 0:
        for _ in range(rng.choice((1, 1, 8, 64))):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif what == 1:
        content = content[: rng.randrange(len(content))]
    elif what == 2:
        content += rng.randbytes(rng.choice((1, 100, 100_000)))
    elif what == 3:
        one, other = rng.randrange(len(content) - 64), rng.randrange(len(content) - 64)
        content[one : one + 64], content[other : other + 64] = (
            content[other : other + 64],
            content[one : one + 64],
        )
    else:
        size = rng.choice((2**63, 2**40, 0, 10))
        content[:8] = struct.pack("<Q", size)
    target.write_bytes(content)


def header_forged(path: Path, target: Path, rng: random.Random) -> None:
    """Let an array claim another shape, type or place."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    name = rng.choice([key for key in header if key != "__metadata__"])
    what = rng.randrange(4)
    if what == 0:
        header[name]["shape"] = rng.choice(([2**62], [2**31, 2**31], [0], [-1], [1] * 40, [], [10**9]))
    elif what == 1:
        header[name]["dtype"] = rng.choice(("F32", "I8", "BOOL", "F16", "BF16", "Q7", "U64", "C64"))
    elif what == 2:
        header[name]["data_offsets"] = rng.choice(([0, 2**40], [-8, 8], [8, 0], [0], "all", [0, 0]))
    else:
        header[name] = rng.choice(ODD_VALUES)
    counted = json.dumps(header).encode()
    target.write_bytes(struct.pack("<Q", len(counted)) + counted + content[8 + length :])


def values_forged(path: Path, target: Path, rng: random.Random) -> None:
    """Put an odd value somewhere into a document, with hashes that fit."""

    def change(documents: dict[str, Any]) -> None:
        at: Any = documents
        while True:
            key = rng.choice(list(at) if isinstance(at, dict) else list(range(len(at))))
            if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.8:
                at = at[key]
                continue
            if isinstance(at, dict) and at is not documents and rng.random() < 0.2:
                del at[key]
            elif at is not documents:
                at[key] = rng.choice(ODD_VALUES)
            return

    forge(path, target, documents=change)


def numbers_forged(path: Path, target: Path, rng: random.Random) -> None:
    """Put other numbers or sizes into arrays, with hashes that fit."""

    def change(groups: dict[str, dict[str, Any]]) -> None:
        arrays = groups[rng.choice(sorted(groups))]
        name = rng.choice(sorted(arrays))
        array = arrays[name]
        what = rng.randrange(5)
        if what == 0 and array.dtype == np.float64 and array.size:
            odd = (np.nan, np.inf, -np.inf, 1e300, -1.0, 0.0, 5e-324)
            array.flat[rng.randrange(array.size)] = rng.choice(odd)
        elif what == 1:
            arrays[name] = array[: len(array) // 2] if array.ndim else array.reshape(1)
        elif what == 2:
            arrays[name] = np.concatenate([array, array]) if array.ndim else array
        elif what == 3:
            with np.errstate(invalid="ignore", over="ignore"):
                arrays[name] = array.astype(rng.choice((np.float32, np.int64, np.int8, np.bool_)))
        else:
            arrays[name] = array[None]

    forge(path, target, arrays=change)


ATTACKS = (bytes_changed, header_forged, values_forged, numbers_forged)


def read_all(path: Path) -> None:
    """Ask for everything: actions of both readers, numbers, and the model built again."""
    states = np.array([[1.0, 2.0], [0.0, 0.0]])
    try:
        robot = deploy.load(path)
    except BundleError:
        with pytest.raises(NopgError):  # what the runtime refuses, training refuses too
            nopg.load(path)
        raise
    actions, unknown = robot(states), robot.unknown(states)
    assert np.isfinite(actions).all()
    assert ((unknown >= 0) & (unknown <= 1)).all()
    result = nopg.load(path)
    assert np.allclose(np.clip(np.asarray(result.policy(states)), robot.low, robot.high), actions, rtol=1e-9)
    _ = result.summary(), result.solution


def attacked(saved: Path, folder: Path, attack: Any, cases: int) -> dict[str, int]:
    counted = {"refused": 0, "loaded": 0}
    for k in range(cases):
        target = folder / f"{attack.__name__}-{k}"
        attack(saved, target, random.Random(f"{attack.__name__} {k}"))
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read_all(target)
            counted["loaded"] += 1
        except NopgError:
            counted["refused"] += 1
        assert time.perf_counter() - began < 10.0
        target.unlink()
    return counted


@pytest.mark.parametrize("attack", ATTACKS)
def test_some_changed_controllers_are_refused_or_tell_the_truth(
    saved: Path, tmp_path: Path, attack: Any
) -> None:
    counted = attacked(saved, tmp_path, attack, 6)
    if attack in (bytes_changed, header_forged):
        assert counted["refused"] >= 4  # bytes that were the same change nothing


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("attack", ATTACKS)
def test_hundreds_of_changed_controllers_are_refused_or_tell_the_truth(
    saved: Path, tmp_path: Path, attack: Any
) -> None:
    assert attacked(saved, tmp_path, attack, 300)["refused"] > 100


def test_a_group_that_was_changed_is_named(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    (tmp_path / "changed").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(BundleError, match="is not what was saved: it was changed or cut"):
        read_all(tmp_path / "changed")
    with pytest.raises(BundleError, match="secrets is not listed"):
        open_bundle(saved).document("secrets")


@pytest.mark.parametrize(
    ("group", "name"),
    [("data", "initial_states"), ("result", "start.states")],
)
def test_states_too_large_to_compute_with_are_refused_though_hashes_fit(
    saved: Path, tmp_path: Path, group: str, name: str
) -> None:
    if name not in open_bundle(saved).arrays(group):
        pytest.skip("of the other model")

    def enlarge(groups: dict[str, dict[str, Any]]) -> None:
        groups[group][name][0, 1] = 1e300

    with pytest.raises(BundleError, match=r"reaches 1e\+300"):
        _ = nopg.load(forge(saved, tmp_path / "forged", arrays=enlarge)).solution


@pytest.mark.parametrize(("discount", "message"), [(1.0, r"it must lie in \[0, 1\)"), (-0.1, r"is -0\.1")])
def test_a_discount_that_cannot_be_is_refused_though_hashes_fit(
    saved: Path, tmp_path: Path, discount: float, message: str
) -> None:
    def change(documents: dict[str, Any]) -> None:
        documents["result"]["answer"]["discount"] = discount

    with pytest.raises(BundleError, match=message):
        nopg.load(forge(saved, tmp_path / "forged", documents=change))


def test_a_newer_format_asks_for_a_newer_nopg(tmp_path: Path) -> None:
    manifest = json.dumps({"format": FORMAT + 1, "kind": KIND, "sha256": {}})
    (tmp_path / "new").write_bytes(save({}, metadata={MANIFEST: manifest}))
    with pytest.raises(BundleError, match="pip install --upgrade nopg"):
        open_bundle(tmp_path / "new")


def fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Path.mkdir, "not a regular file; give a file that save"),
        (
            lambda path: path.write_bytes(b"PK\x03\x04 a zip"),
            "is not a saved controller .* give a file that save",
        ),
        (lambda path: None, "there is no saved controller at .*: it does not exist"),
        (fifo, "not a regular file"),
        (lambda path: path.write_bytes(save({"a": np.zeros(1)})), "is a safetensors file, but no nopg"),
        (lambda path: path.write_bytes(save({}, metadata={MANIFEST: "{}"})), "no nopg controller"),
        (lambda path: path.write_bytes(save({}, metadata={MANIFEST: '{"a":' * 100_000})), "manifest"),
    ],
)
def test_what_is_no_saved_controller_is_refused_in_words(
    tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / "tank")
    with pytest.raises(BundleError, match=message):
        open_bundle(tmp_path / "tank")


def test_numbers_that_json_lacks_are_written_as_text(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "one", documents={"a": {"x": float("inf")}}, arrays={}, about={})
    fields = open_bundle(path).document("a")
    assert fields.number("x", finite=False) == float("inf")
    with pytest.raises(BundleError, match="not a number"):
        fields.number("x")
