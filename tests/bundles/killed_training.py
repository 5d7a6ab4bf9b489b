"""Trainings with checkpoints, saves and reports that are killed at random times, one after the other.

Run by the tests in a process of its own, which forks: `killed_training.py KILLS`. Each process goes on where
the one before was killed.
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
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

import nopg
from nopg.bundles import open_bundle
from nopg.errors import SupportWarning
from nopg.report import policy_report
from nopg.training import CheckpointConfig, TrainingResult

STAGES = ("training", "saving", "reporting", "ended")
UPDATES = 60


def tank() -> nopg.Transitions:
    """Return 60 rows of a tank under a random valve."""
    rng = np.random.default_rng(0)
    level, valve = rng.uniform(0.2, 1.5, (60, 1)), rng.uniform(0.0, 1.0, (60, 1))
    after = level + 0.3 * valve - 0.15 * np.sqrt(level)
    return nopg.Transitions.from_arrays(level, valve, -((level[:, 0] - 1.0) ** 2), after)


def run(folder: Path, begin: Callable[[str], object]) -> TrainingResult:
    """Train with a checkpoint after every update, save and report; say which stage begins."""
    begin("training")
    config = nopg.TrainingConfig(updates=UPDATES, start="given", progress=False)
    result = nopg.optimize(
        tank(),
        0.7,
        policy="deterministic",
        config=config,
        checkpoint=CheckpointConfig(folder / "begun", every=1),
    )
    begin("saving")
    result.save(folder / "tank", overwrite=True)
    begin("reporting")
    policy_report(result).save(folder / "tank.html", overwrite=True)
    begin("ended")
    return result


def killed(folder: Path, stage: mmap.mmap, wanted: str, seconds: float) -> str:
    """Run in a process that is killed so many seconds after a stage began; return the stage it was in."""
    stage[0] = 0
    child = os.fork()
    if child == 0:
        try:
            run(folder, lambda name: stage.__setitem__(0, STAGES.index(name)))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    while stage[0] < STAGES.index(wanted) and not os.waitid(
        os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT
    ):
        time.sleep(1e-4)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)  # it is not waited for yet, so the number is still its own
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {0, -signal.SIGKILL}, code
    return STAGES[stage[0]]


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
        bundle = open_bundle(folder / "tank")
        for group in ("controller", "result", "data"):
            bundle.arrays(group)
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


def main(kills: int) -> None:
    """Kill so many processes; each chain of them ends in a run that is not killed, as if none had been."""
    warnings.simplefilter("ignore", SupportWarning)
    torch.set_num_threads(1)
    rng, stage, counted = random.Random(0), mmap.mmap(-1, 1), Counter[str]()
    with tempfile.TemporaryDirectory() as there:
        run(Path(there) / "first", lambda name: None)  # imports everything
        times = dict[str, float]()
        reference = run(Path(there), lambda name: times.update({name: time.monotonic()}))
        lasted = {one: times[after] - times[one] for one, after in pairwise(STAGES)}
    while sum(counted[name] for name in STAGES[:3]) < kills:
        with tempfile.TemporaryDirectory() as there:
            folder, before, ended = Path(there), 0, False
            while not ended:
                wanted = rng.choice(STAGES[:3])
                where = killed(folder, stage, wanted, rng.uniform(0.0, lasted[wanted]))
                counted[where] += 1
                after = check_whole(folder, reference)
                counted["resumed"] += 0 < before < UPDATES and where != "ended"
                assert after >= before  # no update is lost
                before, ended = after, where == "ended"
            same_numbers(nopg.load(folder / "tank"), reference)
            assert (folder / "tank.html").exists()
    sys.stdout.write(json.dumps(counted) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
