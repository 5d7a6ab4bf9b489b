"""JSON files: plain values, and atomic writes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["plain_values", "write_json"]


def plain_values(value: Any) -> Any:
    """Return a value for JSON: tuples become lists, keys strings, NaN and infinite numbers None."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    with unfinished.open("w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=1, ensure_ascii=False, allow_nan=False)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(path)
