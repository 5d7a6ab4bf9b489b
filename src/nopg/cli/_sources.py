"""Which kind of log the argument DATA names."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from glob import has_magic
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from nopg.errors import ArgumentError, DataError

_SEVERAL = ("csv", "parquet")


# More XML than this takes minutes to read; compressed, equal rows take nearly no place.
_LARGEST_SHEETS = 1 << 28


def _excel(path: str, sheet: str | None, _: str | None) -> Any:
    import pandas

    with ZipFile(path) as archive:
        if (size := sum(member.file_size for member in archive.infolist())) > _LARGEST_SHEETS:
            raise DataError(
                f"{path} holds {size >> 20} MiB of sheets, more than {_LARGEST_SHEETS >> 20}; export it "
                "as CSV or Parquet"
            )
    return pandas.read_excel(path, sheet_name=sheet or 0)


def _sqlite(path: str, _: str | None, query: str | None) -> Any:
    import pandas

    with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as database:
        return pandas.read_sql(query or "", database)


def _duckdb(path: str, _: str | None, query: str | None) -> Any:
    import duckdb

    with duckdb.connect(path, read_only=True) as database:
        return database.sql(query or "").df()


_FRAMES: Mapping[str, Callable[[str, str | None, str | None], Any]] = {
    ".xlsx": _excel,
    ".xlsm": _excel,
    ".db": _sqlite,
    ".sqlite": _sqlite,
    ".duckdb": _duckdb,
}
"""How pandas reads files of this suffix, from a path, the name of a sheet, and a query."""
_DATABASES = (".db", ".sqlite", ".duckdb")


def kind_of(data: Sequence[str], *, sql: str | None = None) -> str:
    """Return "csv", "parquet", "minari" or a suffix of `_FRAMES`; only the first two may be several files.

    Example:
        >>> kind_of(["log-*.csv"])
        'csv'
    """
    for text in data:
        path = Path(text)
        if not (text.startswith("minari:") or path.exists() or has_magic(text)):
            raise DataError(
                f"there is no file {path}; give a CSV, Parquet, Excel or database file, or minari:ID"
            )
    kinds = list(dict.fromkeys(_kind(one) for one in data))
    if len(kinds) > 1:
        raise ArgumentError(f"the data are of several kinds ({', '.join(kinds)}); give files of one")
    kind = kinds[0]
    if len(data) > 1 and kind not in _SEVERAL:
        raise ArgumentError(f"{len(data)} files are given ({kind}); only CSV and Parquet may be several")
    if kind in _DATABASES and sql is None:
        raise ArgumentError(f"{data[0]} is a database; give a query, e.g. --sql 'SELECT * FROM log'")
    if kind not in _DATABASES and sql is not None:
        raise ArgumentError(f"a query is given, but {data[0]} is no .duckdb, .db or .sqlite file")
    return kind


def frame_of(path: str, *, sheet: str | None, sql: str | None) -> Any:
    """Return an Excel sheet or the rows of a query as a data frame."""
    from nopg.data.io._files import existing_file

    existing_file(path)
    try:
        return _FRAMES[Path(path).suffix.lower()](path, sheet, sql)
    except DataError:
        raise
    except ImportError as error:
        raise DataError(f"{path} needs a package that is not installed ({error}); pip install it") from None
    except Exception as error:  # of each library its own kinds
        raise DataError(f"{path} cannot be read ({str(error).splitlines()[0]})") from error


def is_database(data: Sequence[str]) -> bool:
    """Return whether the file is one that a query reads."""
    return _kind(data[0]) in _DATABASES


def names_its_columns(data: Sequence[str]) -> bool:
    """Return whether the files may say themselves which columns are which."""
    return _kind(data[0]) in ("parquet", "minari")


def _kind(text: str) -> str:
    if text.startswith("minari:"):
        return "minari"
    path = Path(text)
    if path.is_dir():
        found = any(True for suffix in ("parquet", "pq") for _ in path.rglob(f"*.{suffix}"))
        return "parquet" if found else "csv"
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return "parquet"
    return suffix if suffix in _FRAMES else "csv"
