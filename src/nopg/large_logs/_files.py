"""Summaries on disk: the sample as a Parquet file, the sums as safetensors, no pickle."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from nopg._files import write_files
from nopg.data import Repairs, Transitions
from nopg.data.io._files import extra
from nopg.data.io._parquet import read_parquet, write_parquet
from nopg.errors import ArgumentError, DataError
from nopg.large_logs._fleet import Fleet
from nopg.large_logs._sums import PlantSums
from nopg.models import LocalModel
from nopg.models._log_summary import ColumnCounts, LogSummary, OwnRows, Statistics

_SAMPLE, _SUMS, _PLANTS, _REPAIRS = "sample.parquet", "sums.safetensors", "plants.json", "repairs.json"


def save_summary(
    summary: LogSummary | Fleet, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write a summary or a fleet to a folder, and return its path.

    Args:
        summary: The summary.
        folder: Must not hold one, unless it may be overwritten.
        overwrite: Whether another summary is replaced.
    """
    target = Path(folder)
    if holds_summary(target) and not overwrite:
        raise ArgumentError(f"{target} holds a summary already; give another folder, or overwrite=True")
    with tempfile.TemporaryDirectory() as place:
        write_parquet(summary.sample, Path(place) / _SAMPLE)
        sample = (Path(place) / _SAMPLE).read_bytes()
    repairs = json.dumps(asdict(summary.sample.repairs)).encode()
    files, tensors = {target / _SAMPLE: sample, target / _REPAIRS: repairs}, {"groups": summary.groups}
    if isinstance(summary, Fleet):
        for number, one in enumerate(summary.plants.values()):
            arrays = one.statistics.arrays() | {"starts": one.starts, "rows": one.rows}
            arrays |= _arrays("columns", one.columns)
            tensors |= {f"{number}/{name}": values for name, values in arrays.items()}
        files[target / _PLANTS] = json.dumps(list(summary.plants)).encode()
    else:
        tensors |= summary.statistics.arrays()
        tensors |= _arrays("own", summary.own_rows) | _arrays("columns", summary.columns)
        (target / _PLANTS).unlink(missing_ok=True)
    found = {name: one.clone(memory_format=torch.contiguous_format) for name, one in tensors.items()}
    write_files({**files, target / _SUMS: extra("safetensors.torch").save(found)})
    return target


def holds_summary(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder holds a summary or a fleet."""
    return (Path(folder) / _SUMS).is_file()


def holds_fleet(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder holds a fleet."""
    return holds_summary(folder) and (Path(folder) / _PLANTS).is_file()


def load_summary(folder: str | os.PathLike[str]) -> LogSummary:
    """Return the summary that `save_summary` wrote; its charts are placed again and compared."""
    if holds_fleet(folder):
        raise DataError(f"{folder} holds a fleet; read it with load_fleet")
    sample, groups, arrays = _load(Path(folder))
    own, columns = _taken("own", OwnRows, arrays), _taken("columns", ColumnCounts, arrays)
    return LogSummary(sample, groups, _placed(sample, groups).filled(arrays), own, columns)


def load_fleet(folder: str | os.PathLike[str]) -> Fleet:
    """Return the fleet that `save_summary` wrote; its charts are placed again and compared."""
    target = Path(folder)
    sample, groups, arrays = _load(target)
    if not holds_fleet(target):
        raise DataError(
            f"{target} holds the summary of one log, not of several plants; read it with load_summary"
        )
    with _readable(target / _PLANTS):
        names = [str(name) for name in json.loads((target / _PLANTS).read_bytes())]
    placed, plants = _placed(sample, groups), dict[str, PlantSums]()
    for number, plant in enumerate(names):
        prefix = f"{number}/"
        own = {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
        columns = _taken("columns", ColumnCounts, own)
        if columns is None or not {"starts", "rows"} <= own.keys():
            raise DataError(f"{target} lacks rows of the plant {plant!r}; summarize the log again")
        starts, rows = own.pop("starts"), own.pop("rows")
        plants[plant] = PlantSums(placed.filled(own), starts, rows, columns)
    return Fleet(sample, groups, plants)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Name a file that cannot be read."""
    try:
        yield
    except Exception as error:  # safetensors has errors of its own
        raise DataError(f"{file} cannot be read ({error}); summarize the log again") from error


_Arrays = TypeVar("_Arrays", OwnRows, ColumnCounts)


def _arrays(name: str, whole: OwnRows | ColumnCounts | None) -> dict[str, Tensor]:
    """Return the parts of a whole by name, for a file; `_taken` is the way back."""
    return (
        {} if whole is None else {f"{name}.{part.name}": getattr(whole, part.name) for part in fields(whole)}
    )


def _taken(name: str, kind: type[_Arrays], arrays: dict[str, Tensor]) -> _Arrays | None:
    """Take the parts of a whole from arrays, and return it; None if one is missing."""
    found = [arrays.pop(f"{name}.{part.name}", None) for part in fields(kind)]
    parts = [one for one in found if one is not None]
    return kind(*parts) if len(parts) == len(found) else None


def _placed(sample: Transitions, groups: Tensor) -> Statistics:
    return LocalModel(sample, groups=groups).steps.fitted_statistics


def _load(target: Path) -> tuple[Transitions, Tensor, dict[str, Tensor]]:
    """Return the sample, its groups and all other arrays of a folder."""
    missing = [name for name in (_SAMPLE, _SUMS, _REPAIRS) if not (target / name).is_file()]
    if missing:
        raise DataError(f"{target} holds no summary of a log: {' and '.join(missing)} missing")
    with _readable(target / _SUMS):
        arrays = extra("safetensors.torch").load_file(target / _SUMS)
    with _readable(target / _REPAIRS):
        found = json.loads((target / _REPAIRS).read_bytes())
        counts = {str(name): int(number) for name, number in found["counts"].items()}
        repairs = Repairs(counts, tuple(map(str, found["notes"])))
    sample, groups = read_parquet(target / _SAMPLE), arrays.pop("groups", None)
    if groups is None or len(groups) != len(sample):
        raise DataError(f"{target} does not fit together; summarize the log again")
    return replace(sample, repairs=repairs), groups, arrays
