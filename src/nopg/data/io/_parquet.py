"""Parquet files and folders of them, whole or in parts, read by column and in batches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data._checks import Source
from nopg.data._transitions import Transitions
from nopg.data.io._files import Paths, check_declared, check_runs, extra, find_files, source_name
from nopg.data.io._metadata import KEY, complete, dump, load
from nopg.data.io._roles import Columns, Roles, Settings, resolve_columns, split_arguments
from nopg.data.io._tables import Table, named_columns, record, take_from
from nopg.data.io._transitions import to_transitions
from nopg.errors import ArgumentError, DataError

_BATCH_ROWS = 1 << 16


def read_parquet(
    path: Paths, *, part: tuple[int, int] | None = None, **columns: Unpack[Columns]
) -> Transitions:
    """Read a Parquet file, several, or every file in a folder in the order of their names.

    Only the needed columns are read, batch by batch, so the others may exceed the memory. A new file
    starts a new episode, unless there is an episode or time column.

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
    start = None if part is None else found.part.first
    read = take_from(found.table, found.roles)
    recording = record(
        read, found.roles, Source(found.source), file_starts=found.part.file_starts, part_start=start
    )
    return to_transitions(recording, **found.settings)


def read_parquet_by(
    path: Paths, by: str, *, part: tuple[int, int] | None = None, **columns: Unpack[Columns]
) -> dict[str, Transitions]:
    """Read Parquet files as `read_parquet` does, apart for every value of a column, in order of appearance.

    Rows of one value follow each other, whatever lies between them. Where next states are those of the next
    row, a value with a single row has no transition and is left out.
    """
    found = _load(path, part, columns, by)
    owners, start = found.table[by], None if part is None else found.part.first
    names, first, number = np.unique(_names(owners, by, found.source), return_index=True, return_inverse=True)
    result = {}
    for k in first.argsort():
        own = number == k
        if own.sum() == 1 and found.roles.next_states is None:
            continue
        table = {name: values[own] for name, values in found.table.items()}
        starts = {int(own[:row].sum()) for row in found.part.file_starts} - {0, int(own.sum())}
        recording = record(
            take_from(table, found.roles),
            found.roles,
            Source(f"{found.source}, {by} {names[k]}"),
            file_starts=tuple(sorted(starts)),
            part_start=start,
        )
        result[str(names[k])] = to_transitions(recording, **found.settings)
    return result


def _names(values: npt.NDArray[Any], column: str, source: str) -> npt.NDArray[Any]:
    """Return the values of a column as text; every row must have one."""
    missing = values == None if values.dtype == object else values != values  # noqa: E711, PLR0124
    if missing.any():
        raise DataError(f"{source}: rows without a value in the column {column!r}; leave them out")
    return values.astype(str)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Columns of files.

    Attributes:
        table: Columns by name.
        roles: Which column is which.
        settings: Of the reader.
        part: Which rows they are.
        source: The name of the files in errors.
    """

    table: Table
    roles: Roles
    settings: Settings
    part: Part
    source: str


def _load(
    path: Paths, part: tuple[int, int] | None, columns: Mapping[str, Any], more: str | None = None
) -> _Loaded:
    """Read the needed columns, and one more."""
    pa, ds = extra("pyarrow"), extra("pyarrow.dataset")
    place, source = _place(path)
    try:
        dataset = ds.dataset(place, format="parquet", partitioning="hive")
        given, settings = split_arguments(completed(columns, dataset.schema.metadata, source), Columns)
        roles = resolve_columns(dataset.schema.names, source, **given)
        fragments = list(dataset.get_fragments())
        sizes = _group_sizes(fragments, roles)
        chosen = Part.of(sizes, part, source)
        source = source if part is None else f"{source}, part {part[0]} of {part[1]}"
        check_declared(source, chosen.rows, len(roles.needed))
        stored = _stored(fragments) * chosen.rows // sum(map(sum, sizes))
        check_runs(source, chosen.rows, len(roles.needed), stored)
        subset = [fragments[file].subset(row_group_ids=groups) for file, groups in chosen.groups]
        selection = ds.FileSystemDataset(subset, dataset.schema, dataset.format, dataset.filesystem)
        names = roles.needed if more is None else tuple(dict.fromkeys((*roles.needed, more)))
        table = _read(selection, names, chosen, source)
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{source} cannot be read as Parquet ({error}); write it again") from error
    return _Loaded(table, roles, settings, chosen, source)


def write_parquet(data: Transitions, path: str | os.PathLike[str]) -> None:
    """Write the columns of `to_dataframe`, the schema and the declared starts into one file."""
    pa, pq = extra("pyarrow"), extra("pyarrow.parquet")
    table = pa.table({name: np.ascontiguousarray(values) for name, values in named_columns(data).items()})
    pq.write_table(table.replace_schema_metadata({KEY: dump(data)}), path, row_group_size=_BATCH_ROWS)


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
        total = sum(map(sum, sizes))
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

        position, skipped, declared = 0, 0, 0
        groups: dict[int, list[int]] = {}
        starts = []
        for file, lengths in enumerate(sizes):
            if first < position < end:
                starts.append(position - first)
            for group, length in enumerate(lengths):
                if length > 0 and position < end and position + length > first:
                    skipped = skipped if groups else first - position
                    groups.setdefault(file, []).append(group)
                    declared += length
                position += length
        chosen = tuple((file, tuple(numbers)) for file, numbers in groups.items())
        return cls(first, end - first, chosen, declared, skipped, tuple(dict.fromkeys(starts)))


def _place(path: Paths) -> tuple[str | list[str], str]:
    """Return a folder or the files as pyarrow takes them, and their name in errors."""
    if isinstance(path, str | os.PathLike) and Path(path).is_dir():
        return str(path), str(path)
    files = find_files(path, (".parquet", ".pq"))
    place = str(files[0]) if len(files) == 1 else [str(file) for file in files]
    return place, source_name(path, files)


def completed(columns: Mapping[str, Any], metadata: Any, source: str) -> dict[str, Any]:
    """Return the arguments, completed by the file's own description if no columns are named."""
    described = (metadata or {}).get(KEY.encode())
    if described is None or columns.get("states") is not None or columns.get("actions") is not None:
        return dict(columns)
    known = load(described, source)
    del known["connected"]
    given = {name: value for name, value in columns.items() if (name, value) != ("reward", False)}
    return complete({**known, "reward": known["reward"] or "reward"}, given)


