"""Parquet files and folders of them, read by column and in batches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from nopg.data import _metadata
from nopg.data._columns import Columns, Roles, resolve_roles, split
from nopg.data._frames import from_table, named_columns
from nopg.data._shares import Share
from nopg.data._sizes import check_declared, existing_file
from nopg.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from nopg.data._transitions import Transitions

__all__ = ["from_parquet", "to_parquet"]

_BATCH_ROWS = 1 << 16


def from_parquet(
    path: str | os.PathLike[str], *, part: tuple[int, int] | None = None, **columns: Unpack[Columns]
) -> Transitions:
    """Return the transitions of a Parquet file, or of all files in a folder, in the order of their names."""
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet") from error

    source = str(path)
    if not Path(path).is_dir():
        existing_file(path)
    try:
        dataset = ds.dataset(source, format="parquet", partitioning="hive")
        columns = _with_description(columns, dataset.schema.metadata or {}, source)
        roles_given, settings = split(columns)
        roles = resolve_roles(dataset.schema.names, source, **roles_given)
        fragments = list(dataset.get_fragments())
        share = Share.of(_group_sizes(fragments, roles), part, source)
        source = source if part is None else f"{source}, part {part[0]} of {part[1]}"
        check_declared(source, share.rows, len(roles.needed))
        chosen = [fragments[file].subset(row_group_ids=groups) for file, groups in share.groups]
        selection = ds.FileSystemDataset(chosen, dataset.schema, dataset.format, dataset.filesystem)
        table = _read(selection, roles, share, source)
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{source} cannot be read as Parquet ({error}); write it again") from error
    return from_table(
        table, roles, source, settings, breaks=share.breaks, part_from=None if part is None else share.first
    )


def to_parquet(data: Transitions, path: str | os.PathLike[str]) -> None:
    """Write a dataset as one Parquet file that also knows the schema and the declared starts."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet") from error

    table = pa.table({name: np.ascontiguousarray(values) for name, values in named_columns(data).items()})
    pq.write_table(table.replace_schema_metadata({_metadata.KEY: _metadata.dump(data)}), path)


def _with_description(columns: Columns, metadata: Mapping[bytes, bytes], source: str) -> Columns:
    """Return the arguments, completed by what the file says of itself if nobody named its columns."""
    described = metadata.get(_metadata.KEY.encode())
    if described is None or columns.get("states") is not None or columns.get("actions") is not None:
        return columns
    known, _ = _metadata.load(described, source)
    return {**known, "reward": "reward", **columns}


def _group_sizes(fragments: Sequence[Any], roles: Roles) -> list[list[int]]:
    """Return the rows of every row group of every file, whose declarations agree with themselves."""
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


def _read(dataset: Any, roles: Roles, share: Share, source: str) -> dict[str, npt.NDArray[Any]]:
    """Read the needed columns batch by batch into arrays that grow with what is really there."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    # Read ahead, buffered or pooled, the file would stand in memory beside the numbers.
    batches = dataset.to_batches(
        columns=list(roles.needed),
        batch_size=_BATCH_ROWS,
        batch_readahead=1,
        fragment_readahead=1,
        use_threads=False,
        fragment_scan_options=ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False),
        memory_pool=pa.system_memory_pool(),
    )
    table: dict[str, npt.NDArray[Any]] = {}
    seen = filled = 0
    for whole in batches:
        if seen + whole.num_rows > share.declared:
            raise DataError(f"{source} holds more rows than the {share.declared} it declares; write it again")
        before = min(max(0, share.skipped - seen), whole.num_rows)
        batch = whole.slice(before, share.rows - filled)
        seen += whole.num_rows
        for name in roles.needed:
            values = _plain(batch.column(name), name, source)
            if name not in table:
                table[name] = np.empty(share.rows, dtype=values.dtype)  # untouched memory costs nothing yet
            elif table[name].dtype != values.dtype:
                table[name] = table[name].astype(np.promote_types(table[name].dtype, values.dtype))
            table[name][filled : filled + len(values)] = values
        filled += batch.num_rows
        if filled == share.rows < share.declared:
            break  # what is left of the group belongs to the next part
    if filled != share.rows:
        raise DataError(f"{source} declares {share.rows} rows but holds {filled}; write it again")
    return table


def _plain(column: Any, name: str, source: str) -> npt.NDArray[Any]:
    """Return one batch of a column as numpy: numbers, flags and times; text only as it stands."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(f"{source}: column {name!r} holds {kind}; a column must hold one number per row")
    elif pa.types.is_null(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_boolean(kind) and column.null_count:
        column = column.cast(pa.int8()).cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False))
