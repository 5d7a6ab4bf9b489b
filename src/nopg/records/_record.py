"""Records on disk: JSON, by a schema, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from nopg.errors import DataError

__all__ = ["FORMAT", "Record", "plain_values", "read_records", "record_schema", "write_json"]

FORMAT = 1
"""The version of the records' layout; `record.schema.json` describes it."""

Record = dict[str, Any]
"""One trial: what was asked, on what data, by which code, what came out, what it took."""

_KEYS = frozenset({"format", "experiment", "mode", "method", "size", "seed", "results"})


def plain_values(value: Any) -> Any:
    """Return what JSON can hold of a value: tuples become lists, keys texts, and what is no number None."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a file that is either the old one or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    with unfinished.open("w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=1, ensure_ascii=False, allow_nan=False)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(path)


def read_records(folder: Path) -> list[Record]:
    """Return all records below a folder, in the order of their names; one we cannot read is named."""
    found = []
    for path in sorted(folder.rglob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{path} is no record: {error}; delete it, and the trial runs again") from None
        if not isinstance(record, dict) or not record.keys() >= _KEYS or record["format"] != FORMAT:
            raise DataError(f"{path} is no record of format {FORMAT}; delete it, and the trial runs again")
        found.append(record)
    return found


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema that every record keeps to."""
    text = files("nopg.records").joinpath("record.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
