"""DATA of the commands: several files, globs, folders, databases and workbooks, with words and formats."""

import json
import math
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from nopg.cli._app import app

COLUMNS = ["--state", "level", "--action", "valve", "--cost", "(level - 1)**2"]


def log(start: int = 0) -> pd.DataFrame:
    rows = range(start, start + 40)
    return pd.DataFrame(
        {
            "time": [f"{1 + k // 24:02}/04/2024 {k % 24:02}:00" for k in rows],
            "level": [round(1 + math.sin(0.3 * k), 3) for k in rows],
            "valve": [round(math.cos(0.7 * k), 3) for k in rows],
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in (9, 10):
        log(number).to_csv(tmp_path / f"log-{number}.csv", sep=";", decimal=",", index=False)
    return tmp_path


def run(*arguments: object) -> "tuple[int, str, str]":
    result = CliRunner().invoke(app, ["describe", *map(str, arguments)])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def rows(*arguments: object) -> int:
    code, out, errors = run(*arguments, *COLUMNS, "--json")
    assert code == 0, errors
    return int(json.loads(out)["rows"])


def test_several_files_a_glob_and_a_folder_are_one_log(folder: Path) -> None:
    assert rows(folder / "log-9.csv", folder / "log-10.csv") == 78
    assert rows(folder / "log-*.csv") == 78
    assert rows(folder) == 78


def test_what_was_found_and_counted_is_shown(folder: Path) -> None:
    frame = log().astype(object)
    frame.loc[5, "level"], frame.loc[6, "level"] = "Bad", -9999
    frame.to_csv(folder / "log.csv", sep=";", index=False)
    code, _, shown = run(folder / "log.csv", *COLUMNS, "--na", "-9999", "--missing", "drop")
    assert code == 0
    assert "log.csv: separator ';', decimal mark '.'" in shown
    assert "level: missing word 'Bad': 1" in shown
    assert "level: missing value -9999: 1" in shown


def test_a_date_that_may_be_either_needs_its_format(folder: Path) -> None:
    code, _, shown = run(folder / "log-9.csv", *COLUMNS, "--time", "time")
    assert code == 1
    assert "is the day; say how to read it by a time format" in shown
    file = folder / "log-9.csv"
    assert rows(file, "--time", "time", "--time-format", "%d/%m/%Y %H:%M") == 39
    # Read as months, both changes of day are gaps, and the last row stands alone.
    assert rows(file, "--time", "time", "--time-format", "%m/%d/%Y %H:%M") == 37


def test_a_database_is_read_by_a_query(folder: Path) -> None:
    with sqlite3.connect(folder / "log.db") as database:
        log().to_sql("log", database)
    database.close()
    assert rows(folder / "log.db", "--sql", "SELECT * FROM log WHERE level > 0") == 39
    code, _, shown = run(folder / "log.db", *COLUMNS)
    assert (code, "give a query, e.g. --sql" in shown) == (1, True)


def test_a_sheet_of_a_workbook_is_read(folder: Path) -> None:
    log().to_excel(folder / "log.xlsx", sheet_name="May", index=False)
    assert rows(folder / "log.xlsx", "--sheet", "May") == 39


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (["gone.csv"], "there is no file"),
        (["gone-*.csv"], "no file matches"),
        (["log-9.csv", "a.parquet"], "several kinds (csv, parquet)"),
        (["a.xlsx", "b.xlsx"], "only CSV and Parquet may be several"),
        (["log-9.csv", "--sql", "SELECT 1"], "a query is given"),
        (["log-9.csv", "--separator", ";;"], "give one character"),
    ],
)
def test_data_that_cannot_be_read_are_refused_in_one_line(
    folder: Path, data: list[str], expected: str
) -> None:
    for name in ("a.parquet", "a.xlsx", "b.xlsx"):
        (folder / name).write_bytes(b"x")
    code, _, shown = run(*(folder / one if "." in one else one for one in data), *COLUMNS)
    assert code == 1
    assert expected in shown
    assert "Traceback" not in shown
