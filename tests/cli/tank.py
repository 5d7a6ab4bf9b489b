"""A tank whose level should be 1, its logs, and the command as a user types it."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from nopg.cli._app import app

GAMMA = 0.9
Law = Callable[[float, np.random.Generator], float]


def clumsy(level: float, rng: np.random.Generator) -> float:
    return 0.35 + 0.3 * (1.2 - level) + 0.1 * rng.standard_normal()


def write_log(
    path: Path,
    law: Law = clumsy,
    *,
    runs: int = 8,
    steps: int = 40,
    seed: int = 0,
    separator: str = ",",
    interval: float = 1.0,
) -> Path:
    """Write a log with the columns run, t, level, valve, cost."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as stream:
        table = csv.writer(stream, delimiter=separator)
        table.writerow(["run", "t", "level", "valve", "cost"])
        for number in range(runs):
            level = rng.uniform(0.5, 1.5)
            for t in range(steps):
                valve = min(max(law(level, rng), 0.0), 1.0)
                cost = (level - 1) ** 2 + 0.05 * (valve - 0.35) ** 2
                table.writerow([number, t * interval, repr(level), repr(valve), repr(cost)])
                level += 0.3 * (valve - 0.35 * math.sqrt(level)) + 0.002 * rng.standard_normal()
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    """Return the exit code, the output, and the messages as one line."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def answer(*arguments: object) -> dict[str, Any]:
    """Return what a command prints with --json."""
    code, out, messages = run(*arguments, "--json")
    assert code == 0, messages
    found: dict[str, Any] = json.loads(out)
    return found
