"""Writes that are killed or meet a full disk: what is under a name is whole, and nothing is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nopg._files import write_files

SCRIPT = Path(__file__).parent / "interrupted.py"


def interrupted(*arguments: str) -> dict[str, dict[str, int]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SCRIPT.parents[1]), *sys.path])}
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


def test_a_controller_that_is_replaced_survives_a_fault_at_every_change() -> None:
    (counted,) = interrupted("--only", "overwrite", "--kills", "2").values()
    # A file is written under another name, and renamed.
    assert counted["kill"] >= 2
    assert counted["full"] >= 1
    assert counted["full within a file"] > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_kind_of_write_survives_a_fault_at_every_change_and_many_kills(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counted = interrupted("--kills", "40")
    with capsys.disabled():
        sys.stdout.write(f"\n{counted}\n")
    assert sum(one["kill"] + one.get("random kills", 0) for one in counted.values()) >= 120


def ended_process() -> int:
    """Return the number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_what_a_dead_process_left_is_removed_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    dead, alive = (tmp_path / f".tank.{pid}.unfinished" for pid in (ended_process(), os.getppid()))
    other = tmp_path / f".tank-2.{ended_process()}.unfinished"
    for path in (dead, alive, other):
        path.touch()
    write_files({tmp_path / "tank": b"new"})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["tank", alive.name, other.name])


def test_of_files_that_belong_together_none_is_replaced_if_one_cannot_be_written(tmp_path: Path) -> None:
    files = {tmp_path / "a": b"new", tmp_path / "folder": b"new"}
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / f".folder.{os.getpid()}.unfinished").mkdir()
    (tmp_path / f".folder.{os.getpid()}.unfinished").joinpath("in the way").touch()
    write_files(files)
    assert {path.read_bytes() for path in files} == {b"new"}
    missing = {tmp_path / "a": b"newer", tmp_path / "a" / "b": b"newer"}
    with pytest.raises(OSError, match="b"):
        write_files(missing)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]
