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
from nopg.large_logs._log import PlantSums
from nopg.models import LocalModel
from nopg.models._log_summary import ColumnCounts, LogSummary, OwnRows

_SAMPLE, _SUMS = "sample.parquet", "sums.safetensors"


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
    plants = summary.plants if isinstance(summary, Fleet) else {"": summary}
    for name, one in plants.items():
        if isinstance(one, PlantSums):
            drawn = {"starts": one.starts, "rows": one.rows}
        else:
            drawn = {} if one.own_rows is None else asdict(one.own_rows)
        columns = {} if one.columns is None else asdict(one.columns)
        arrays = nested(statistics=one.statistics.arrays(), columns=columns, drawn=drawn)
        tensors |= {f"{name}/{part}": values for part, values in arrays.items()}
    found = {name: one.clone(memory_format=contiguous_format) for name, one in tensors.items()}
    header = {"repairs": json.dumps(asdict(summary.sample.repairs))}
    write_files({target / _SAMPLE: sample, target / _SUMS: save(found, header)})
    return target


def holds_summary(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder holds a summary or a fleet."""
    return (Path(folder) / _SUMS).is_file()


def load_summary(folder: str | os.PathLike[str]) -> LogSummary:
    """Return the summary that `save_summary` wrote; its charts are placed again and compared."""
    if isinstance(found := loaded(folder), Fleet):
        raise DataError(f"{folder} holds a fleet; read it with load_fleet")
    return found


def load_fleet(folder: str | os.PathLike[str]) -> Fleet:
    """Return the fleet that `save_summary` wrote; its charts are placed again and compared."""
    if isinstance(found := loaded(folder), LogSummary):
        raise DataError(f"{folder} holds the summary of one log, not of plants; read it with load_summary")
    return found


def loaded(folder: str | os.PathLike[str]) -> LogSummary | Fleet:
    """Return what a folder holds."""
    sample, groups, plants = _load(Path(folder))
    placed, found = LocalModel(sample, groups=groups).steps.fitted_statistics, dict[str, PlantSums]()
    for name, arrays in sorted(plants.items()):
        statistics, drawn, counts = (part_of(part, arrays) for part in ("statistics", "drawn", "columns"))
        sums, columns = placed.filled(statistics), ColumnCounts(**counts) if counts else None
        if columns is None or not name:
            return LogSummary(sample, groups, sums, OwnRows(**drawn) if drawn else None, columns)
        found[name] = PlantSums(sums, drawn["starts"], drawn["rows"], columns)
    return Fleet(sample, groups, found)


def _load(target: Path) -> tuple[Transitions, Tensor, dict[str, dict[str, Tensor]]]:
    """Return the sample, its groups, and all arrays by plant; the only one of a log has an empty name."""
    from safetensors import safe_open

    missing = [name for name in (_SAMPLE, _SUMS) if not (target / name).is_file()]
    if missing:
        raise DataError(f"{target} holds no summary of a log: {' and '.join(missing)} missing")
    plants = dict[str, dict[str, Tensor]]()
    try:
        with safe_open(target / _SUMS, framework="pt") as file:
            found = json.loads(file.metadata()["repairs"])
            repairs = Repairs(found["counts"], tuple(found["notes"]))
            groups = file.get_tensor("groups")
            for key in set(file.keys()) - {"groups"}:
                plant, _, name = key.rpartition("/")
                plants.setdefault(plant, {})[name] = file.get_tensor(key)
    except Exception as error:  # safetensors has errors of its own
        raise DataError(f"{target / _SUMS} cannot be read ({error}); summarize the log again") from error
    sample = read_parquet(target / _SAMPLE)
    if len(groups) != len(sample):
        raise DataError(f"{target} does not fit together; summarize the log again")
    return replace(sample, repairs=repairs), groups, plants
