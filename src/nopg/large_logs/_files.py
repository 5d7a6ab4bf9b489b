"""Summaries on disk: the sample as a Parquet file, the sums as safetensors, no pickle."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TypeVar

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, contiguous_format

from nopg._files import write_files
from nopg.data import Repairs, Transitions
from nopg.data.io._parquet import read_parquet, write_parquet
from nopg.errors import ArgumentError, DataError
from nopg.large_logs._fleet import Fleet
from nopg.large_logs._sums import PlantSums
from nopg.models import LocalModel
from nopg.models._log_summary import ColumnCounts, LogSummary, OwnRows, Statistics

_SAMPLE, _SUMS = "sample.parquet", "sums.safetensors"
_Arrays = dict[str, Tensor]
_Whole = TypeVar("_Whole", OwnRows, ColumnCounts)


def save_summary(
    summary: LogSummary | Fleet, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write a summary or a fleet to a folder, and return its path; one that is there is kept by default."""
    target = Path(folder)
    if holds_summary(target) and not overwrite:
        raise ArgumentError(f"{target} holds a summary already; give another folder, or overwrite=True")
    with tempfile.TemporaryDirectory() as place:
        write_parquet(summary.sample, Path(place) / _SAMPLE)
        sample = (Path(place) / _SAMPLE).read_bytes()
    tensors = {"groups": summary.groups}
    if isinstance(summary, Fleet):
        for name, one in summary.plants.items():
            arrays = one.statistics.arrays() | _arrays("columns", one.columns)
            arrays |= {"starts": one.starts, "rows": one.rows}
            tensors |= {f"{name}/{part}": values for part, values in arrays.items()}
    else:
        tensors |= summary.statistics.arrays()
        tensors |= _arrays("own", summary.own_rows) | _arrays("columns", summary.columns)
    found = {name: one.clone(memory_format=contiguous_format) for name, one in tensors.items()}
    header = {"repairs": json.dumps(asdict(summary.sample.repairs))}
    write_files({target / _SAMPLE: sample, target / _SUMS: save(found, header)})
    return target


def holds_summary(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder holds a summary or a fleet."""
    return (Path(folder) / _SUMS).is_file()


def holds_fleet(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder holds a fleet."""
    return holds_summary(folder) and bool(_load(Path(folder))[3])


def load_summary(folder: str | os.PathLike[str]) -> LogSummary:
    """Return the summary that `save_summary` wrote; its charts are placed again and compared."""
    sample, groups, arrays, plants = _load(Path(folder))
    if plants:
        raise DataError(f"{folder} holds a fleet; read it with load_fleet")
    own, columns = _taken("own", OwnRows, arrays), _taken("columns", ColumnCounts, arrays)
    return LogSummary(sample, groups, _placed(sample, groups).filled(arrays), own, columns)


def load_fleet(folder: str | os.PathLike[str]) -> Fleet:
    """Return the fleet that `save_summary` wrote; its charts are placed again and compared."""
    sample, groups, _, parts = _load(Path(folder))
    if not parts:
        raise DataError(f"{folder} holds the summary of one log, not of plants; read it with load_summary")
    placed, plants = _placed(sample, groups), dict[str, PlantSums]()
    for name, arrays in sorted(parts.items()):
        starts, rows = arrays.pop("starts"), arrays.pop("rows")
        columns = _taken("columns", ColumnCounts, arrays)
        assert columns is not None
        plants[name] = PlantSums(placed.filled(arrays), starts, rows, columns)
    return Fleet(sample, groups, plants)


def _arrays(name: str, whole: OwnRows | ColumnCounts | None) -> _Arrays:
    """Return the parts of a whole by name, for a file; `_taken` is the way back."""
    parts = () if whole is None else fields(whole)
    return {f"{name}.{part.name}": getattr(whole, part.name) for part in parts}


def _taken(name: str, kind: type[_Whole], arrays: _Arrays) -> _Whole | None:
    """Take the parts of a whole from arrays, and return it; None if there are none."""
    names = [f"{name}.{part.name}" for part in fields(kind)]
    return kind(*(arrays.pop(part) for part in names)) if names[0] in arrays else None


def _placed(sample: Transitions, groups: Tensor) -> Statistics:
    return LocalModel(sample, groups=groups).steps.fitted_statistics


def _load(target: Path) -> tuple[Transitions, Tensor, _Arrays, dict[str, _Arrays]]:
    """Return the sample, its groups, the arrays of a summary, and those of a fleet by plant."""
    missing = [name for name in (_SAMPLE, _SUMS) if not (target / name).is_file()]
    if missing:
        raise DataError(f"{target} holds no summary of a log: {' and '.join(missing)} missing")
    arrays, plants = _Arrays(), dict[str, _Arrays]()
    try:
        with safe_open(target / _SUMS, framework="pt") as file:
            found = json.loads(file.metadata()["repairs"])
            repairs = Repairs(found["counts"], tuple(found["notes"]))
            groups = file.get_tensor("groups")
            for key in set(file.keys()) - {"groups"}:
                plant, slash, name = key.rpartition("/")
                own = plants.setdefault(plant, {}) if slash else arrays
                own[name] = file.get_tensor(key)
    except Exception as error:  # safetensors has errors of its own
        raise DataError(f"{target / _SUMS} cannot be read ({error}); summarize the log again") from error
    sample = read_parquet(target / _SAMPLE)
    if len(groups) != len(sample):
        raise DataError(f"{target} does not fit together; summarize the log again")
    return replace(sample, repairs=repairs), groups, arrays, plants
