"""The same log from every source gives the same transitions to the bit; odd sources are refused by name."""

import re
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.io_cases import assert_same
from nopg.data import Transitions
from nopg.data.io import from_dataframe, from_sql, from_table, read_csv, read_excel, read_parquet
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


def excel(folder: Path) -> Transitions:
    """Write 17 digits, as Excel does; openpyxl writes 16."""
    marked = log()
    for k, name in enumerate(("level", "flow")):
        marked[name] = 1e6 * (k + 1) + np.arange(40)
    marked.to_excel(folder / "marked.xlsx", index=False)
    with zipfile.ZipFile(folder / "marked.xlsx") as old, zipfile.ZipFile(folder / "log.xlsx", "w") as new:
        for member in old.namelist():
            content = old.read(member).decode()
            for k, name in enumerate(("level", "flow")):
                for row, value in enumerate(log()[name]):
                    content = content.replace(f"<v>{1000000 * (k + 1) + row}</v>", f"<v>{value:.17g}</v>")
            new.writestr(member, content)
    return read_excel(folder / "log.xlsx", **ROLES)


def duckdb_file(folder: Path) -> Transitions:
    frame = log()
    with duckdb.connect(str(folder / "log.duckdb")) as database:
        database.register("frame", frame)
        database.execute("CREATE TABLE log AS SELECT * FROM frame")
    return from_sql(QUERY, folder / "log.duckdb", **ROLES)


def duckdb_relation(folder: Path) -> Transitions:
    with duckdb.connect() as database:
        database.register("log", log())
        return from_table(database.sql(QUERY), **ROLES)


def duckdb_connection(folder: Path) -> Transitions:
    with duckdb.connect() as database:
        database.register("log", log())
        return from_sql(QUERY, database, **ROLES)


def sqlite_file(folder: Path) -> Transitions:
    with sqlite3.connect(folder / "log.db") as database:
        log().to_sql("log", database, index=False)
    database.close()
    return from_sql(QUERY, folder / "log.db", **ROLES)


SOURCES: list[Callable[[Path], Transitions]] = [
    csv,
    european_csv,
    parquet,
    parquet_files,
    parquet_text,
    excel,
    duckdb_file,
    duckdb_relation,
    duckdb_connection,
    sqlite_file,
    lambda _: from_table(pl.from_pandas(log()), **ROLES),
    lambda _: from_table(pa.table(log()), **ROLES),
    lambda _: from_table(log(), **ROLES),
    lambda _: from_table(
        pl.from_pandas(log()).with_columns(pl.col("time").dt.strftime("%d.%m.%Y %H:%M")), **ROLES
    ),
]


@pytest.mark.parametrize("read", SOURCES)
def test_the_same_log_gives_the_same_transitions(tmp_path: Path, read: Callable[[Path], Transitions]) -> None:
    expected = from_dataframe(log(), **ROLES)
    assert len(expected) == 20 + 18
    assert_same(read(tmp_path), expected)


def test_decimal_numbers_of_a_database_are_rounded_once() -> None:
    texts = [f"{k * 7919 % 100000 / 10000:.4f}" for k in range(200)]
    rows = ", ".join(f"({k}, {text}, 1, 1)" for k, text in enumerate(texts))
    query = f"SELECT * FROM (VALUES {rows}) AS log(t, level, valve, cost) ORDER BY t"
    data = from_sql(query, duckdb.connect(), states=["level"], actions=["valve"], reward="cost")
    assert data.states[:, 0].tolist() == [float(text) for text in texts[:-1]]


def test_categories_of_polars_are_names_of_episodes() -> None:
    table = pl.from_pandas(log()).with_columns(
        pl.col("run").cast(pl.String).cast(pl.Categorical), pl.lit(None).alias("empty")
    )
    data = from_table(table, **ROLES)
    assert data.episodes is not None
    assert len(data.episodes.unique()) == 3  # the pause ends one


def test_a_table_of_another_kind_is_refused() -> None:
    with pytest.raises(DataError, match=r"LazyFrame.*collect"):
        from_table(pl.from_pandas(log()).lazy(), **ROLES)
    with pytest.raises(DataError, match=r"'level'.*appear twice"):
        from_table(pa.table([[1], [2]], names=["level", "level"]), **ROLES)
    with pytest.raises(DataError, match="there are no rows"):
        from_table(pl.from_pandas(log()).clear(), **ROLES)


