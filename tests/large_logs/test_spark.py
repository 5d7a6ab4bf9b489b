"""The recipe for Spark, in local mode, gives the sums of the pool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nopg.data.io import write_parquet
from nopg.envs import Pendulum, collect_uniform
from nopg.large_logs import load_summary, summarize

pytest.importorskip("pyspark")
pytestmark = pytest.mark.slow
RECIPE = Path(__file__).parents[2] / "examples" / "summarize_on_spark.py"


def test_spark_gives_the_bytes_of_the_pool(tmp_path: Path) -> None:
    for number in range(2):
        data = collect_uniform(Pendulum(), 2_000, seed=number, num_initial_states=5)
        write_parquet(data, tmp_path / f"{number}.parquet")
    local = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    subprocess.run([sys.executable, RECIPE, tmp_path, tmp_path / "out"], check=True, env=local, timeout=600)
    there = load_summary(tmp_path / "out").statistics.arrays()
    here = summarize(sorted(tmp_path.glob("*.parquet")), workers=2, progress=False).statistics.arrays()
    assert all(torch.equal(there[name], here[name]) for name in here)
