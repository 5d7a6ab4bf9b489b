"""Trainings to be killed: every line of standard input asks for one, in a process of its own.

The interpreter starts once and forks, so a life begins with the training and not with imports. The first
and the last life of a training make the same call.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

import nopg
from bundles.faults import FULL, fail_at
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError
from nopg.kernels import Bandwidths
from nopg.training import CSVLogger
from nopg.training._optimize import build_policy

UPDATES, FEW = 60, 12
PAPER = nopg.PaperModel.Config(solver="gmres", bandwidths=Bandwidths.from_values([0.25, 0.25, 0.6], [2.0]))
CASES: dict[str, dict[str, Any]] = {
    "paper": {"model": PAPER, "policy": "gaussian"},
    "brief": {"model": PAPER, "policy": "gaussian"},
    "local": {},
    "portfolio": {},
}


def train(data: Transitions, case: str, folder: Path) -> None:
    """Train, and write down every bit of what came out."""
    config = nopg.TrainingConfig(
        updates=FEW if case == "brief" else UPDATES,
        start="given" if case == "local" else "auto",
        callbacks=[CSVLogger(folder / "log.csv")],
        progress=False,
    )
    saves = nopg.CheckpointConfig(folder / "run", every=1)
    result = nopg.optimize(data, 0.9, **CASES[case], config=config, checkpoint=saves)
    came_out = {
        "parameters": [part.flatten().tolist() for part in result.policy.policy.state_dict().values()],
        "expected_return": result.expected_return,
        "history": [(update.expected_return, update.gradient_norm) for update in result.history],
        "solution": {name: part.tolist() for name, part in result.solution.arrays().items()},
    }
    (folder / "came-out.json").write_text(json.dumps(came_out))


def live(
    data: Transitions, case: str, folder: Path, seconds: float | None, full: int | None
) -> dict[str, object]:
    """Train in a child, killed after some seconds if it still lives; return whether it was.

    `full` is the number of files and folders that the disk has room for.
    """
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            if full is not None:
                fail_at(folder, full, "full")
            train(data, case, folder)
            os._exit(0)
        except ArgumentError as error:  # a folder that cannot be made or locked
            os._exit(FULL if full is not None and "no space" in str(error) else 1)
        except OSError as error:
            os._exit(FULL if error.errno == errno.ENOSPC else 1)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    ended, status = 0, 0
    while not ended and (seconds is None or time.monotonic() - began < seconds):
        time.sleep(1e-3)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, signal.SIGKILL)  # it is not waited for yet, so the number is still its own
        _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return {"killed": killed, "status": status, "seconds": time.monotonic() - began}


def main() -> None:
    torch.set_num_threads(1)
    data = collect_grid(Pendulum(), (6, 6, 2))
    # What is imported on first use would be a second of every life.
    torch.optim.Adam(build_policy("gaussian", data, 0).parameters())
    importlib.import_module("safetensors.torch")
    for line in sys.stdin:
        asked = json.loads(line)
        answer = live(data, asked["case"], Path(asked["folder"]), asked["seconds"], asked.get("full"))
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
