"""Plain values, and the content of JSON files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def plain_values(value: Any) -> Any:
    """Return a value for JSON: tuples become lists, keys strings, NaN and infinite numbers None."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_content(value: Mapping[str, Any]) -> bytes:
    """Return the content of a file of plain values; half a character, which UTF-8 lacks, is escaped."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode(errors="backslashreplace")
