"""SIGKILL at any moment: what is under a name is whole, and the training ends as if nobody had killed it."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bundles.faults import FULL
from nopg.training._checkpoint_files import complete_folders, read_folder

SCRIPT, TESTS = Path(__file__).parent / "survivor.py", Path(__file__).parents[1]


@dataclass
class Lives:
    """A process that trains in children of its own."""

    process: subprocess.Popen[str]

    def one(
        self, case: str, folder: Path, seconds: float | None, *, full: int | None = None
    ) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        folder.mkdir(exist_ok=True)
        asked = {"case": case, "folder": str(folder), "seconds": seconds, "full": full}
        self.process.stdin.write(f"{json.dumps(asked)}\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        ended = {0} if full is None else {0, FULL}
        assert answer["killed"] or os.waitstatus_to_exitcode(answer["status"]) in ended
        return answer


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    with subprocess.Popen(
        [sys.executable, str(SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
    ) as process:
        yield Lives(process)
        assert process.stdin is not None
        process.stdin.close()


def updates_of(folder: Path) -> list[int]:
    """Return the numbers of the updates in the log of a training."""
    with (folder / "log.csv").open(newline="") as stream:
        return [int(row["number"]) for row in csv.DictReader(stream)]


def kill_until(lives: Lives, folder: Path, case: str, *, kills: int, seed: int) -> dict[str, int]:
    """Kill so many lives at random moments, start again each time, and compare every training that ends."""
    whole = lives.one(case, folder / "steady", None)["seconds"]
    expected = (folder / "steady" / "came-out.json").read_text()
    draw, killed, ended, unfinished, at = random.Random(seed), 0, 0, 0, set[int]()
    shaken = folder / "shaken"
    while killed < kills or shaken.exists():
        # The last training comes to its end; until then a life ends anywhere, or just after its work.
        new = not shaken.exists()
        life = lives.one(case, shaken, draw.uniform(0.0, 1.2 * whole) if killed < kills else None)
        if life["killed"]:
            killed += 1
            complete = complete_folders(shaken / "run")
            for path in complete.values():
                read_folder(path)
            at.add(max(complete, default=-1))
            unfinished += any((shaken / "run").glob(".*-update-*"))
            continue
        ended += 1
        whole = life["seconds"] if new else whole  # the machine may be busier by now, or less
        assert (shaken / "came-out.json").read_text() == expected
        assert updates_of(shaken) == updates_of(folder / "steady")
        shutil.rmtree(shaken)
    return {"kills": killed, "while writing": unfinished, "after updates": len(at), "trainings": ended}


def test_a_training_survives_three_kills(lives: Lives, tmp_path: Path) -> None:
    assert kill_until(lives, tmp_path, "brief", kills=3, seed=0)["kills"] == 3


def fill_until(lives: Lives, folder: Path, case: str, *, rooms: list[int]) -> int:
    """Let the disk be full after so many files, go on with room, and compare; return how often it was."""
    lives.one(case, folder / "steady", None)
    expected, met = (folder / "steady" / "came-out.json").read_text(), 0
    for room in rooms:
        filled = folder / f"room-{room}"
        met += lives.one(case, filled, None, full=room)["status"] != 0
        for path in complete_folders(filled / "run").values():
            read_folder(path)
        lives.one(case, filled, None)
        assert (filled / "came-out.json").read_text() == expected
        assert not list((filled / "run").glob(".*-update-*"))
        shutil.rmtree(filled)
    return met


def test_a_training_goes_on_after_the_disk_was_full(lives: Lives, tmp_path: Path) -> None:
    assert fill_until(lives, tmp_path, "brief", rooms=[1, 9]) == 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_trainings_go_on_wherever_the_disk_was_full(lives: Lives, tmp_path: Path) -> None:
    # An update makes a line of the log, a folder and two files; the first and the last differ.
    rooms = [*range(12), *range(100, 108), *range(230, 246)]
    assert fill_until(lives, tmp_path, "paper", rooms=rooms) > 20


# A hundred in all.
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("case", "kills"), [("paper", 75), ("local", 20), ("portfolio", 5)])
def test_trainings_survive_many_kills(
    lives: Lives, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, kills: int
) -> None:
    counted = kill_until(lives, tmp_path, case, kills=kills, seed=1)
    with capsys.disabled():
        sys.stdout.write(f"\n{case}: {counted}\n")
    assert counted["kills"] == kills
    assert kills < 40 or counted["while writing"] > 0
