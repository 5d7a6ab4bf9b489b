"""Hostile inputs end in an exit code or an error of nopg: quickly, in little memory, without a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nopg

SCRIPT, TESTS = Path(__file__).parent / "hostile.py", Path(__file__).parents[1]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cases", [16, pytest.param(630, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")
def test_hostile_inputs_end_in_errors_of_ours(cases: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    level, valve = rng.uniform(0.2, 1.5, (40, 1)), rng.uniform(0.0, 1.0, (40, 1))
    reward, after = -((level[:, 0] - 1.0) ** 2), level + 0.1 * valve
    data = nopg.Transitions.from_arrays(
        level, valve, reward, after, state_names=["level"], action_names=["valve"]
    )
    config = nopg.TrainingConfig(updates=1, start="given", progress=False)
    run = nopg.optimize(data, 0.5, config=config).save(tmp_path / "tank")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, str(SCRIPT), str(run), str(cases)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["wrong"] == []