def _group_sizes(fragments: Sequence[Any], roles: Roles) -> list[list[int]]:
    """Return the rows of every row group of every file; they must add up to its declared rows."""
    import pyarrow.dataset as ds

    sizes = []
    for fragment in fragments:
        footer = fragment.metadata
        known = [*fragment.physical_schema.names, *ds.get_partition_keys(fragment.partition_expression)]
        missing = [name for name in roles.needed if name not in known]
        if missing:
            raise DataError(f"{fragment.path}: there is no column {missing[0]!r}, which other files have")
        groups = [footer.row_group(k).num_rows for k in range(footer.num_row_groups)]
        if sum(groups) != footer.num_rows or min(groups, default=0) < 0:
            raise DataError(
                f"{fragment.path} declares {footer.num_rows} rows, its parts {sum(groups)}; write it again"
            )
        sizes.append(groups)
    return sizes


def _stored(fragments: Sequence[Any]) -> int:
    """Return the bytes of files, as the file system has them."""
    return sum(fragment.filesystem.get_file_info(fragment.path).size for fragment in fragments)


def _read(dataset: Any, names: Sequence[str], part: Part, source: str) -> Table:
    """Read columns batch by batch into arrays of the declared length."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    # Read-ahead, buffers and pools would hold the file in memory beside the numbers.
    batches = dataset.to_batches(
        columns=list(names),
        batch_size=_BATCH_ROWS,
        batch_readahead=1,
        fragment_readahead=1,
        use_threads=False,
        fragment_scan_options=ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False),
        memory_pool=pa.system_memory_pool(),
    )
    table: Table = {}
    seen = filled = 0
    for whole in batches:
        if seen + whole.num_rows > part.declared:
            raise DataError(f"{source} holds more rows than the {part.declared} it declares; write it again")
        before = min(max(0, part.skipped - seen), whole.num_rows)
        batch = whole.slice(before, part.rows - filled)
        seen += whole.num_rows
        for name in names:
            values = plain_column(batch.column(name), name, source)
            if name not in table:
                table[name] = np.empty(part.rows, dtype=values.dtype)  # untouched memory costs nothing yet
            elif table[name].dtype != values.dtype:
                table[name] = table[name].astype(np.promote_types(table[name].dtype, values.dtype))
            table[name][filled : filled + len(values)] = values
        filled += batch.num_rows
        if filled == part.rows < part.declared:
            break  # the rest of the group belongs to the next part
    if filled != part.rows:
        raise DataError(f"{source} declares {part.rows} rows but holds {filled}; write it again")
    return table


def plain_column(column: Any, name: str, source: str) -> npt.NDArray[Any]:
    """Return one batch of a column as numpy: numbers, flags, times or text."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        values = column.dictionary.cast(pa.string()) if _is_text(kind) else column.dictionary
        column = values.take(column.indices)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.string()).cast(pa.float64())  # straight to float64 would round twice
    elif _is_text(kind):
        column = column.cast(pa.string())
    elif pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(f"{source}: column {name!r} holds {kind}; a column must hold one number per row")
    elif pa.types.is_null(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_boolean(kind) and column.null_count:
        column = column.cast(pa.int8()).cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
