"""Writes that are interrupted: killed before every change of a name, at any moment, or by a full disk.

Run by the tests in a process of its own, which forks.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bundles.faults import FULL, Fault, fail_at, in_child, limit_files
from nopg.bundles import open_bundle
from nopg.bundles._bundle import write_bundle
from nopg.report import PolicyReport

OLD, NEW = "old", "new"
WORDS = {OLD: 2_000, NEW: 3_000}


@dataclass(frozen=True)
class Write:
    """A write over an older version.

    Attributes:
        version: Writes a version to a folder.
        read: Returns the version that is whole there, None if there is none, and raises if one is torn.
        fresh: Whether nothing is there at first.
    """

    version: Callable[[Path, str], object]
    read: Callable[[Path], str | None]
    fresh: bool = False


def save(path: Path, version: str) -> None:
    arrays = {"a": {"x": np.full(WORDS[version], 1.0)}}
    documents = {"b": {"version": version}}
    write_bundle(path, documents=documents, arrays=arrays, about={"version": version}, overwrite=True)


def saved(path: Path) -> str | None:
    if not path.exists():
        return None
    bundle = open_bundle(path)
    version = bundle.manifest.text("version")
    assert bundle.document("b").text("version") == version
    assert len(bundle.arrays("a")["x"]) == WORDS[version]
    return version


def report(folder: Path, version: str) -> None:
    page: Any = SimpleNamespace(html=f"<p>{version * WORDS[version]}</p>\n", facts={"version": version})
    PolicyReport.save(page, folder / "page.html", overwrite=True)


def reported(folder: Path) -> str | None:
    """Page and facts are each whole; between their two renames they may be of two versions."""
    if not (folder / "page.html").exists():
        return None
    text, facts = (folder / "page.html").read_text(), json.loads((folder / "page.json").read_text())
    version = NEW if NEW in text else OLD
    assert text == f"<p>{version * WORDS[version]}</p>\n"
    assert facts in ({"version": OLD}, {"version": NEW})
    return version


WRITES = {
    "save": Write(lambda f, v: save(f / "tank", v), lambda f: saved(f / "tank"), fresh=True),
    "overwrite": Write(lambda f, v: save(f / "tank", v), lambda f: saved(f / "tank")),
    "report": Write(report, reported),
}


def left(folder: Path) -> list[str]:
    """Return the temporary names in a folder."""
    return [path.name for path in folder.rglob(".*")]


def interrupted(write: Write, fault: Callable[[Path], object], *, seconds: float | None = None) -> int:
    """Write in a child that meets a fault; return its exit code. What is there is whole, and it can go on."""
    with tempfile.TemporaryDirectory() as there:
        folder = Path(there)
        before = None if write.fresh else OLD
        if before:
            write.version(folder, OLD)

        def act() -> None:
            fault(folder)
            write.version(folder, NEW)
            if seconds is not None:  # killed at any moment of many writes
                while True:
                    write.version(folder, OLD)
                    write.version(folder, NEW)

        code = in_child(act, seconds=seconds)
        assert code in {0, FULL, -signal.SIGKILL}, code
        found = write.read(folder)
        assert found in ({before, NEW} if seconds is None else {before, OLD, NEW}), f"lost: {found}"
        if code == 0:
            assert found == NEW
        if code == FULL:
            assert not left(folder), left(folder)
        assert in_child(lambda: write.version(folder, NEW)) == 0
        assert write.read(folder) == NEW
        # What a killed process leaves goes after a day: its number says nothing in another container.
        assert code == -signal.SIGKILL or not left(folder), left(folder)
        return code


def at_every_change(write: Write) -> dict[str, int]:
    """Kill before every change of the folder, and let the disk be full from every one on."""
    faults: tuple[Fault, ...] = ("kill", "full")
    counted: dict[str, int] = {}
    for fault in faults:
        number = 0
        while interrupted(write, partial(fail_at, number=number, fault=fault)):
            number += 1
        counted[fault] = number
    sizes = (0, 1, 50, 500, 1_000, 5_000, 10_000, 20_000)
    ended = [interrupted(write, partial(limit_files, size=size)) for size in sizes]
    counted["full within a file"] = sum(code == FULL for code in ended)
    return counted


def at_any_moment(write: Write, kills: int, rng: random.Random) -> int:
    """Kill at random moments while versions are written again and again; return how many kills."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as there:
        write.version(Path(there), OLD)
    whole = time.perf_counter() - began
    for _ in range(kills):
        interrupted(write, lambda folder: None, seconds=rng.uniform(0.0, 3.0 * whole))
    return kills


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=0, help="at random moments, for each kind of write")
    parser.add_argument("--only", choices=list(WRITES), nargs="*", default=list(WRITES))
    options = parser.parse_args()
    counted = {}
    for name in options.only:
        write = WRITES[name]
        counted[name] = at_every_change(write)
        counted[name]["random kills"] = at_any_moment(write, options.kills, random.Random(name))
    sys.stdout.write(json.dumps(counted) + "\n")


if __name__ == "__main__":
    main()
