"""Files: what goes through CSV and Parquet comes out to the bit, with the right ends."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.io_cases import assert_same, grid, walks
from nopg.data import Transitions
from nopg.data.io import read_csv, read_parquet, to_dataframe, write_parquet

GRID: dict[str, Any] = {
    "states": ["angle", "speed"],
    "actions": ["torque"],
    "reward": "reward",
    "angles": ["angle"],
    "units": {"speed": "rad/s", "reward": "€"},
    "bounds": {"torque": (-2.0, 2.0)},
    "initial_states": grid().initial_states,
}
WALKS: dict[str, Any] = {"states": ["x", "y"], "actions": ["u"], "reward": "reward"}


# Round trips to the bit.


def test_a_grid_and_walks_come_back_from_parquet_without_a_word(tmp_path: Path) -> None:
    for data in (grid(), walks()):
        write_parquet(data, tmp_path / "data.parquet")
        assert_same(read_parquet(tmp_path / "data.parquet"), data)


def test_a_grid_and_walks_come_back_from_csv(tmp_path: Path) -> None:
    for data, roles in ((grid(), GRID), (walks(), WALKS)):
        to_dataframe(data).to_csv(tmp_path / "data.csv", index=False)
        assert_same(read_csv(tmp_path / "data.csv", **roles), data)


def test_what_the_user_says_wins_over_what_a_parquet_file_says(tmp_path: Path) -> None:
    write_parquet(grid(), tmp_path / "data.parquet")
    data = read_parquet(tmp_path / "data.parquet", angles={}, initial_states=[[1.0, 2.0]])
    assert data.schema.angles == {}
    assert data.starts.tolist() == [[1.0, 2.0]]
    few = read_parquet(tmp_path / "data.parquet", states=["speed"], actions=["torque"], reward="reward")
    assert few.schema.states == ("speed",)
    assert few.initial_states is None


# Ends of episodes, in each format.


def logged(rows: int = 4) -> dict[str, Any]:
    """An episode of rows in D4RL's keys without next states."""
    return {
        "observations": np.arange(10.0, 10.0 + rows)[:, None],
        "actions": np.arange(rows) + 0.5,
        "rewards": np.arange(float(rows)),
    }


def through(kind: str, folder: Path, arrays: dict[str, Any]) -> Transitions:
    """Write arrays in a format and read them again."""
    path = folder / f"log.{kind}"
    table = pa.table({name: np.ravel(values) for name, values in arrays.items()})
    roles: dict[str, Any] = {"states": ["observations"], "actions": ["actions"], "reward": "rewards"}
    if "next_observations" in arrays:
        roles["next_states"] = ["next_observations"]
    if kind == "csv":
        table.to_pandas().to_csv(path, index=False)
        return read_csv(path, **roles)
    pq.write_table(table, path)
    return read_parquet(path, **roles)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_terminated_and_truncated_differ_in_each_format(tmp_path: Path, kind: str) -> None:
    end = np.array([False, False, False, True])

    terminated = through(kind, tmp_path, logged() | {"terminals": end})
    assert len(terminated) == 4
    assert terminated.terminated.tolist() == end.tolist()

    truncated = through(kind, tmp_path, logged(rows=5) | {"timeouts": np.append(~end & False, True)})
    assert len(truncated) == 4
    assert truncated.truncated.tolist() == end.tolist()
    assert not truncated.terminated.any()
    assert truncated.next_states[-1].item() == 14.0

    both = through(kind, tmp_path, logged() | {"terminals": end, "timeouts": end})
    assert both.terminated.tolist() == end.tolist()
    assert not both.truncated.any()

    following = {"next_observations": np.arange(11.0, 15.0)[:, None], "timeouts": end}
    explicit = through(kind, tmp_path, logged() | following)
    assert len(explicit) == 4
    assert explicit.truncated.tolist() == end.tolist()


# Parquet.


def test_a_folder_is_read_file_by_file_and_a_new_file_starts_an_episode(tmp_path: Path) -> None:
    for name, start in (("b", 20.0), ("a", 10.0)):
        table = pa.table({"x": start + np.arange(3), "u": np.zeros(3), "r": np.zeros(3), "n": np.arange(3)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    roles: dict[str, Any] = {"states": ["x"], "actions": ["u"], "reward": "r"}
    data = read_parquet(tmp_path, **roles)
    assert data.states[:, 0].tolist() == [10, 11, 20, 21]
    assert data.truncated.tolist() == [False, True, False, True]
    # An episode column knows better.
    assert len(read_parquet(tmp_path, **roles, episode="n")) == 3


def test_many_batches_and_missing_whole_numbers_are_put_together(tmp_path: Path) -> None:
    rows = 200_000
    ends: list[bool | None] = [None] * (rows - 1) + [True]
    table = pa.table(
        {"x": np.arange(float(rows)), "u": pa.array([None] + [1] * (rows - 1)), "terminated": ends}
    )
    pq.write_table(table.append_column("r", table["x"]), tmp_path / "log.parquet", row_group_size=30_000)
    data = read_parquet(tmp_path / "log.parquet", states=["x"], actions=["u"], reward="r", missing="drop")
    assert len(data) == rows - 1
    assert data.states[-1].item() == rows - 1
    assert data.terminated.nonzero().tolist() == [[rows - 2]]


_LOAD = """
import sys
import nopg
data = nopg.read_parquet(sys.argv[1], states=["c0", "c1"], actions=["c2"], reward="c3")
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(len(data), peak // 1024)
"""


def load_four_of_forty_columns(folder: Path, files: int, rows: int) -> int:
    """Write a folder of forty columns of random numbers, read four; return the peak memory in MiB."""
    rng = np.random.default_rng(0)
    try:
        for file in range(files):
            table = pa.table({f"c{k}": rng.random(rows) for k in range(40)})
            pq.write_table(table, folder / f"{file:03}.parquet", compression="none", use_dictionary=False)
        done = subprocess.run(
            [sys.executable, "-c", _LOAD, str(folder)], capture_output=True, text=True, check=True
        )
    finally:
        for path in folder.iterdir():
            path.unlink()
    count, peak = map(int, done.stdout.split())
    assert count == files * (rows - 1)
    return peak


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")


@needs_proc
def test_columns_nobody_asked_for_are_not_read(tmp_path: Path) -> None:
    # 64 MB of file; torch and pyarrow alone take about 430 MiB.
    assert load_four_of_forty_columns(tmp_path, files=2, rows=100_000) < 520


@needs_proc
@pytest.mark.slow
def test_four_of_forty_columns_of_two_gigabytes_load_within_one(tmp_path: Path) -> None:
    assert load_four_of_forty_columns(tmp_path, files=10, rows=650_000) < 1024
