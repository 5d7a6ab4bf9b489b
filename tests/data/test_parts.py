"""Parts of Parquet files: together they are the whole, apart they read nothing of each other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from data.io_cases import PARTS, assert_same, bits, grid, walks
from nopg.data import Transitions
from nopg.data.io import read_parquet, write_parquet
from nopg.data.io._parquet import groups_of, share_of_rows
from nopg.errors import ArgumentError, DataError

ROLES: dict[str, Any] = {"states": ["x"], "actions": ["u"], "reward": "r"}


def log(rows: int, start: float = 0.0, **columns: Any) -> pa.Table:
    """Rows whose state is start, start + 1, …; no next states."""
    k = np.arange(rows)
    return pa.table({"x": start + k, "u": np.sin(k), "r": np.cos(k)} | columns)


def write_folder(folder: Path, data: Transitions, lengths: tuple[int, ...], group: int) -> Path:
    """Write a dataset as files of these lengths in row groups of at most `group` rows."""
    for number, rows in enumerate(torch.arange(len(data)).split(list(lengths))):
        write_parquet(data.take(rows), file := folder / f"{number}.parquet")
        pq.write_table(pq.read_table(file), file, row_group_size=group)
    return folder


def parts_of(path: Path, count: int, **columns: Any) -> list[Transitions]:
    return [read_parquet(path, part=(number, count), **columns) for number in range(count)]


# All parts are the whole.


@pytest.mark.parametrize("count", [1, 2, 3, 7, 49, 50])
def test_the_rows_of_all_parts_are_those_of_the_folder_to_the_bit(tmp_path: Path, count: int) -> None:
    write_folder(tmp_path, grid(), lengths=(1, 20, 4, 25), group=6)
    parts = parts_of(tmp_path, count)
    for name in PARTS:
        joined = torch.cat([getattr(part, name) for part in parts])
        assert torch.equal(bits(joined), bits(getattr(grid(), name))), name
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert all(part.schema == grid().schema for part in parts)
    assert all(torch.equal(part.starts, grid().starts) for part in parts)


def test_marked_starts_come_back_in_parts(tmp_path: Path) -> None:
    data = replace(walks(), begins=torch.arange(12) % 5 == 2)
    write_parquet(data, tmp_path / "data.parquet")
    assert_same(read_parquet(tmp_path / "data.parquet"), data)
    marks = [part.begins for part in parts_of(tmp_path / "data.parquet", 3)]
    assert data.begins is not None
    assert torch.equal(torch.cat([one for one in marks if one is not None]), data.begins)


@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=12), count=st.integers(1, 12))
def test_parts_tile_the_rows_and_ask_for_no_row_group_in_vain(sizes: list[int], count: int) -> None:
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]  # of each row
    if count > len(groups):
        with pytest.raises(DataError):
            share_of_rows(len(groups), (0, count), "log")
        return
    ends = [0]
    for number in range(count):
        first, end = share_of_rows(len(groups), (number, count), "log")
        assert first == ends[-1]
        ends.append(end)
        used = groups_of(np.array(sizes), first, end)
        assert (used.start, used.stop - 1) == (groups[first], groups[end - 1])
    assert ends[-1] == len(groups)


# What is not read.


def spoil(file: Path, group: int) -> None:
    """Overwrite the stored columns of a row group; the footer stays as it is."""
    footer = pq.read_metadata(file).row_group(group)
    stored = bytearray(file.read_bytes())
    for k in range(footer.num_columns):
        column = footer.column(k)
        start = column.dictionary_page_offset or column.data_page_offset
        stored[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    file.write_bytes(stored)


def test_row_groups_of_other_parts_are_not_read(tmp_path: Path) -> None:
    data = grid()
    write_folder(tmp_path, data, lengths=(20, 30), group=10)
    # The third of five parts is the first row group of the second file.
    spoil(tmp_path / "0.parquet", 0)
    spoil(tmp_path / "0.parquet", 1)
    spoil(tmp_path / "1.parquet", 1)
    spoil(tmp_path / "1.parquet", 2)
    part = read_parquet(tmp_path, part=(2, 5))
    assert_same(part, data.take(torch.arange(20, 30)))
    for other in (0, 1, 3, 4):
        with pytest.raises(DataError, match=rf"part {other} of 5 cannot be read as Parquet"):
            read_parquet(tmp_path, part=(other, 5))


# What there is no part of.


@pytest.mark.parametrize("part", [(2, 2), (-1, 2), (0, 0)])
def test_a_part_that_does_not_exist_is_refused(tmp_path: Path, part: tuple[int, int]) -> None:
    pq.write_table(log(3), tmp_path / "log.parquet")
    with pytest.raises(ArgumentError, match="with number from 0"):
        read_parquet(tmp_path / "log.parquet", part=part, **ROLES)


# Episodes.


def episode_numbers(parts: list[Transitions]) -> list[list[int]]:
    return [part.episodes.tolist() for part in parts if part.episodes is not None]


def test_a_cut_and_a_new_file_end_an_episode_and_no_two_parts_part_a_number(tmp_path: Path) -> None:
    for name, start in (("a", 10.0), ("b", 20.0), ("c", 30.0)):
        pq.write_table(log(4, start), tmp_path / f"{name}.parquet")
    first, second = parts_of(tmp_path, 2, **ROLES)
    # Rows 10 … 13, 20, 21 and 22, 23, 30 … 33.
    assert first.states[:, 0].tolist() == [10, 11, 12, 20]
    assert first.truncated.tolist() == [False, False, True, True]
    assert second.states[:, 0].tolist() == [22, 30, 31, 32]
    assert second.next_states[:, 0].tolist() == [23, 31, 32, 33]
    numbers = episode_numbers([first, second])
    assert [len(set(part)) for part in numbers] == [2, 2]
    assert not set(numbers[0]) & set(numbers[1])
