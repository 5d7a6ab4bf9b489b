"""Records of everything measured: one line of JSON per run, one file per study."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import subprocess
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nopg.errors import DataError

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "results" / "studies"
"""Where the records are kept; the folder is made by the first run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run."""

    study: str  # Name of the study, and of its file.
    benchmark: str  # Name of the plant, experiment or case.
    method: str = ""  # What made the controller, or what else was measured.
    rows: int = 0  # Size of the dataset, in the unit of the benchmark.
    seed: int = 0  # Seed of the data, of the training and of the true returns.
    commit: str  # Last commit of the code that ran, with a mark or a digest of what was changed since.
    role: str = ""  # "development" or "report"; empty elsewhere.
    options: Mapping[str, Any] = field(default_factory=dict)  # What else distinguishes the run.
    cpu_seconds: float = 0.0
    wall_seconds: float | None = None
    undiscounted: float | None = None  # True mean sum of rewards.
    discounted: float | None = None  # True mean discounted return.
    standard_error: float | None = None  # Of the discounted return.
    episodes: int = 0  # Number of episodes behind the discounted return.
    warnings: tuple[str, ...] = ()  # Text of the warnings raised in training.
    # What was predicted before the controller ran; empty for rivals.
    summary: Mapping[str, Any] = field(default_factory=dict)
    # What a study measured beside returns, in its own layout.
    results: Mapping[str, Any] = field(default_factory=dict)
    # What a rerun needs: `data` (rows and hash), `versions` of the libraries. Old lines with `commit`: "of
    # storage" have the commit that added them instead of that of the code.
    setup: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> tuple[Any, ...]:
        """What distinguishes one run of a version of the code from another."""
        options = json.dumps(plain(self.options), sort_keys=True)
        return (self.study, self.benchmark, self.method, self.rows, self.seed, options)

    @property
    def true_return(self) -> float:
        """The discounted return; −∞ where the run diverged."""
        return -math.inf if self.discounted is None else self.discounted


# What a line leaves out where it is the default.
_DEFAULTS = {
    f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(Record)
}


def append(record: Record, folder: Path = FOLDER) -> None:
    """Add a line to the file of the study: all of it or nothing, also with several writers."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {name: value for name, value in asdict(record).items() if value != _DEFAULTS[name]}
    line = (json.dumps(plain(values), ensure_ascii=False, allow_nan=False) + "\n").encode()
    with (folder / f"{record.study}.jsonl").open("a+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        if end := stream.seek(0, os.SEEK_END):
            stream.seek(end - 1)
            if stream.read(1) != b"\n":  # drop the part of a line that a killed writer left
                stream.seek(0)
                stream.truncate(stream.read().rfind(b"\n") + 1)
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())


def read(folder: Path = FOLDER, study: str | None = None) -> list[Record]:
    """Return all records of one study or of all, in the order in which they were written."""
    found = []
    for path in sorted(folder.glob("*.jsonl" if study is None else f"{study}.jsonl")):
        text = path.read_text(encoding="utf-8")
        # JSON may hold other line ends than \n inside a text.
        for number, line in enumerate(text[: text.rfind("\n") + 1].split("\n")[:-1], start=1):
            try:
                values = dict(json.loads(line))
                found.append(Record(**values | {"warnings": tuple(values.get("warnings", ()))}))
            except (ValueError, TypeError) as error:
                raise DataError(
                    f"{path.name}, line {number} is no record: {error}; delete the line, its run starts again"
                ) from None
    return found


def last_of_each(records: Iterable[Record]) -> list[Record]:
    """Return the last line of every run, in the order in which the runs were first made."""
    return list({record.run: record for record in records}.values())


def latest(records: Iterable[Record], group: Callable[[Record], Hashable]) -> list[Record]:
    """Return the records of each group that are of the version that was written last."""
    groups: dict[Hashable, dict[tuple[str, int], Record]] = {}
    for record in records:
        runs = groups.setdefault(group(record), {})
        if runs and next(iter(runs.values())).commit != record.commit:
            runs.clear()
        runs[record.method, record.seed] = record
    return [record for runs in groups.values() for record in runs.values()]


@cache
def code_version(*paths: str) -> str:
    """Return the last commit that changed these paths, and a digest of changes that are not committed."""
    commit = _git("log", "-1", "--format=%h", "--", *paths) or "uncommitted"
    if not _git("status", "--porcelain", "--", *paths):
        return commit
    digest = hashlib.sha256()
    for path in (ROOT / path for path in paths):
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return f"{commit}+{digest.hexdigest()[:8]}"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def plain(value: Any) -> Any:
    """Return what JSON can hold of a value; what is no finite number becomes None."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
