"""Queries of databases: DuckDB and SQLite files, and any connection of Python's DB-API."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Unpack

from nopg.data._transitions import Transitions
from nopg.data.io._dataframe import from_dataframe
from nopg.data.io._files import existing_file, extra
from nopg.data.io._roles import Columns
from nopg.data.io._table import from_arrow
from nopg.errors import DataError

_SQLITE = b"SQLite format 3\0"


def from_sql(query: str, connection: Any, **columns: Unpack[Columns]) -> Transitions:
    """Read the rows of a query, in the order in which it returns them: use ORDER BY.

    Args:
        query: Such as `SELECT * FROM log ORDER BY time`.
        connection: Path of a DuckDB or SQLite file, which is opened for reading only; a connection of
            duckdb; or any connection of Python's DB-API, such as psycopg's. PostgreSQL through DuckDB's own
            extension (`ATTACH … (TYPE postgres)` on a duckdb connection) should work, but is not tested.
        columns: As in `from_dataframe`.
    """
    if isinstance(connection, str | os.PathLike):
        return _from_file(query, existing_file(connection), columns)
    if type(connection).__module__.partition(".")[0] in ("duckdb", "_duckdb"):
        return _from_duckdb(query, connection, "the query", columns)
    if not hasattr(connection, "cursor"):
        raise DataError(
            f"connection is a {type(connection).__name__}; give the path of a DuckDB or SQLite file, or a "
            "connection with the method cursor()"
        )
    return _from_cursor(query, connection, "the query", columns)


def _from_file(query: str, file: Path, columns: Columns) -> Transitions:
    with file.open("rb") as stream:
        is_sqlite = stream.read(len(_SQLITE)) == _SQLITE
    if is_sqlite:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return _from_cursor(query, database, str(file), columns)
    duckdb = extra("duckdb")
    try:
        database = duckdb.connect(str(file), read_only=True)
    except duckdb.Error as error:
        raise DataError(f"{file} cannot be opened as DuckDB or SQLite ({_first_line(error)})") from error
    with database:
        return _from_duckdb(query, database, str(file), columns)


def _from_duckdb(query: str, database: Any, source: str, columns: Columns) -> Transitions:
    duckdb, pyarrow = extra("duckdb"), extra("pyarrow")
    try:
        found = database.sql(query)
        table = None if found is None else pyarrow.table(found)
    except duckdb.Error as error:
        raise DataError(f"{source}: the query failed ({_first_line(error)})") from error
    if table is None:
        raise DataError(f"{source}: {query[:60]!r} returns no rows; give one SELECT")
    return from_arrow(table, source, columns)


def _from_cursor(query: str, database: Any, source: str, columns: Columns) -> Transitions:
    pandas = extra("pandas")
    with closing(database.cursor()) as cursor:
        try:
            cursor.execute(query)
            names = [str(column[0]) for column in cursor.description or ()]
            rows = cursor.fetchall() if names else []
        except Exception as error:  # the errors of a DB-API module have no common base
            raise DataError(f"{source}: the query failed ({_first_line(error)})") from error
    if not rows:
        raise DataError(f"{source}: {query[:60]!r} returns no rows; give one SELECT that finds some")
    return from_dataframe(pandas.DataFrame.from_records(rows, columns=names), **columns)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
