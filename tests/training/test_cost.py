"""Time and memory of an update, each size in a process of its own; minutes, so only in `make check-slow`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def measure_in_a_process(transitions: int, *, updates: int) -> dict[str, float]:
    command = [sys.executable, "-m", "training.update_cost", str(transitions), "--updates", str(updates)]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    measured: dict[str, float] = json.loads(run.stdout)
    return measured


@pytest.mark.slow
def test_an_update_on_ten_thousand_transitions_takes_a_fraction_of_a_second_and_of_a_gigabyte() -> None:
    cost = measure_in_a_process(10_000, updates=50)
    assert cost["seconds_per_update"] <= 0.15
    assert cost["peak_gigabytes"] <= 1.0


@pytest.mark.slow
def test_an_update_on_a_hundred_thousand_transitions_fits_a_gigabyte_and_a_half() -> None:
    assert measure_in_a_process(100_000, updates=2)["peak_gigabytes"] <= 1.5
