"""The records of the benchmark: one per case and number of threads, kept as each is done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evidence.study import write_records

__all__ = ["Record", "load", "save"]

Record = dict[str, Any]


def load(path: Path) -> list[Record]:
    """Return the stored records, none if there is no file."""
    records: list[Record] = json.loads(path.read_text()) if path.exists() else []
    return records


def save(path: Path, record: Record) -> None:
    """Put a record into the file, in the place of an older one of the same case; all or nothing."""
    kept = [old for old in load(path) if (old["name"], old["threads"]) != (record["name"], record["threads"])]
    write_records(path, [*kept, record])
