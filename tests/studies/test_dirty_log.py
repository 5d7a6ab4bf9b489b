"""The dirty log: what is hard about it is in it, and the same seed writes the same bytes."""

import csv
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from studies.dirty_log import DELAY, HEADER, write_dirty_log


def rows_of(folder: Path, seed: int = 0, rows: int = 3_000) -> list[dict[str, str]]:
    found = []
    for path in write_dirty_log(folder, rows=rows, seed=seed):
        with path.open(encoding="utf-8", newline="") as stream:
            found += list(csv.DictReader(stream))
    return found


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    one, again, other = (
        [path.read_bytes() for path in write_dirty_log(tmp_path / name, rows=600, seed=seed)]
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert one == again
    assert one != other


def test_the_log_has_gaps_bad_values_a_slow_column_and_no_reward(tmp_path: Path) -> None:
    rows = rows_of(tmp_path)
    assert tuple(rows[0]) == HEADER
    times = [datetime.strptime(row["timestamp"], "%Y-%m-%d %H:%M:%S") for row in rows]
    steps = {(after - before).total_seconds() for before, after in pairwise(times)}
    assert min(steps) == 10
    assert max(steps) > 60
    assert sum(row["temperature"] == "Bad" for row in rows) > 2
    assert 0.1 < sum(row["level"] != "" for row in rows) / len(rows) < 0.25
    assert len({row["setpoint"] for row in rows}) > 20


def test_the_heater_acts_seven_rows_late(tmp_path: Path) -> None:
    rows = [row for row in rows_of(tmp_path, rows=8_000) if row["temperature"] != "Bad"]
    temperature, heater = (np.array([float(row[name]) for row in rows]) for name in ("temperature", "heater"))
    change, noise = np.diff(temperature), heater - np.convolve(heater, np.ones(21) / 21, mode="same")
    known = np.array(
        [np.corrcoef(noise[: -lag - 2], change[lag : len(noise) - 2])[0, 1] for lag in range(15)]
    )
    assert int(known.argmax()) in (DELAY, DELAY + 1)
