"""A log as a historian exports it, with what makes such logs hard to read: `python -m studies.dirty_log OUT`.

Two files, `log-1.csv` and `log-2.csv`, of the heated tank under a noisy PI controller: time stamps as text,
gaps, values that are `Bad`, a level that is sampled every minute only, a set point that moves, a heater that
acts seven rows late, and no reward. The same seed gives the same files. `--truth RUN` runs a controller that
was trained on them on the true plant, beside the PI controller without its noise.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from nopg import load
from nopg._expressions import Expression
from studies.calibration.plants.laws import Array
from studies.calibration.plants.plant import horizon, random_generator
from studies.logs.heated_tank import HEATED_TANK
from studies.printing import say

__all__ = ["DELAY", "HEADER", "main", "true_returns", "write_dirty_log"]

DELAY = 7
"""Rows after which the heater acts."""
HEADER = ("timestamp", "temperature", "level", "setpoint", "heater")

_BEGIN, _INTERVAL = datetime(2025, 3, 1, 6, 0, 0), timedelta(seconds=10)
_SLOW = 6  # rows between two samples of the level
_BAD = 0.004  # share of bad temperatures
_GAPS, _LONGEST_GAP = 4, 180  # gaps in all, rows of the longest


def write_dirty_log(folder: Path, *, rows: int = 5_000, seed: int = 0) -> tuple[Path, Path]:
    """Write the two files and return their paths.

    Args:
        folder: Where they go; made if it does not exist.
        rows: Number of sampled rows, those that gaps swallow included.
        seed: Seed of everything random.
    """
    rng = random_generator(seed, "dirty log")
    measured, heater = _simulated(rows, rng)
    lines = [_line(k, measured[k], heater[k]) for k in range(rows)]
    for k in np.flatnonzero(rng.random(rows) < _BAD).tolist():
        lines[k][1] = "Bad"
    lost = _lost(rows, rng)
    kept = [line for k, line in enumerate(lines) if not lost[k]]
    folder.mkdir(parents=True, exist_ok=True)
    halves = kept[: len(kept) // 2], kept[len(kept) // 2 :]
    first, second = (folder / f"log-{k}.csv" for k in (1, 2))
    for path, half in zip((first, second), halves, strict=True):
        _write(path, half)
    return first, second


def true_returns(run: Path, *, episodes: int = 50, seed: int = 0) -> dict[str, float]:
    """Return mean discounted returns on the true plant, of a saved controller and of the clean PI controller.

    Episodes begin at rest with a new set point; both controllers meet the same set points and noise.

    Args:
        run: The saved controller, of the columns temperature, setpoint and heater.
        episodes: Number of episodes.
        seed: Seed of starts and noise.
    """
    result = load(run)
    plant, gamma, formula = HEATED_TANK, result.discount, result.policy.schema.reward
    assert formula is not None
    seen = [HEADER[1:].index(name) for name in result.policy.schema.measured]
    reward = Expression(formula)
    found = {}
    for name in ("controller", "clean PI"):
        rng = random_generator(seed, "truth of the dirty log")
        hidden = plant.start(episodes, rng)
        stream, law = result.policy.stream(batch=episodes), plant.references()["clean PI"](episodes, rng)
        last = hidden[:, 3:4]  # at rest
        stream.reset(applied=last)
        waiting, total = [last] * DELAY, np.zeros(episodes)
        for t in range(horizon(gamma)):
            measured = plant.measure(hidden, rng)
            asked = stream.act(measured[:, seen]) if name == "controller" else law(measured)
            action = np.clip(asked, plant.low, plant.high)
            columns = dict(zip(HEADER[1:], (*measured.T, action[:, 0]), strict=True))
            total += gamma**t * reward({**columns, "diff(heater)": (action - last)[:, 0]})
            last = action
            waiting.append(action)
            hidden = plant.advance(hidden, waiting.pop(0), rng)
        found[name] = float(total.mean())
    return found


def _simulated(rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return measured columns (rows, 3) and the heater as it was asked for, shape (rows,)."""
    plant = HEATED_TANK
    hidden = plant.start(1, rng)
    law = plant.behaviour()(1, rng)
    waiting = [np.array([[hidden[0, 3]]])] * DELAY  # the tank starts at rest
    measured, heater = np.empty((rows, 3)), np.empty(rows)
    for k in range(rows):
        seen = plant.measure(hidden, rng)
        waiting.append(law(seen))
        measured[k], heater[k] = seen[0], waiting[-1][0, 0]
        hidden = plant.advance(hidden, waiting.pop(0), rng)
    return measured, heater


def _line(row: int, measured: Array, heater: float) -> list[str]:
    """Return the fields of a row; between two samples the level is empty."""
    temperature, level, set_point = measured.tolist()
    slow = f"{level:.3f}" if row % _SLOW == 0 else ""
    stamp = (_BEGIN + row * _INTERVAL).strftime("%Y-%m-%d %H:%M:%S")
    return [stamp, f"{temperature:.2f}", slow, f"{set_point:.1f}", f"{heater:.3f}"]


def _lost(rows: int, rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which rows lie in a gap, shape (rows,); the first and the last do not."""
    lost = np.zeros(rows, dtype=bool)
    for _ in range(_GAPS):
        length = int(rng.integers(3, min(_LONGEST_GAP, rows // 8)))
        begin = int(rng.integers(1, rows - length - 1))
        lost[begin : begin + length] = True
    return lost


def _write(path: Path, lines: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(lines)


def main() -> None:
    """Write the files that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m studies.dirty_log", description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", default=Path("."), help="folder of the two files")
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--truth", type=Path, metavar="RUN", help="run a saved controller instead")
    given = parser.parse_args()
    if given.truth:
        for name, value in true_returns(given.truth, seed=given.seed).items():
            say(f"{name}: {value:.5g}")
        return
    for path in write_dirty_log(given.out, rows=given.rows, seed=given.seed):
        say(str(path))


if __name__ == "__main__":
    main()
