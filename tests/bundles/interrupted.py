"""A write that is interrupted: killed before every change of a name, or by a full disk.

Run by the tests in a process of its own, which forks.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nopg.bundles import open_bundle
from nopg.bundles._bundle import write_bundle

Fault = Literal["kill", "full"]
FULL = 3
"""Exit code of a child that met a full disk."""
WORDS = {"old": 2_000, "new": 3_000}

_CHANGES = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"}
_NEED_SPACE = {"open", "os.mkdir"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def fail_at(folder: Path, number: int, fault: Fault) -> None:
    """Let this process meet a fault just before a change of a folder, counted from 0, and from there on."""
    counted, place = 0, os.fsencode(folder)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal counted
        if event not in (_CHANGES if fault == "kill" else _NEED_SPACE):
            return
        path = arguments[0]
        if not isinstance(path, (str, bytes)) or not os.fsencode(path).startswith(place):
            return
        if event == "open" and not arguments[2] & _WRITING:
            return
        counted += 1
        if counted <= number:
            return
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, "no space left on this device, by the test")

    sys.addaudithook(hook)


def limit_files(folder: Path, size: int) -> None:
    """Let no file of this process grow beyond a size, wherever it is: a write that would stops there."""
    del folder
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def in_child(action: Callable[[], object]) -> int:
    """Run in a child; return its exit code, or minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        try:
            action()
            os._exit(0)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EFBIG}:
                os._exit(FULL)
            traceback.print_exc()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def save(path: Path, version: str) -> None:
    arrays = {"a": {"x": np.full(WORDS[version], 1.0)}}
    documents = {"b": {"version": version}}
    write_bundle(path, documents=documents, arrays=arrays, about={"version": version}, overwrite=True)


def saved(path: Path) -> str | None:
    """Return the version that is whole there, None if there is none; a torn one raises."""
    if not path.exists():
        return None
    bundle = open_bundle(path)
    version = bundle.manifest.text("version")
    assert bundle.document("b").text("version") == version
    assert len(bundle.arrays("a")["x"]) == WORDS[version]
    return version


def interrupted(before: str | None, fault: Callable[[Path], object]) -> int:
    """Write in a child that meets a fault; return its exit code. What is there is whole, and it can go on."""
    with tempfile.TemporaryDirectory() as there:
        path = Path(there) / "tank"
        if before:
            save(path, before)

        def act() -> None:
            fault(path.parent)
            save(path, "new")

        code = in_child(act)
        assert code in {0, FULL, -signal.SIGKILL}, code
        assert (found := saved(path)) in {before, "new"}, f"lost: {found}"
        assert found == "new" or code != 0
        assert code != FULL or not [*path.parent.glob(".*")]
        assert in_child(lambda: save(path, "new")) == 0
        assert saved(path) == "new"
        return code


def main() -> None:
    counted: dict[str, int] = {}
    for before in (None, "old"):
        faults: tuple[Fault, ...] = ("kill", "full")
        for fault in faults:
            number = 0
            while interrupted(before, partial(fail_at, number=number, fault=fault)):
                number += 1
            counted[f"{fault}, {before}"] = number
        sizes = (0, 1, 50, 500, 1_000, 5_000, 10_000, 20_000)
        ended = [interrupted(before, partial(limit_files, size=size)) for size in sizes]
        counted[f"full within a file, {before}"] = sum(code == FULL for code in ended)
    sys.stdout.write(json.dumps(counted) + "\n")


if __name__ == "__main__":
    main()
