"""Run some stored runs again and compare: `python -m studies check`."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch

from nopg.errors import ArgumentError, SupportWarning
from studies.demonstrations import DEMONSTRATIONS
from studies.paper import EXPERIMENTS
from studies.plan import STUDIES, Job
from studies.records import FOLDER, Record, last_of_each, plain, read
from studies.run import run_one

__all__ = ["differences", "drawn", "run_again"]

# Depends on the machine and its load.
_TIMES = ("seconds", "cpu_seconds", "wall_seconds")
_COMPARED = ("undiscounted", "discounted", "standard_error", "episodes", "warnings", "summary", "results")


def drawn(study: str, number: int, seed: int, folder: Path = FOLDER) -> list[Record]:
    """Return stored records of a study, drawn at random without replacement; the last one of each run."""
    known = last_of_each(read(folder, study))
    if study not in {"paper", *STUDIES} or not known:
        raise ArgumentError(f"there is no record of a run of {study!r} that could be made again")
    return random.Random(seed).sample(known, min(number, len(known)))


def run_again(record: Record, demonstrations: Path | None = None) -> Record | None:
    """Make the run of a record again with the present code.

    Args:
        record: What was stored.
        demonstrations: The file that a record of other demonstrations than the package's own needs.
    """
    torch.set_num_threads(1)
    if record.study in STUDIES:
        job = Job(**{f.name: getattr(record, f.name) for f in fields(Job)})
        return run_one(job, record.options)
    name = record.options.get("demonstrations")
    if name is not None and (demonstrations is None or demonstrations.name != name):
        raise ArgumentError(f"this run learned from {name}; give the file with --demonstrations")
    if demonstrations is not None:
        os.environ[DEMONSTRATIONS] = str(demonstrations)
    warnings.simplefilter("ignore", SupportWarning)  # starts outside the data are part of the studies
    return replace(record, results=EXPERIMENTS[record.benchmark].measure(record)[0])


def differences(stored: Record, again: Record | None) -> list[str]:
    """Return where two records of one run differ, apart from times; nothing if they are equal to the bit."""
    if again is None:
        return ["it was not made again"]
    old, new = (plain({name: asdict(record)[name] for name in _COMPARED}) for record in (stored, again))
    return list(_different(old, new, ""))


def _different(old: Any, new: Any, place: str) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new} - {*_TIMES}):
            yield from _different(old.get(name), new.get(name), f"{place}.{name}".lstrip("."))
    elif _is_list(old) and _is_list(new) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _different(one, other, f"{place}[{number}]")
    elif old != new:
        yield f"{place}: {old} stored, {new} now"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
