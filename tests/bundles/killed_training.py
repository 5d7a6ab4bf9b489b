"""Trainings with checkpoints, saves and reports that are killed at random times, one after the other.

Run by the tests in a process of its own, which forks: `killed_training.py CHAINS`. In a chain two processes
are killed while they train, one while it saves and one while it reports; each goes on where the one before
was killed. The last process is left alone, and ends as if there had been no other.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

import nopg
from nopg.bundles import open_bundle
from nopg.errors import SupportWarning
from nopg.report import policy_report
from nopg.training import TrainingResult
from nopg.training._checkpoint import Checkpoint

UPDATES = 60
SAVING, REPORTING, ENDED = 201, 202, 203
"""How far a process has come; below them the number of updates."""
WORDS = {SAVING: "saving", REPORTING: "reporting", ENDED: "ended"}


def tank() -> nopg.Transitions:
    """Return 60 rows of a tank under a random valve."""
    rng = np.random.default_rng(0)
    level, valve = rng.uniform(0.2, 1.5, (60, 1)), rng.uniform(0.0, 1.0, (60, 1))
    after = level + 0.3 * valve - 0.15 * np.sqrt(level)
    return nopg.Transitions.from_arrays(level, valve, -((level[:, 0] - 1.0) ** 2), after)


def run(folder: Path, note: Callable[[int], object]) -> TrainingResult:
    """Train with a checkpoint after every update, save and report; say how far it has come."""
    Checkpoint.every = 1
    result = nopg.optimize(
        tank(),
        0.7,
        policy="deterministic",
        config=nopg.TrainingConfig(
            updates=UPDATES,
            start="given",
            progress=False,
            callbacks=[lambda update: bool(note(update.number))],
        ),
        checkpoint=folder / "begun",
    )
    note(SAVING)
    result.save(folder / "tank", overwrite=True)
    note(REPORTING)
    policy_report(result).save(folder / "tank.html", overwrite=True)
    note(ENDED)
    return result


def killed(folder: Path, wanted: int, seconds: float) -> int:
    """Run in a process that is killed some time after it has come so far; return how far it came."""
    reached = mmap.mmap(-1, 1)
    child = os.fork()
    if child == 0:
        try:
            run(folder, lambda number: reached.__setitem__(0, number))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while reached[0] < wanted and not os.waitid(os.P_PID, child, options):
        time.sleep(1e-4)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)  # it is not waited for yet, so the number is still its own
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == (0 if reached[0] == ENDED and code == 0 else -signal.SIGKILL), code
    return int(reached[0])


def check_whole(folder: Path, reference: TrainingResult) -> int:
    """Check that every file under its own name is whole; return the number of updates in the checkpoint."""
    updates = 0
    if (folder / "begun").exists():
        with safe_open(folder / "begun", framework="pt") as file:
            history = json.loads(file.metadata()["state"])["history"]
            assert all(bool(file.get_tensor(name).isfinite().all()) for name in file.keys())  # noqa: SIM118
        updates = len(history)
        assert [row[0] for row in history] == list(range(1, updates + 1))
    if (folder / "tank").exists():
        assert updates == UPDATES
        open_bundle(folder / "tank").arrays("data")
        same_numbers(nopg.load(folder / "tank"), reference)
    if (folder / "tank.html").exists():
        assert (folder / "tank.html").read_text(encoding="utf-8").endswith("</html>")
    if (folder / "tank.json").exists():
        facts = json.loads((folder / "tank.json").read_text(encoding="utf-8"))
        assert abs(facts["policy"]["expected_return"] - reference.expected_return) < 1e-9
    assert not {one.name for one in folder.glob("[!.]*")} - {"begun", "tank", "tank.html", "tank.json"}
    return updates


def same_numbers(one: TrainingResult, other: TrainingResult) -> None:
    mine, theirs = (result.policy.policy.state_dict() for result in (one, other))
    assert all(torch.allclose(part, theirs[name], rtol=1e-9, atol=1e-9) for name, part in mine.items())
    assert abs(one.expected_return - other.expected_return) < 1e-9


def main(chains: int) -> None:
    warnings.simplefilter("ignore", SupportWarning)
    torch.set_num_threads(1)
    rng, counted, times = random.Random(0), Counter[str](), dict[int, float]()
    with tempfile.TemporaryDirectory() as there:
        run(Path(there) / "first", lambda number: None)  # imports everything
        reference = run(Path(there), lambda number: times.update({number: time.monotonic()}))
    lasts = {SAVING: 2.0 * (times[REPORTING] - times[SAVING]), REPORTING: times[ENDED] - times[REPORTING]}
    update = 2.0 * (times[UPDATES] - times[1]) / UPDATES
    for _ in range(chains):
        with tempfile.TemporaryDirectory() as there:
            folder, before = Path(there), 0
            for wanted in (*sorted(rng.sample(range(UPDATES), 2)), SAVING, REPORTING):
                reached = killed(folder, wanted, rng.uniform(0.0, lasts.get(wanted, update)))
                after = check_whole(folder, reference)
                counted[WORDS.get(reached, "training")] += 1
                counted["resumed"] += 0 < before < UPDATES
                counted["left behind"] += bool([*folder.glob(".*")])
                assert after >= before  # no update is lost
                before = after
            same_numbers(run(folder, lambda number: None), reference)
            check_whole(folder, reference)
            assert {"begun", "tank", "tank.html", "tank.json"} <= {one.name for one in folder.iterdir()}
    sys.stdout.write(json.dumps(counted) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
