"""A description as plain text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from nopg.data import Repairs
from nopg.inspect._columns import Column
from nopg.inspect._findings import Finding, Grade
from nopg.inspect._wording import count_of, share_of, shortened

_INDENT = "  "


def headline(num_rows: int, columns: Sequence[Column], findings: Sequence[Finding], width: int) -> str:
    """Return the number of rows, of columns and of findings by grade, in one line if it fits."""
    roles, found = [column.role for column in columns], [finding.grade for finding in findings]
    grades = " · ".join(f"{found.count(grade)} {grade}" for grade in reversed(Grade))
    text = (
        f"{count_of(num_rows, 'transition')}: {count_of(roles.count('state'), 'state column')}, "
        f"{count_of(roles.count('action'), 'action column')}"
    )
    space = "      " if len(text) + len(grades) + 6 <= width else "\n"
    return f"{text}{space}{grades}"


def findings_text(findings: Sequence[Finding], width: int) -> str:
    """Return the findings, with advice where there is something to do."""
    topic = max(len(finding.topic) for finding in findings)
    lines = ["Findings"]
    for finding in findings:
        head = f"{_INDENT}{finding.number:>2}  {finding.grade:<7}  {finding.topic:<{topic}}  "
        lines += _wrapped(head, finding.what, width)
        if finding.grade != Grade.OK:
            lines += _wrapped(" " * (len(head) - 2) + "→ ", finding.advice, width)
    return "\n".join(lines)


def _wrapped(head: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head))


def columns_text(columns: Sequence[Column], width: int) -> str:
    """Return a table of the columns."""
    header = ["role", "unit", "low", "median", "high", "spread", "levels", "at ends"]
    rows = [header, *map(_column, columns)]
    if not any(column.unit for column in columns):
        rows = [[row[0], *row[2:]] for row in rows]

    # Names get the width that the numbers leave.
    taken = len(_INDENT) + sum(2 + max(len(row[k]) for row in rows) for k in range(len(rows[0])))
    names = ["column", *(shortened(one.name, max(width - taken, 6)) for one in columns)]
    return "Columns\n" + _aligned(
        [[name, *row] for name, row in zip(names, rows, strict=True)], width, left=2
    )


def _column(column: Column) -> list[str]:
    numbers = (column.low, column.median, column.high, column.spread)
    return [
        "angle" if column.period is not None else column.role,
        column.unit,
        *(_rounded(value, 4, column.high - column.low) for value in numbers),
        str(column.levels),
        share_of(column.at_ends) if column.role == "action" else "",
    ]


def facts_text(facts: Mapping[str, str], width: int) -> str:
    """Return facts by name."""
    return "\n".join(line for name, fact in facts.items() for line in _wrapped(f"{name:<12}", fact, width))


def repairs_text(repairs: Repairs, width: int) -> str:
    """Return what the reader repaired: counts, then notes."""
    rows = [(what, f"{number:,}".replace(",", " ")) for what, number in repairs.counts.items()]
    lines = ["Repairs"]
    widest = max((len(number) for _, number in rows), default=0)
    for what, number in rows:
        lines += _wrapped(f"{_INDENT}{number:>{widest}}  ", what, width)
    for note in repairs.notes:
        lines += textwrap.wrap(note, width, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return "\n".join(lines)


def _rounded(value: float, digits: int, unit: float = 1.0) -> str:
    """Return a value to some digits; a rounding error against the unit is 0."""
    return f"{0.0 if abs(value) < 1e-12 * unit else value:.{digits}g}"


def _aligned(rows: Sequence[Sequence[str]], width: int, *, left: int) -> str:
    """Return the cells in columns, the first ones flush left, numbers flush right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    gap = "  " if len(_INDENT) + sum(widths) + 2 * (len(widths) - 1) <= width else " "
    lines = []
    for row in rows:
        cells = [
            f"{cell:<{width}}" if k < left else f"{cell:>{width}}"
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((_INDENT + gap.join(cells)).rstrip())
    return "\n".join(lines)
