"""Tables of other libraries through Arrow: Polars, pyarrow, DuckDB."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from nopg.data._transitions import Transitions
from nopg.data.io._columns import record, take_from
from nopg.data.io._dataframe import from_dataframe
from nopg.data.io._files import extra
from nopg.data.io._parquet import completed, plain_column
from nopg.data.io._roles import Columns, resolve_columns, split_arguments
from nopg.data.io._transitions import to_transitions
from nopg.errors import DataError


def from_table(table: Any, **columns: Unpack[Columns]) -> Transitions:
    """Read a table of any library that speaks Arrow: Polars, pyarrow, DuckDB, pandas.

    Args:
        table: An object with the method `__arrow_c_stream__`, or a pandas DataFrame. One row per step, in
            order of time inside every episode.
        columns: As in `from_dataframe`.

    Example:
        >>> import pyarrow as pa
        >>> log = pa.table({"level": [1, 2, 3], "valve": [0.1, 0.2, 0.3], "gain": [0, 1, 2]})
        >>> len(from_table(log, states=["level"], actions=["valve"], reward="gain"))
        2
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(table, pandas.DataFrame):
        return from_dataframe(table, **columns)
    if not hasattr(table, "__arrow_c_stream__"):
        raise DataError(
            f"table is a {type(table).__name__}; give a table of Polars, pyarrow, DuckDB or pandas "
            "(a Polars LazyFrame after .collect())"
        )
    return from_arrow(extra("pyarrow").table(table), "the table", columns)


def from_arrow(table: Any, source: str, columns: Mapping[str, Any]) -> Transitions:
    """Read a table of pyarrow; `source` is its name in errors."""
    names = [str(name) for name in table.column_names]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"{source}: columns {repeated} appear twice; rename or drop one of each")
    given, settings = split_arguments(completed(columns, table.schema.metadata, source), Columns)
    roles = resolve_columns(names, source, **given)
    if table.num_rows == 0:
        raise DataError(f"{source}: there are no rows; give at least one transition")
    found = {
        name: np.concatenate([plain_column(chunk, name, source) for chunk in table.column(name).chunks])
        for name in roles.needed
    }
    return to_transitions(record(take_from(found, roles), roles, source), **settings)
