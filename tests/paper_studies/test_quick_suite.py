"""The whole suite, cut short: every experiment runs from data to figure."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from studies.paper import EXPERIMENTS, records_of
from studies.paper.figures import FIGURES


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_whole_suite_runs_in_ten_minutes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "studies.paper", "all", "--quick", "--workers", "2"]
    began = time.monotonic()
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began <= 600
    for name in EXPERIMENTS:
        assert records_of(name, tmp_path, quick=True), name
    for name in FIGURES:
        for ending in ("png", "pdf"):
            assert (tmp_path / "quick" / "figures" / f"{name}.{ending}").exists(), name
