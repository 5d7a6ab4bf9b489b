"""A Ray cluster of two local nodes gives the bytes of the pool, also if a worker is killed in the middle."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nopg.data.io import write_parquet
from nopg.envs import Pendulum, collect_uniform
from nopg.large_logs import LogSummary, summarize

pytest.importorskip("ray")
pytestmark = pytest.mark.slow
_PORT = 6_399


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    command = Path(sys.executable).parent / "ray"
    head = ["start", "--head", f"--port={_PORT}", "--num-cpus=1", "--include-dashboard=false"]
    for arguments in (head, ["start", f"--address=127.0.0.1:{_PORT}", "--num-cpus=1"]):
        subprocess.run([command, *arguments], check=True, capture_output=True)
    os.environ["RAY_ADDRESS"] = f"127.0.0.1:{_PORT}"
    yield
    del os.environ["RAY_ADDRESS"]
    subprocess.run([command, "stop"], check=True, capture_output=True)


def digest(summary: LogSummary) -> str:
    found = hashlib.sha256(summary.sample.starts.numpy().tobytes())
    for whole, local in summary.statistics.blocks:
        sums = [whole.grams, whole.moments, whole.squares]
        sums += [] if local is None else [local.grams, local.moments, local.squares, local.second, local.low]
        for one in sums:
            found.update(one.numpy().tobytes())
    return found.hexdigest()


def kill_a_worker(killed: list[int]) -> None:
    for _ in range(300):
        time.sleep(0.5)
        found = subprocess.run(["pgrep", "-f", "ray::Map"], capture_output=True, text=True, check=False)
        if workers := found.stdout.split():
            time.sleep(2.0)
            os.kill(int(workers[0]), signal.SIGKILL)
            killed.append(int(workers[0]))
            return


@pytest.mark.usefixtures("cluster")
def test_two_nodes_give_the_bytes_of_the_pool_although_a_worker_is_killed(tmp_path: Path) -> None:
    for number in range(4):
        data = collect_uniform(Pendulum(), 100_000, seed=number, num_initial_states=5)
        write_parquet(data, tmp_path / f"{number}.parquet")
    killed = list[int]()
    threading.Thread(target=kill_a_worker, args=(killed,), daemon=True).start()
    there = summarize(tmp_path, workers=2, engine="ray")
    assert killed
    assert digest(there) == digest(summarize(tmp_path, workers=2, progress=False))
