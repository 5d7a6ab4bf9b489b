"""Which kind of log the argument DATA names."""

from __future__ import annotations

from collections.abc import Sequence
from glob import has_magic
from pathlib import Path
from typing import Literal

from nopg.errors import ArgumentError, DataError

Kind = Literal["csv", "parquet", "excel", "hdf5", "npz", "sql", "minari"]
_KINDS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".npz": "npz",
    ".duckdb": "sql",
    ".db": "sql",
    ".sqlite": "sql",
}
_SEVERAL = ("csv", "parquet")


def kind_of(data: Sequence[str], *, sql: str | None = None) -> Kind:
    """Return the kind of files, globs or folders; all must be of one, and only some may be several.

    Example:
        >>> kind_of(["log-*.csv"])
        'csv'
    """
    for text in data:
        path = Path(text)
        if not (text.startswith("minari:") or path.exists() or has_magic(text)):
            raise DataError(
                f"there is no file {path}; give a CSV, Parquet, Excel, HDF5, NPZ or database file, or "
                "minari:ID"
            )
    kinds = list(dict.fromkeys(_kind(one) for one in data))
    if len(kinds) > 1:
        raise ArgumentError(f"the data are of several kinds ({', '.join(kinds)}); give files of one")
    kind = kinds[0]
    if len(data) > 1 and kind not in _SEVERAL:
        raise ArgumentError(f"{len(data)} files are given ({kind}); only CSV and Parquet may be several")
    if kind == "sql" and sql is None:
        raise ArgumentError(f"{data[0]} is a database; give a query, e.g. --sql 'SELECT * FROM log'")
    if kind != "sql" and sql is not None:
        raise ArgumentError(f"a query is given, but {data[0]} is no .duckdb, .db or .sqlite file")
    return kind


def is_database(data: Sequence[str]) -> bool:
    """Return whether the file is one that a query reads."""
    return _kind(data[0]) == "sql"


def names_its_columns(data: Sequence[str]) -> bool:
    """Return whether the files may say themselves which columns are which."""
    return _kind(data[0]) in ("parquet", "hdf5", "npz", "minari")


def _kind(text: str) -> Kind:
    if text.startswith("minari:"):
        return "minari"
    path = Path(text)
    if path.is_dir():
        found = any(True for suffix in ("parquet", "pq") for _ in path.rglob(f"*.{suffix}"))
        return "parquet" if found else "csv"
    return _KINDS.get(path.suffix.lower(), "csv")
