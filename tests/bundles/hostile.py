"""Saved controllers as an enemy or a bad disk would leave them; run by the tests in a process of its own."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nopg
from nopg import deploy
from nopg.errors import BundleError, NopgError

MARK = "CODE RAN"
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, 1e308, -0.5, "", "../../etc/passwd", "\x00", [], {}, [[]], "nan", "inf",
    "9" * 5000,
)  # fmt: skip


def flip(folder: Path, rng: random.Random) -> Path:
    path = _member(folder, rng)
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 8, 64))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return _put(folder, path, bytes(content), rng)


def cut(folder: Path, rng: random.Random) -> Path:
    path = _member(folder, rng)
    content = path.read_bytes()
    return _put(folder, path, content[: rng.randrange(len(content))], rng)


def grow(folder: Path, rng: random.Random) -> Path:
    path = _member(folder, rng)
    return _put(folder, path, path.read_bytes() + rng.randbytes(rng.choice((1, 100, 100_000))), rng)


def swap(folder: Path, rng: random.Random) -> Path:
    one, other = _member(folder, rng), _member(folder, rng)
    content = other.read_bytes()
    return _put(folder, one, content, rng)


def drop(folder: Path, rng: random.Random) -> Path:
    _member(folder, rng).unlink()
    return folder


def forge_json(folder: Path, rng: random.Random) -> Path:
    """Put an odd value somewhere into a document, with a hash that fits."""
    path = rng.choice(sorted(folder.glob("*.json")))
    document = json.loads(path.read_text())
    at = document
    while True:
        key = rng.choice(list(at) if isinstance(at, dict) else list(range(len(at))))
        if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.7:
            at = at[key]
            continue
        if isinstance(at, dict) and rng.random() < 0.2:
            del at[key]
        else:
            at[key] = rng.choice(ODD_VALUES)
        break
    return _put(folder, path, json.dumps(document).encode(), rng, forge=True)


def nest_json(folder: Path, rng: random.Random) -> Path:
    path = rng.choice(sorted(folder.glob("*.json")))
    depth = rng.choice((100, 100_000))
    return _put(folder, path, b'{"a":' * depth + b"1" + b"}" * depth, rng, forge=True)


def forge_header(folder: Path, rng: random.Random) -> Path:
    """Let a member of arrays claim other shapes, types, places or sizes, with a hash that fits."""
    path = rng.choice(sorted(folder.glob("*.safetensors")))
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    name = rng.choice([key for key in header if key != "__metadata__"])
    what = rng.randrange(6)
    if what == 0:
        header[name]["shape"] = rng.choice(([2**62], [2**31, 2**31], [0], [-1], [1] * 40, [], [10**9]))
    elif what == 1:
        header[name]["dtype"] = rng.choice(("F32", "I8", "BOOL", "F16", "BF16", "Q7", "U64", "C64"))
    elif what == 2:
        header[name]["data_offsets"] = rng.choice(([0, 2**40], [-8, 8], [8, 0], [0], "all", [0, 0]))
    elif what == 3:
        header["../../x"] = header.pop(name)
    elif what == 4:
        del header[name]
    else:
        header[name] = rng.choice(ODD_VALUES)
    counted = json.dumps(header).encode()
    size = rng.choice((len(counted),) * 4 + (2**63, 2**40, 0))
    return _put(folder, path, struct.pack("<Q", size) + counted + content[8 + length :], rng, forge=True)


def forge_numbers(folder: Path, rng: random.Random) -> Path:
    """Put other numbers or other sizes into arrays, with a hash that fits."""
    from safetensors.numpy import load, save

    path = rng.choice(sorted(folder.glob("*.safetensors")))
    arrays = {name: np.array(array) for name, array in load(path.read_bytes()).items()}
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    what = rng.randrange(5)
    if what == 0 and array.dtype == np.float64 and array.size:
        array.flat[rng.randrange(array.size)] = rng.choice(
            (np.nan, np.inf, -np.inf, 1e300, -1.0, 0.0, 5e-324)
        )
    elif what == 1:
        arrays[name] = array[: len(array) // 2] if array.ndim else array.reshape(1)
    elif what == 2:
        arrays[name] = np.concatenate([array, array]) if array.ndim else array
    elif what == 3:
        arrays[name] = array.astype(rng.choice((np.float32, np.int64, np.int8, np.bool_, np.float64)))
    else:
        arrays[name] = array[None]
    return _put(
        folder, path, save({key: np.ascontiguousarray(one) for key, one in arrays.items()}), rng, forge=True
    )


def link(folder: Path, rng: random.Random) -> Path:
    """Put a link, a pipe or a folder where a member was."""
    path = _member(folder, rng)
    kept = folder.parent / f"kept-{path.name}"
    path.rename(kept)
    what = rng.randrange(4)
    if what == 0:
        path.symlink_to(kept)
    elif what == 1:
        path.symlink_to("/dev/zero")
    elif what == 2:
        os.mkfifo(path)
    else:
        path.mkdir()
    return folder


def zipped(folder: Path, rng: random.Random) -> Path:
    """Pack it in a zip that lies: compressed, doubled, with ways out, or with bytes changed."""
    path = folder.parent / "bundle.zip"
    what = rng.randrange(5)
    kind = zipfile.ZIP_DEFLATED if what == 0 else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", kind) as archive:
        for member in sorted(folder.iterdir()):
            archive.write(member, member.name)
        if what == 1:
            for name in ("../../outside", "/tmp/outside", "policy.pkl"):
                archive.writestr(name, b"cos\nsystem\n(S'echo " + MARK.encode() + b"'\ntR.")
        if what == 2:
            archive.writestr("bomb", b"\0" * 10_000_000, zipfile.ZIP_DEFLATED)
            archive.writestr(f"{'x' * 300}", b"")
    content = bytearray(path.read_bytes())
    if what == 3:
        for _ in range(rng.choice((1, 4, 32))):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    if what == 4:
        content = content[: rng.randrange(len(content))]
    path.write_bytes(bytes(content))
    return path


def reformat(folder: Path, rng: random.Random) -> Path:
    """Write a document in other bytes of the same meaning, with a hash that fits."""
    path = rng.choice(sorted(folder.glob("*.json")))
    document = json.loads(path.read_text())
    keys = list(document)
    rng.shuffle(keys)
    document = {key: document[key] for key in keys}
    text = json.dumps(document, indent=rng.choice((None, 0, 3, "\t")), ensure_ascii=rng.random() < 0.5)
    space = rng.choice((" ", "\n", "\t", "\r\n")) * rng.randrange(5)
    return _put(folder, path, f"{space}{text}{space} ".encode(), rng, forge=True)


ATTACKS: tuple[Callable[[Path, random.Random], Path], ...] = (
    flip, cut, grow, swap, drop, forge_json, forge_json, nest_json, forge_header, forge_header,
    forge_numbers, forge_numbers, link, zipped, zipped, reformat,
)  # fmt: skip
FORGERIES = (
    forge_json,
    forge_json,
    forge_json,
    forge_header,
    forge_numbers,
    forge_numbers,
    nest_json,
    reformat,
)
"""Those that write hashes that fit."""


def _member(folder: Path, rng: random.Random) -> Path:
    return rng.choice(sorted(folder.iterdir()))


def _put(folder: Path, path: Path, content: bytes, rng: random.Random, *, forge: bool | None = None) -> Path:
    """Write a member; half of the time, or always, with a manifest that agrees."""
    path.write_bytes(content)
    if (rng.random() < 0.5 if forge is None else forge) and path.name != "manifest.json":
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["members"][path.name] = {
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def attack(folder: Path, rng: random.Random) -> Path:
    """Change one thing in a saved controller, and return what to load."""
    return rng.choice(ATTACKS)(folder, rng)


@dataclass(frozen=True)
class Answers:
    """What a saved controller says: actions of both runtimes, the promise, and the value of states."""

    actions: list[list[float]]
    promise: tuple[object, ...]
    values: list[float]


def use(path: Path) -> Answers:
    """Load, act, and ask the model; both runtimes must act alike."""
    result = nopg.load(path)
    states = np.linspace(-1.0, 1.0, 2 * len(result.policy.schema.states)).reshape(2, -1)
    actions = np.asarray(result.policy(states))
    repr(result)
    values = result.value(states)
    runtime = deploy.load(path)
    clipped = np.clip(actions, runtime.low, runtime.high)
    if not np.allclose(runtime(states), clipped, rtol=1e-9, atol=1e-9):
        raise AssertionError(f"numpy acts {runtime(states).tolist()}, torch {clipped.tolist()}")
    promise = (result.expected_return, result.unknown_mass, result.interval, result.verdict)
    return Answers(actions.tolist(), promise, np.asarray(values).tolist())


def outcome(path: Path, same: Answers | None) -> str:
    """Return the name of the error, or "loaded"; every other exception is raised.

    Args:
        path: The changed controller.
        same: What it must say, if the change has no meaning.
    """
    try:
        found = use(path)
    except NopgError as error:
        if same is not None:
            raise AssertionError(f"a change without meaning is refused: {error}") from error
        return type(error).__name__ if str(error) else "an error without words"
    if same is not None and found != same:
        raise AssertionError(f"a change without meaning gives {found}, not {same}")
    return "loaded the same" if same is not None else "loaded"


def is_refused(path: Path, key: Path) -> bool:
    """Return whether a signed controller is refused under its key."""
    try:
        deploy.load(path, key=key)
    except BundleError:
        return True
    return False


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forged", type=int, default=0, help="further cases, all with hashes that fit")
    parser.add_argument("--key", type=Path, help="public key: the bundle is signed")
    options = parser.parse_args()

    original, before = contents(options.bundle), use(options.bundle)
    counted: dict[str, int] = {}
    slowest = 0.0
    for case in range(options.cases + options.forged):
        rng = random.Random(f"{options.seed} {case}")
        with tempfile.TemporaryDirectory() as there:
            folder = Path(there) / "bundle"
            shutil.copytree(options.bundle, folder)
            change = rng.choice(ATTACKS if case < options.cases else FORGERIES)
            path = change(folder, rng)
            unchanged = change in {flip, swap} and contents(folder) == original
            began = time.process_time()
            try:
                message = outcome(path, before if change is reformat or unchanged else None)
                if options.key is not None and not unchanged and not is_refused(path, options.key):
                    message = "signed, changed and not refused"
            except Exception as error:
                frame = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(frame.filename).name}:{frame.lineno}"
                words = f"{change.__name__}: {type(error).__name__} in {where}: {error}"
                sys.stderr.write(f"case {case}, {words[:600]}\n")
                message = "an error of another kind"
            slowest = max(slowest, time.process_time() - began)
            counted[message] = counted.get(message, 0) + 1
    sys.stdout.write(json.dumps({"counted": counted, "slowest": slowest, "megabytes": _peak()}) + "\n")


def _peak() -> float:
    """Return the most memory of this process; what getrusage says begins at that of the process before."""
    counted = Path("/proc/self/status").read_text()
    return float(counted.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
