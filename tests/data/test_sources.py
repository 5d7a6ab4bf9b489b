"""The same log from every source gives the same transitions to the bit; odd sources are refused by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.io_cases import assert_same
from nopg.data import Transitions
from nopg.data.io import from_dataframe, read_csv, read_parquet
from nopg.errors import DataError

ROLES: dict[str, Any] = {
    "states": ["level", "flow"],
    "actions": ["valve"],
    "reward": "cost",
    "time": "time",
    "episode": "run",
}
QUERY = "SELECT * FROM log ORDER BY number"


def log() -> pd.DataFrame:
    """Two runs of awkward floats with a flag and a pause."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": np.arange(40),
            "time": pd.date_range("2024-03-31 00:00", periods=40, freq="10min"),
            "level": rng.normal(size=40) / 3,
            "flow": rng.normal(size=40) * 1e-12,
            "valve": rng.random(40) > 0.5,
            "cost": np.arange(40) % 7,
            "run": np.repeat([3, 8], 20),
            "terminated": np.arange(40) == 19,
        }
    )
    frame.loc[0, ["level", "flow"]] = 0.1 + 0.2, 5e-324
    frame.loc[30:, "time"] += pd.Timedelta("1D")
    return frame


def csv(folder: Path) -> Transitions:
    log().to_csv(folder / "log.csv", index=False, float_format="%.17g")
    return read_csv(folder / "log.csv", **ROLES)


def european_csv(folder: Path) -> Transitions:
    frame = log()
    frame["time"] = frame["time"].dt.strftime("%d.%m.%Y %H:%M")
    frame.to_csv(folder / "log.csv", index=False, sep=";", decimal=",", encoding="utf-16")
    return read_csv(folder / "log.csv", **ROLES)


def parquet(folder: Path) -> Transitions:
    log().to_parquet(folder / "log.parquet")
    return read_parquet(folder / "log.parquet", **ROLES)


def parquet_files(folder: Path) -> Transitions:
    for k, start in ((9, 0), (10, 25)):
        log().iloc[start : 25 + start].to_parquet(folder / f"log-{k}.parquet")
    return read_parquet(str(folder / "log-*.parquet"), **ROLES)


def parquet_text(folder: Path) -> Transitions:
    frame = log()
    frame["time"] = frame["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    pq.write_table(pa.table(frame), folder / "log.parquet")
    return read_parquet(folder / "log.parquet", **ROLES)


def duckdb_relation(folder: Path) -> Transitions:
    with duckdb.connect() as database:
        database.register("log", log())
        return from_dataframe(database.sql(QUERY), **ROLES)


SOURCES: list[Callable[[Path], Transitions]] = [
    csv,
    european_csv,
    parquet,
    parquet_files,
    parquet_text,
    duckdb_relation,
    lambda _: from_dataframe(pl.from_pandas(log()), **ROLES),
    lambda _: from_dataframe(pa.table(log()), **ROLES),
    lambda _: from_dataframe(
        pl.from_pandas(log()).with_columns(pl.col("time").dt.strftime("%d.%m.%Y %H:%M")), **ROLES
    ),
]


@pytest.mark.parametrize("read", SOURCES)
def test_the_same_log_gives_the_same_transitions(tmp_path: Path, read: Callable[[Path], Transitions]) -> None:
    expected = from_dataframe(log(), **ROLES)
    assert len(expected) == 20 + 18
    assert_same(read(tmp_path), expected)


def test_a_table_of_another_kind_is_refused() -> None:
    with pytest.raises(DataError, match=r"LazyFrame.*collect"):
        from_dataframe(pl.from_pandas(log()).lazy(), **ROLES)
    with pytest.raises(DataError, match=r"'level'.*appear twice"):
        from_dataframe(pa.table([[1], [2]], names=["level", "level"]), **ROLES)
    with pytest.raises(DataError, match="there are no rows"):
        from_dataframe(pl.from_pandas(log()).clear(), **ROLES)
