"""Tables of figures as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping

from nopg._typing import FloatArray

# A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_table(columns: Mapping[str, FloatArray], digits: int | None = None) -> str:
    """Return columns by name as CSV; NaN is empty, and a quote precedes a name that looks like a formula.

    Args:
        columns: All of one length.
        digits: Significant digits; all of them if absent.

    Example:
        >>> import numpy as np
        >>> print(csv_table({"=level": np.array([-1.0, math.nan])}), end="")
        '=level
        -1.0
        ""
    """
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(f"'{name}" if name.startswith(_FORMULA) else name for name in columns)
    for row in zip(*columns.values(), strict=True):
        rows.writerow(_cell(float(value), digits) for value in row)
    return text.getvalue()


def _cell(value: float, digits: int | None) -> str:
    if math.isnan(value):
        return ""
    return repr(value) if digits is None else f"{value:.{digits}g}"
