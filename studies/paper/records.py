"""Records of the paper's experiments: one trial, enough in it to run the trial again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nopg.errors import DataError

__all__ = ["FORMAT", "Record", "read_records", "record_schema"]

FORMAT = 1
"""The version of the records' layout; `record.schema.json` describes it."""

Record = dict[str, Any]
"""One trial: what was asked, on what data, by which code, what came out, what it took."""

_KEYS = frozenset({"format", "experiment", "mode", "method", "size", "seed", "results"})


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
    text = (Path(__file__).parent / "record.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
