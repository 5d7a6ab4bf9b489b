"""Parquet files and folders of them, whole or in parts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from nopg.data._checks import Source
from nopg.data._transitions import Transitions
from nopg.data.io._files import Paths, extra, find_files, source_name
from nopg.data.io._roles import Columns, Roles, Settings, resolve_columns, split_arguments
from nopg.data.io._tables import KEY, Table, completed, named_columns, plain_column, record, take_from
from nopg.data.io._transitions import to_transitions
from nopg.errors import ArgumentError, DataError

_GROUP_ROWS = 1 << 16


def read_parquet(
    path: Paths, *, part: tuple[int, int] | None = None, **columns: Unpack[Columns]
) -> Transitions:
    """Read a Parquet file, several, or every file in a folder in the order of their names.

    Only the needed columns are read, so the others may exceed the memory. A new file starts a new episode,
    unless there is an episode or time column.

    A part is a run of consecutive rows; all parts together are the whole, and no two differ by more than
    one row. Row groups that hold none of its rows are not read. An episode that is cut in two is an
    episode in either part, so declare the starts if those of the episodes should count: the second half
    seems to start where it was cut. Without next-state columns the row before a cut has no next state
    and is no transition. Episodes keep the numbers that the file gives them; those that have none get
    numbers which no other part uses.

    Args:
        path: A file, a folder, a glob such as `log-*.parquet`, or a list of files. The files of a glob are
            read in natural order of their names.
        part: Read one part only: its number, from 0, and the number of parts.
        columns: As in `from_dataframe`; none is needed for a file of `write_parquet`.
    """
    found = _load(path, part, columns)
    return found.transitions(found.table, found.part.file_starts, found.source)


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
        if own.sum() == 1 and found.roles.next_states is None:
            continue
        table = {name: values[own] for name, values in found.table.items()}
        starts = {int(own[:row].sum()) for row in found.part.file_starts} - {0, int(own.sum())}
        source = f"{found.source}, {by} {names[k]}"
        result[str(names[k])] = found.transitions(table, tuple(sorted(starts)), source)
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
    """Columns of files by name, their roles, the settings of the reader, and which rows they are."""

    table: Table
    roles: Roles
    settings: Settings
    part: Part
    source: str
    start: int | None

    def transitions(self, table: Table, file_starts: tuple[int, ...], source: str) -> Transitions:
        """Return the transitions of a table, which is empty then."""
        read, start = take_from(table, self.roles), self.start
        log = record(read, self.roles, Source(source), file_starts=file_starts, part_start=start)
        return to_transitions(log, **self.settings)


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
        fragments = list(dataset.get_fragments())
        sizes = []
        for fragment in fragments:
            footer = fragment.metadata
            known = {*fragment.physical_schema.names, *ds.get_partition_keys(fragment.partition_expression)}
            if missing := [name for name in roles.needed if name not in known]:
                raise DataError(f"{fragment.path}: there is no column {missing[0]!r}, which other files have")
            sizes.append([footer.row_group(k).num_rows for k in range(footer.num_row_groups)])
        chosen = Part.of(sizes, part, source)
        source = source if part is None else f"{source}, part {part[0]} of {part[1]}"
        subset = [fragments[file].subset(row_group_ids=groups) for file, groups in chosen.groups]
        selection = ds.FileSystemDataset(subset, dataset.schema, dataset.format, dataset.filesystem)
        names = roles.needed if more is None else tuple(dict.fromkeys((*roles.needed, more)))
        # Read-ahead would hold the file in memory beside the numbers.
        table = selection.to_table(
            columns=list(names),
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
            fragment_scan_options=ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False),
        )
        if len(table) != chosen.declared:
            raise DataError(f"{source} declares {chosen.declared} rows, holds {len(table)}; write it again")
        read: Table = {}
        for name in names:
            read[name] = plain_column(table.column(name).slice(chosen.skipped, chosen.rows), name, source)
            table = table.drop_columns([name])
        pa.default_memory_pool().release_unused()
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{source} cannot be read as Parquet ({error}); write it again") from error
    return _Loaded(read, roles, settings, chosen, source, None if part is None else chosen.first)


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive rows of files that are stored in row groups.

    Attributes:
        first: Number of its first row among the rows of all files.
        rows: Number of its rows.
        groups: The row groups that hold them: number of the file, numbers of the groups in it.
        declared: Number of rows of these groups.
        skipped: Number of those before the first row.
        file_starts: Rows of the part, from 0, at which another file starts.
    """

    first: int
    rows: int
    groups: tuple[tuple[int, tuple[int, ...]], ...]
    declared: int
    skipped: int
    file_starts: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Sequence[Sequence[int]], part: tuple[int, int] | None, source: str) -> Part:
        """Return a part of all rows, given the rows of every row group, file by file.

        Example:
            >>> Part.of([[4, 4], [2]], (1, 2), "log")
            Part(first=5, rows=5, groups=((0, (1,)), (1, (0,))), declared=6, skipped=1, file_starts=(3,))
        """
        files = np.repeat(np.arange(len(sizes)), [len(lengths) for lengths in sizes])
        lengths = np.array([length for of_file in sizes for length in of_file], dtype=np.int64)
        ends, total = lengths.cumsum(), int(lengths.sum())
        begins = ends - lengths
        number, count = part or (0, 1)
        if not 0 <= number < count:
            raise ArgumentError(
                f"part is {part}; give (number, count) with number from 0, e.g. (0, 4) to (3, 4)"
            )
        if total == 0:
            raise DataError(f"{source}: there are no rows; give at least one transition")
        if count > total:
            raise DataError(f"{source} has {total} rows, too few for {count} parts; use at most {total}")
        first, end = total * number // count, total * (number + 1) // count
        used = (lengths > 0) & (ends > first) & (begins < end)
        groups = {int(file): np.flatnonzero(used[files == file]) for file in np.unique(files[used])}
        heads = np.unique(begins[1:][files[1:] != files[:-1]])
        return cls(
            first,
            end - first,
            tuple((file, tuple(numbers.tolist())) for file, numbers in groups.items()),
            int(lengths[used].sum()),
            int(first - begins[used][0]),
            tuple((heads[(first < heads) & (heads < end)] - first).tolist()),
        )
