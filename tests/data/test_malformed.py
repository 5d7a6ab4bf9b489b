"""Malformed tables and files: each is refused by an error that says where and what to do."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

from nopg.data.io import from_dataframe, read_minari, read_parquet
from nopg.errors import DataError

ROLES: dict[str, Any] = {"states": ["x"], "actions": ["u"], "reward": "r"}


def refused(read: Callable[[], Any], *patterns: str) -> None:
    """The call raises a DataError that holds every pattern."""
    with pytest.raises(DataError) as caught:
        read()
    for pattern in patterns:
        assert re.search(pattern, str(caught.value)), (pattern, str(caught.value))


# Tables.


def test_a_table_of_objects_is_refused() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "u": [[1], [2]], "r": [0.0, 0.0]})
    refused(lambda: from_dataframe(frame, **ROLES), r"column 'u' holds \[1\] at row 0")
    frame = pd.DataFrame({"x": [1j, 2j], "u": [1.0, 2.0], "r": [0.0, 0.0]})
    refused(lambda: from_dataframe(frame, **ROLES), "column 'x' holds complex128")
    refused(lambda: from_dataframe(frame[["x"]], **ROLES), "no column 'u'")
    refused(lambda: from_dataframe({"x": [1.0]}, **ROLES), "give a table of pandas")


def test_a_table_whose_every_row_is_faulty_is_refused_even_when_they_may_be_dropped() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "u": [1.0, np.nan], "r": [np.nan, 2.0], "next_x": [0.0, 0.0]})
    refused(lambda: from_dataframe(frame, **ROLES, missing="drop"), "nothing is left")


# Parquet.


def write_parquet(path: Path, rows: int = 12_345, **columns: Any) -> bytes:
    table = pa.table({name: np.ones(rows) for name in ("x", "u", "r")} | columns)
    pq.write_table(table, path, write_statistics=False, compression="none")
    return path.read_bytes()


def test_damaged_parquet_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    content = write_parquet(path)
    for damaged in (content[: len(content) // 2], content[:-4] + b"ABCD", b"PAR1", b"x,u,r\n1,2,3\n"):
        path.write_bytes(damaged)
        refused(lambda: read_parquet(path, **ROLES), "cut.parquet", "Parquet", "write it again")


def test_parquet_files_with_other_contents_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.parquet"
    write_parquet(path, rows=2, u=["1", "open"])
    refused(lambda: read_parquet(path, **ROLES), "odd.parquet", "'u' holds 'open' at row 1")
    write_parquet(path, rows=2, u=[[1.0], [2.0]])
    refused(lambda: read_parquet(path, **ROLES), "column 'u' holds list", "one number per row")
    write_parquet(path, rows=0)
    refused(lambda: read_parquet(path, **ROLES), "no rows")
    write_parquet(path, rows=2)
    refused(lambda: read_parquet(path), "states is None; give the names")


def test_a_folder_of_unequal_parquet_files_is_refused_by_the_file(tmp_path: Path) -> None:
    write_parquet(tmp_path / "1.parquet", rows=2)
    pq.write_table(pa.table({"x": [1.0], "r": [1.0]}), tmp_path / "2.parquet")
    refused(lambda: read_parquet(tmp_path, **ROLES), r"2\.parquet: there is no column 'u'")
    (empty := tmp_path / "empty").mkdir()
    refused(lambda: read_parquet(empty, **ROLES), "empty")


def test_a_damaged_description_in_a_parquet_file_is_refused(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"states": 3}', json.dumps({"states": ["x"], "actions": ["u"], "angles": 1})):
        table = pa.table({name: [1.0, 2.0] for name in ("x", "u", "reward")})
        pq.write_table(table.replace_schema_metadata({"nopg": text}), tmp_path / "odd.parquet")
        refused(lambda: read_parquet(tmp_path / "odd.parquet"), "odd.parquet", "name the columns")


# Minari.


def test_damaged_minari_datasets_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    rows, box = np.zeros((51, 1)), spaces.Box(-1.0, 1.0, (1,), np.float64)
    ends = np.arange(50) == 49
    buffer = EpisodeBuffer(
        observations=rows, actions=rows[1:], rewards=np.zeros(50), terminations=ends, truncations=ends & False
    )
    with pytest.warns(UserWarning, match="is set to None|env_spec is None"):
        minari.create_dataset_from_buffers("plant/grid-v0", [buffer], observation_space=box, action_space=box)
    folder = tmp_path / "plant" / "grid-v0" / "data"
    data, metadata = folder / "main_data.hdf5", folder / "metadata.json"
    whole = metadata.read_text()

    for text in ("", "{", whole.replace('"total_episodes": 1', '"total_episodes": 60')):
        metadata.write_text(text)
        refused(lambda: read_minari("plant/grid-v0"), "plant/grid-v0", "write it again|60")
    metadata.write_text(whole)
    data.write_bytes(data.read_bytes()[:1000])
    refused(lambda: read_minari("plant/grid-v0"), "plant/grid-v0", "write it again")
    refused(lambda: read_minari(3), "dataset is a int")  # type: ignore[arg-type]
