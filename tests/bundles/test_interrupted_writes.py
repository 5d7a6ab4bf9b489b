"""Writes that are killed or meet a full disk: what is under a name is whole, and nothing is lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nopg._files import write_files

HERE = Path(__file__).parent


def counts(script: str, *times: int) -> dict[str, int]:
    """Return what a script counted, which is run in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
    command = [sys.executable, str(HERE / script), *map(str, times)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_killed_trainings_saves_and_reports_are_gone_on_with_and_leave_whole_files() -> None:
    found = counts("killed_training.py", 2)
    assert sum(found.get(stage, 0) for stage in ("training", "saving", "reporting", "ended")) == 8
    assert found["training"] >= 2
    assert found["resumed"] >= 2


def test_a_controller_survives_a_fault_at_every_change() -> None:
    counted = counts("interrupted.py")
    # A file is written under another name, and renamed.
    assert len(counted) == 6
    assert min(counted.values()) >= 1


# Writes a version of its own under one name again and again, and reads what is there after each.
WRITER = """
import sys, threading
from pathlib import Path
from nopg._files import write_files
target, name, times, threads = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def write(number):
    for _ in range(times):
        write_files({target: f"{name}{number}".encode() * 50_000})
        found = target.read_bytes()
        assert len(found) == 100_000 and found == found[:2] * 50_000, found[:20]
every = [threading.Thread(target=write, args=(number,)) for number in range(threads)]
failed = []
threading.excepthook = lambda caught: failed.append(caught.exc_value)
[one.start() for one in every]; [one.join() for one in every]
sys.exit(f"{failed[0]!r}" if failed else 0)
"""


@pytest.mark.parametrize("times", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_containers_and_threads_that_save_to_one_path_leave_a_whole_file(tmp_path: Path, times: int) -> None:
    # In a namespace of its own every process has the same number.
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], check=False).returncode:
        unshare = []
    target = tmp_path / "controller"
    writers = [
        subprocess.Popen(
            [*unshare, sys.executable, "-c", WRITER, str(target), name, str(times), "4"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    for one in writers:
        _, error = one.communicate(timeout=300)
        assert one.returncode == 0, error
    assert [path.name for path in tmp_path.iterdir()] == ["controller"]


def test_of_files_that_belong_together_none_is_replaced_if_one_cannot_be_written(tmp_path: Path) -> None:
    files = {tmp_path / "a": b"new", tmp_path / "folder": b"new"}
    (tmp_path / "a").write_bytes(b"old")
    write_files(files)
    assert {path.read_bytes() for path in files} == {b"new"}
    missing = {tmp_path / "a": b"newer", tmp_path / "a" / "b": b"newer"}
    with pytest.raises(OSError, match="b"):
        write_files(missing)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]