# Databases.


def test_a_wrong_query_is_refused_in_one_line(tmp_path: Path) -> None:
    sqlite_file(tmp_path)
    duckdb_file(tmp_path)
    (tmp_path / "text.db").write_text("not a database at all")
    for connection, query, pattern in (
        (tmp_path / "log.db", "SELECT * FROM lag", "query failed .no such table: lag"),
        (tmp_path / "log.duckdb", "SELECT * FROM lag", "query failed .*lag"),
        (tmp_path / "log.db", "SELECT * FROM log WHERE number < 0", "returns no rows"),
        (tmp_path / "log.db", "DROP TABLE log", "query failed .*readonly"),
        (tmp_path / "log.duckdb", "DROP TABLE log", "query failed"),
        (tmp_path / "text.db", "SELECT 1", "text.db cannot be opened as DuckDB or SQLite"),
        (tmp_path / "gone.db", "SELECT 1", "no file .*gone.db"),
        (7, "SELECT 1", "connection is a int"),
    ):
        with pytest.raises(DataError) as caught:
            from_sql(query, connection, **ROLES)
        assert re.search(pattern, str(caught.value)), str(caught.value)
        assert "\n" not in str(caught.value)


# Excel.


def workbook(path: Path, *rows: tuple[Any, ...], sheet: str = "log") -> Path:
    book = openpyxl.Workbook()
    active = book.active
    assert active is not None
    active.title = sheet
    for row in rows:
        active.append(row)
    book.create_sheet("remarks")
    book.save(path)
    return path


FEW: dict[str, Any] = {"states": ["level"], "actions": ["valve"], "reward": "cost"}
NUMBERS = ((1.5, 1, 2), (1.6, 0, 2), (1.7, 1, 2))


def test_a_sheet_may_have_a_preamble_units_and_words(tmp_path: Path) -> None:
    heading = (("Export of May",), (None,), ("level", "valve", "cost", None), ("[m]", "%", "EUR"))
    path = workbook(tmp_path / "log.xlsx", *heading, *NUMBERS, ("Bad", 1, "#DIV/0!"))
    data = read_excel(path, **FEW, sheet="log", missing="drop")
    assert data.states[:, 0].tolist() == [1.5, 1.6]
    assert data.schema.units == {"level": "m", "valve": "%", "reward": "EUR"}
    assert data.repairs.counts["level: missing word 'Bad'"] == 1
    assert data.repairs.counts["cost: missing word '#DIV/0!'"] == 1
    assert data.repairs.notes[0] == "1 rows before the names of the columns are skipped"


@pytest.mark.parametrize(
    ("rows", "arguments", "pattern"),
    [
        ((FEW["states"], *NUMBERS), {}, "no row with names"),
        ((("level", "valve", "cost"),), {}, "no rows after the header"),
        ((("level", "level", "cost"), *NUMBERS), {}, "'level'.*appear twice"),
        (
            (("level", "valve", "cost"), *NUMBERS),
            {"sheet": "lag"},
            "no sheet 'lag'; its sheets are log, remarks",
        ),
        ((("level", "valve", "cost"), *NUMBERS), {"sheet": 5}, "there is no sheet 5"),
        ((("level", "valve", "cost"), *NUMBERS), {"sheet": "remarks"}, "'remarks' is empty"),
        ((("level", "valve", "cost"), *NUMBERS, ("cold", 1, 1)), {}, "'level' holds 'cold' at row 3"),
        ((("level", "valve", "price"), *NUMBERS), {}, "no column 'cost'"),
    ],
)
def test_an_awkward_sheet_is_refused(
    tmp_path: Path, rows: tuple[Any, ...], arguments: dict[str, Any], pattern: str
) -> None:
    with pytest.raises(DataError, match=pattern):
        read_excel(workbook(tmp_path / "log.xlsx", *rows), **FEW, **arguments)


def test_what_is_no_workbook_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.xlsx").write_text("level,valve\n")
    with pytest.raises(DataError, match="no Excel workbook"):
        read_excel(tmp_path / "log.xlsx", **FEW)
