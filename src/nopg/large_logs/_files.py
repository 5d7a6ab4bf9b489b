"""Summaries on disk: the sample as a Parquet file, the sums as safetensors, no pickle."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from torch import Tensor, contiguous_format

from nopg._files import nested, part_of, write_files
from nopg.data import Repairs, Transitions
from nopg.data.io._parquet import read_parquet, write_parquet
from nopg.errors import ArgumentError, DataError
from nopg.large_logs._fleet import Fleet
from nopg.large_logs._sums import PlantSums
from nopg.models import LocalModel
from nopg.models._log_summary import ColumnCounts, LogSummary, OwnRows, Statistics

_SAMPLE, _SUMS = "sample.parquet", "sums.safetensors"
_Arrays = dict[str, Tensor]


def save_summary(
    summary: LogSummary | Fleet, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write a summary or a fleet to a folder, and return its path; one that is there is kept by default."""
    from safetensors.torch import save

    target = Path(folder)
    if holds_summary(target) and not overwrite:
        raise ArgumentError(f"{target} holds a summary already; give another folder, or overwrite=True")
    with tempfile.TemporaryDirectory() as place:
        write_parquet(summary.sample, Path(place) / _SAMPLE)
        sample = (Path(place) / _SAMPLE).read_bytes()
    tensors = {"groups": summary.groups}
    if isinstance(summary, Fleet):
        for name, one in summary.plants.items():
            drawn = {"starts": one.starts, "rows": one.rows}
            tensors |= {f"{name}/{part}": values for part, values in _arrays(one, drawn).items()}
    else:
        tensors |= _arrays(summary, {} if summary.own_rows is None else asdict(summary.own_rows))
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
    statistics = _placed(sample, groups).filled(part_of("statistics", arrays))
    own, columns = part_of("drawn", arrays), part_of("columns", arrays)
    own_rows, counts = OwnRows(**own) if own else None, ColumnCounts(**columns) if columns else None
    return LogSummary(sample, groups, statistics, own_rows, counts)


def load_fleet(folder: str | os.PathLike[str]) -> Fleet:
    """Return the fleet that `save_summary` wrote; its charts are placed again and compared."""
    sample, groups, _, plants = _load(Path(folder))
    if not plants:
        raise DataError(f"{folder} holds the summary of one log, not of plants; read it with load_summary")
    placed, found = _placed(sample, groups), dict[str, PlantSums]()
    for name, arrays in sorted(plants.items()):
        columns = ColumnCounts(**part_of("columns", arrays))
        statistics = placed.filled(part_of("statistics", arrays))
        found[name] = PlantSums(statistics, columns=columns, **part_of("drawn", arrays))
    return Fleet(sample, groups, found)


def _arrays(one: PlantSums | LogSummary, drawn: _Arrays) -> _Arrays:
    """Return the arrays of sums, and those of a sample of rows; `part_of` is the way back."""
    columns = {} if one.columns is None else asdict(one.columns)
    return nested(statistics=one.statistics.arrays(), columns=columns, drawn=drawn)


def _placed(sample: Transitions, groups: Tensor) -> Statistics:
    return LocalModel(sample, groups=groups).steps.fitted_statistics


def _load(target: Path) -> tuple[Transitions, Tensor, _Arrays, dict[str, _Arrays]]:
    """Return the sample, its groups, the arrays of a summary, and those of a fleet by plant."""
    from safetensors import safe_open

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
