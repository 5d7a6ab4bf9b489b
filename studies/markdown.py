"""Markdown for the pages that are made from records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    return [_line(heads), "|" + "---|" * len(heads), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
