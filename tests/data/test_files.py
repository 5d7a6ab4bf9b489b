"""Files: what goes through CSV and Parquet comes out to the bit, with the right ends."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.io_cases import assert_same, grid, walks
from nopg.data.io import read_csv, read_parquet, to_dataframe, write_parquet
from nopg.errors import DataError

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


def test_columns_nobody_asked_for_are_not_read(tmp_path: Path) -> None:
    file, rng = tmp_path / "log.parquet", np.random.default_rng(0)
    pq.write_table(pa.table({name: rng.random(1_000) for name in "xzur"}), file, compression="none")
    stored, unread = bytearray(file.read_bytes()), pq.read_metadata(file).row_group(0).column(1)
    start = unread.dictionary_page_offset or unread.data_page_offset
    stored[start : start + unread.total_compressed_size] = b"\xff" * unread.total_compressed_size
    file.write_bytes(stored)
    assert len(read_parquet(file, states=["x"], actions=["u"], reward="r")) == 999
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_parquet(file, states=["x", "z"], actions=["u"], reward="r")
