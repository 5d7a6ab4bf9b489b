"""Logs without a reward on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from nopg import Transitions
from nopg.cli._app import app
from nopg.data.io import write_parquet


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


@pytest.mark.parametrize("suffix", ["parquet", "csv", "xlsx"])
def test_describe_needs_no_reward_in_any_format(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    columns = {"level": rng.normal(size=30), "valve": rng.normal(size=30)}
    path = tmp_path / f"log.{suffix}"
    frame = pd.DataFrame(columns)
    if suffix == "xlsx":
        frame.to_excel(path, index=False)
    else:
        getattr(frame, f"to_{suffix}")(path, index=False)
    roles = ("--state", "level", "--action", "valve")
    _, out, _ = run("describe", path, *roles)
    assert "no reward is given" in out
    code, _, problem = run("fit", path, *roles, "--discount", "0.9", "-o", tmp_path / "out")
    assert code != 0
    assert "reward" in problem


def test_describe_takes_the_reward_that_a_file_names_itself(tmp_path: Path) -> None:
    levels = np.random.default_rng(0).normal(size=31)
    data = Transitions.from_arrays(levels[:-1], levels[:-1] * 2, levels[:-1], levels[1:])
    write_parquet(data, tmp_path / "own.parquet")
    _, out, _ = run("describe", tmp_path / "own.parquet")
    assert "no reward is given" not in out
