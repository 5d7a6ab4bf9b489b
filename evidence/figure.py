"""A promised figure, what was measured, and whether it was kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Figure", "markdown", "worst"]


@dataclass(frozen=True)
class Figure:
    """One row of the evidence.

    Attributes:
        section: Which group of rows it belongs to.
        name: What was measured.
        required: What it must be, in words.
        measured: What it is, in words.
        kept: Whether the promise was kept.
        command: The command that prints it.
    """

    section: str
    name: str
    required: str
    measured: str
    kept: bool
    command: str

    def record(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return asdict(self)


def worst(section: str, errors: dict[str, float], limit: float, *, command: str) -> list[Figure]:
    """Return a row for every named error, each of which must not exceed the limit."""
    return [
        Figure(section, name, f"≤ {limit:.0e}", f"{error:.1e}", error <= limit, command)
        for name, error in errors.items()
    ]


def markdown(records: list[dict[str, Any]], *, note: str) -> str:
    """Return the table of the records, grouped by section."""
    lines = ["# Evidence", "", note, ""]
    for section in dict.fromkeys(record["section"] for record in records):
        lines += [f"## {section}", "", "| figure | must be | measured | |", "|---|---|---|---|"]
        lines += [_row(record) for record in records if record["section"] == section]
        commands = dict.fromkeys(row["command"] for row in records if row["section"] == section)
        lines += ["", "Printed by " + ", ".join(f"`{command}`" for command in commands) + ".", ""]
    return "\n".join(lines)


def _row(record: dict[str, Any]) -> str:
    verdict = "kept" if record["kept"] else "**missed**"
    return f"| {record['name']} | {record['required']} | {record['measured']} | {verdict} |"
