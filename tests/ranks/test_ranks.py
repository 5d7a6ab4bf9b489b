"""Several ranks, started by the real torchrun, against one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nopg.data.io import write_parquet
from nopg.envs import Pendulum, collect_uniform

SCRIPT = Path(__file__).parent / "train.py"
# Sums in another order, over 50 updates.
TOLERANCE = 1e-8


def command(ranks: int, *arguments: str, restarts: int = 0) -> list[str]:
    if ranks == 1:
        return [sys.executable, str(SCRIPT), *arguments]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    # A free port of its own, lest two runs on one machine meet.
    where = ["--master-port", str(20_000 + np.random.default_rng().integers(20_000))]
    return [*launcher, *where, "--max-restarts", str(restarts), str(SCRIPT), *arguments]


def train(folder: Path, ranks: int, *arguments: str) -> list[dict[str, Any]]:
    """Run the script on so many ranks and return what each of them wrote."""
    out = folder / f"on-{ranks}"
    run = subprocess.run(
        command(ranks, str(out), *arguments),
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr[-4_000:]
    return [torch.load(f"{out}.{rank}") for rank in range(ranks)]


def apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return the largest relative distance between the parameters of two runs."""
    pairs = zip(one["parameters"], other["parameters"], strict=True)
    return max(float((a - b).norm() / a.norm()) for a, b in pairs)


@pytest.mark.parametrize(
    ("ranks", "settings"),
    [
        (2, ("--updates", "15")),
        pytest.param(2, (), marks=pytest.mark.slow),
        pytest.param(
            3,
            ("--policy", "gaussian", "--updates", "10"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_several_ranks_train_what_one_trains(tmp_path: Path, ranks: int, settings: tuple[str, ...]) -> None:
    (alone,), together = train(tmp_path, 1, *settings), train(tmp_path, ranks, *settings)
    for rank in together:
        assert apart(alone, rank) < TOLERANCE
        assert rank["return"] == pytest.approx(alone["return"], rel=1e-8)
        assert rank["unknown"] == pytest.approx(alone["unknown"], rel=1e-6)
        assert torch.allclose(rank["value"], alone["value"], rtol=1e-7)
        assert rank["history"] == pytest.approx(alone["history"], rel=1e-8)
        assert rank["proof"][0] < 1e-5
        assert rank["cut"] == pytest.approx(alone["cut"], rel=1e-6)
        assert max(rank["proof"][1:]) < 1e-6

    # Every row is on one rank, with the q and μ that it has on one rank.
    rows = torch.cat([rank["rows"] for rank in together])
    assert sorted(rows.tolist()) == list(range(1_200))
    for name in ("q", "mu"):
        spread, whole = torch.empty(1_200).double(), torch.empty(1_200).double()
        spread[rows] = torch.cat([rank[name] for rank in together])
        whole[alone["rows"]] = alone[name]
        assert float((spread - whole).norm() / whole.norm()) < 1e-7


@pytest.mark.slow
def test_ranks_that_read_parts_of_files_train_what_one_trains_on_all(tmp_path: Path) -> None:
    data, files = collect_uniform(Pendulum(), 1_200, seed=0), tmp_path / "log"
    files.mkdir()
    for number, rows in enumerate(torch.arange(1_200).split(400)):
        write_parquet(data.take(rows), files / f"part-{number}.parquet")
    settings = ("--parquet", str(files), "--updates", "10")
    (alone,), together = train(tmp_path, 1, *settings), train(tmp_path, 2, *settings)
    for rank in together:
        assert apart(alone, rank) < TOLERANCE


@pytest.mark.slow
def test_a_rank_that_is_killed_comes_back_and_the_training_ends_as_without_it(
    tmp_path: Path,
) -> None:
    steady = train(tmp_path, 2, "--checkpoint", str(tmp_path / "steady"), "--updates", "25")

    out, folder = tmp_path / "shaken", tmp_path / "checkpoints"
    arguments = (str(out), "--checkpoint", str(folder), "--updates", "25")
    with subprocess.Popen(
        command(2, *arguments, restarts=1),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as run:
        assert run.stderr is not None
        wait_for(folder, "update-000010", run)
        _kill_a_worker(run.pid)
        message = run.stderr.read()
        assert run.wait(timeout=120) == 0, message[-4_000:]
    assert "another rank is gone or silent" in message
    for rank in range(2):
        assert apart(steady[rank], torch.load(f"{out}.{rank}")) == 0.0


@pytest.mark.slow
def test_ctrl_c_stops_all_ranks_after_the_same_update_and_they_go_on_to_the_last_bit(
    tmp_path: Path,
) -> None:
    updates = ("--updates", "40", "--rows", "400")
    steady = train(tmp_path, 2, *updates)

    # Only the clock of the first rank can say when to write.
    folder = tmp_path / "checkpoints"
    saving = (*updates, "--checkpoint", str(folder), "--every", "1000", "--minutes", "1e-9")
    with subprocess.Popen(
        command(2, str(tmp_path / "stopped"), *saving),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as run:
        assert run.stderr is not None
        wait_for(folder, "update-*[1-9]", run)
        run.send_signal(signal.SIGINT)
        message = run.stderr.read()
        assert run.wait(timeout=120) != 0
    assert message.count(f"checkpoint='{folder}'") >= 2, message[-4_000:]
    [before, last] = sorted(folder.glob("update-*"))
    assert before.name < last.name < "update-000040"

    resumed = train(tmp_path, 2, *saving)
    for rank in range(2):
        assert apart(steady[rank], resumed[rank]) == 0.0
        assert steady[rank]["history"] == resumed[rank]["history"]


def test_a_run_that_loses_a_rank_ends_within_a_minute_and_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    arguments = (str(tmp_path / "out"), "--checkpoint", str(folder), "--updates", "2000")
    with subprocess.Popen(
        command(2, *arguments),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as run:
        assert run.stderr is not None
        wait_for(folder, "update-000010", run)
        killed = time.monotonic()
        _kill_a_worker(run.pid)
        message = run.stderr.read()
        assert run.wait(timeout=60) != 0
    assert time.monotonic() - killed < 60
    assert "another rank is gone or silent" in message
    assert "--max-restarts" in message


def wait_for(folder: Path, name: str, run: subprocess.Popen[str]) -> None:
    for _ in range(3_000):
        if any(folder.glob(name)):
            return
        assert run.poll() is None, "the run ended before its first checkpoint"
        time.sleep(0.02)
    pytest.fail(f"{name} was not written in a minute")


def _kill_a_worker(launcher: int) -> None:
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
