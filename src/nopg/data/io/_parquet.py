"""Parquet files and folders of them, whole or in parts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from nopg._typing import IntArray
from nopg.data._checks import Source
from nopg.data._transitions import Transitions
from nopg.data.io._files import Paths, extra, find_files, source_name
from nopg.data.io._roles import Columns, Roles, Settings, resolve_columns, split_arguments
from nopg.data.io._tables import KEY, Table, completed, named_columns, plain_column, transitions_of
from nopg.errors import ArgumentError, DataError

_GROUP_ROWS = 1 << 16


def read_parquet(
    path: Paths, *, part: tuple[int, int] | None = None, **columns: Unpack[Columns]
) -> Transitions:
    """Read a Parquet file, several, or every file in a folder in the order of their names.

    Only the needed columns are read. A new file starts a new episode, unless there is an episode or time
    column.

    A part is a run of consecutive rows; all parts together are the whole, and no two differ by more than
    one row. Row groups that hold none of its rows are not read. An episode that is cut in two is an
    episode in either part, so declare the starts; without next-state columns the row before a cut is no
    transition. Episodes keep the numbers that the file gives them; others get numbers of no other part.

    Args:
        path: A file, a folder, a glob such as `log-*.parquet` in natural order of names, or a list of files.
        part: Read one part only: its number, from 0, and the number of parts.
        columns: As in `from_dataframe`; none is needed for a file of `write_parquet`.
    """
    return _load(path, part, columns).transitions()


def read_parquet_by(
    path: Paths, by: str, *, part: tuple[int, int] | None = None, **columns: Unpack[Columns]
) -> dict[str, Transitions]:
    """Read Parquet files as `read_parquet` does, apart for every value of a column, in order of appearance.

    Rows of one value follow each other, whatever lies between them. Where next states are those of the next
    row, a value with a single row has no transition and is left out.
    """
    import pandas as pd

    found = _load(path, part, columns, by)
    owners = found.table[by]
    if pd.isna(owners).any():
        raise DataError(f"{found.source}: rows without a value in the column {by!r}; leave them out")
    names, first, number = np.unique(owners.astype(str), return_index=True, return_inverse=True)
    result = {}
    for k in first.argsort():
        own = number == k
        if own.sum() > 1 or found.roles.next_states is not None:
            starts = {int(own[:row].sum()) for row in found.file_starts} - {0, int(own.sum())}
            table = {name: values[own] for name, values in found.table.items()}
            part_of = replace(found, table=table, file_starts=sorted(starts))
            result[str(names[k])] = replace(part_of, source=f"{found.source}, {by} {names[k]}").transitions()
    return result


def write_parquet(data: Transitions, path: str | os.PathLike[str]) -> None:
    """Write the columns of `to_dataframe`, the schema and the declared starts into one file."""
    pa, pq = extra("pyarrow"), extra("pyarrow.parquet")
    table = pa.table({name: np.ascontiguousarray(values) for name, values in named_columns(data).items()})
    described = {
        **data.schema.to_dict(),
        "initial_states": None if data.initial_states is None else data.initial_states.tolist(),
        "weighted": data.weights is not None,
        "marked": data.begins is not None,
    }
    table = table.replace_schema_metadata({KEY: json.dumps(described)})  # floats are read back to the bit
    pq.write_table(table, path, row_group_size=_GROUP_ROWS)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Columns by name, their roles, the reader's settings, and which rows they are of which files."""

    table: Table
    roles: Roles
    settings: Settings
    source: str
    file_starts: Sequence[int]
    part_start: int | None

    def transitions(self) -> Transitions:
        """Return the transitions of the table, which is empty then."""
        return transitions_of(
            self.table,
            self.roles,
            Source(self.source),
            self.settings.copy(),
            file_starts=self.file_starts,
            part_start=self.part_start,
        )


def _load(
    path: Paths, part: tuple[int, int] | None, columns: Mapping[str, Any], more: str | None = None
) -> _Loaded:
    """Read the needed columns, and one more."""
    pa, ds = extra("pyarrow"), extra("pyarrow.dataset")
    if isinstance(path, str | os.PathLike) and Path(path).is_dir():
        place: Any = str(path)
        source = str(path)
    else:
        files = find_files(path, (".parquet", ".pq"))
        place, source = [str(file) for file in files], source_name(path, files)
    try:
        dataset = ds.dataset(place, format="parquet", partitioning="hive")
        given, settings = split_arguments(completed(columns, dataset.schema.metadata, source), Columns)
        roles = resolve_columns(dataset.schema.names, source, **given)
        groups, lengths = list[Any](), list[int]()
        for fragment in dataset.get_fragments():
            known = {*fragment.physical_schema.names, *ds.get_partition_keys(fragment.partition_expression)}
            if missing := [name for name in roles.needed if name not in known]:
                raise DataError(f"{fragment.path}: there is no column {missing[0]!r}, which other files have")
            groups += fragment.split_by_row_group()
            lengths.append(fragment.metadata.num_rows)
        sizes = np.array([group.row_groups[0].num_rows for group in groups], dtype=np.int64)
        first, end = share_of_rows(int(sizes.sum()), part, source)
        used = groups_of(sizes, first, end)
        source = source if part is None else f"{source}, part {part[0]} of {part[1]}"
        chosen = ds.FileSystemDataset(groups[used], dataset.schema, dataset.format, dataset.filesystem)
        names = roles.needed if more is None else tuple(dict.fromkeys((*roles.needed, more)))
        # Read-ahead would hold the file in memory beside the numbers.
        table = chosen.to_table(
            columns=list(names),
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
            fragment_scan_options=ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False),
        )
        read, skipped = Table(), first - int(sizes[: used.start].sum())
        for name in names:
            read[name] = plain_column(table.column(name).slice(skipped, end - first), name, source)
            table = table.drop_columns([name])
        pa.default_memory_pool().release_unused()
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{source} cannot be read as Parquet ({error}); write it again") from error
    starts = [row - first for row in np.unique(np.cumsum(lengths)).tolist() if first < row < end]
    return _Loaded(read, roles, settings, source, starts, None if part is None else first)


def share_of_rows(total: int, part: tuple[int, int] | None, source: str) -> tuple[int, int]:
    """Return the first row of a part, and the row after its last one."""
    number, count = part or (0, 1)
    if not 0 <= number < count:
        raise ArgumentError(f"part is {part}; give (number, count) with number from 0, e.g. (0, 4) to (3, 4)")
    if total == 0:
        raise DataError(f"{source}: there are no rows; give at least one transition")
    if count > total:
        raise DataError(f"{source} has {total} rows, too few for {count} parts; use at most {total}")
    return total * number // count, total * (number + 1) // count


def groups_of(sizes: IntArray, first: int, end: int) -> slice:
    """Return the row groups that hold the rows from first to before end, given the rows of all.

    Example:
        >>> groups_of(np.array([4, 4, 2]), 5, 10)
        slice(1, 3, None)
    """
    ends = sizes.cumsum()
    return slice(int(np.searchsorted(ends, first, side="right")), int(np.searchsorted(ends, end)) + 1)
