"""Summaries on disk: the sample as a Parquet file, the sums as safetensors, no pickle."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from nopg._files import write_files
from nopg.data.io._files import extra
from nopg.data.io._parquet import read_parquet, write_parquet
from nopg.errors import ArgumentError, DataError
from nopg.models import LocalModel
from nopg.models._log_summary import LogSummary

__all__ = ["load_summary", "save_summary"]

_SAMPLE, _SUMS = "sample.parquet", "sums.safetensors"


def save_summary(summary: LogSummary, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a summary to a folder, and return its path.

    Args:
        summary: The summary.
        folder: Must not hold one, unless it may be overwritten.
        overwrite: Whether another summary is replaced.
    """
    target = Path(folder)
    if (target / _SUMS).exists() and not overwrite:
        raise ArgumentError(f"{target} holds a summary already; give another folder, or overwrite=True")
    with tempfile.TemporaryDirectory() as place:
        write_parquet(summary.sample, Path(place) / _SAMPLE)
        sample = (Path(place) / _SAMPLE).read_bytes()
    tensors = {name: one.contiguous() for name, one in summary.statistics.arrays().items()}
    sums = extra("safetensors.torch").save(tensors | {"groups": summary.groups.contiguous()})
    write_files({target / _SAMPLE: sample, target / _SUMS: sums})
    return target


def load_summary(folder: str | os.PathLike[str]) -> LogSummary:
    """Return the summary that `save_summary` wrote; its charts are placed again and compared."""
    target = Path(folder)
    missing = [name for name in (_SAMPLE, _SUMS) if not (target / name).is_file()]
    if missing:
        raise DataError(f"{target} holds no summary of a log: {' and '.join(missing)} missing")
    try:
        arrays = extra("safetensors.torch").load_file(target / _SUMS)
    except Exception as error:
        raise DataError(f"{target / _SUMS} cannot be read ({error}); summarize the log again") from error
    sample, groups = read_parquet(target / _SAMPLE), arrays.pop("groups", None)
    if groups is None or len(groups) != len(sample):
        raise DataError(f"{target} does not fit together; summarize the log again")
    model = LocalModel(sample, groups=groups)
    return LogSummary(sample, groups, model.steps.fitted_statistics.filled(arrays))
