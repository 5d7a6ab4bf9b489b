"""What a reader changed or left out on the way from a log to transitions, in plain counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

GAPS = "gaps in time, which cut episodes"
IRREGULAR = "irregular steps in time"
REPEATED = "rows with a repeated time stamp, merged"
REPAIRED = {"hold": "missing, held", "interpolate": "missing, interpolated"}
LEFT_OUT = "rows with a missing or infinite value, left out"
FILLED = "rows of the regular grid between rows of the log, held"


@dataclass(frozen=True, slots=True)
class Repairs:
    """Repairs of a log: nothing is repaired without an entry here.

    Attributes:
        counts: Number of values or rows of every repair, such as `{"level: missing word 'Bad'": 12}`.
        notes: What was found rather than changed, such as the encoding of a file.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __add__(self, other: Repairs) -> Repairs:
        """Return the sums of equal counts, and the notes of both, each once."""
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        return Repairs(dict(Counter(self.counts) + Counter(other.counts)), notes)

    def __bool__(self) -> bool:
        return bool(self.counts or self.notes)

    def __str__(self) -> str:
        return "\n".join((*(f"{what}: {number}" for what, number in self.counts.items()), *self.notes))


def repaired_values(repairs: Repairs) -> dict[str, int]:
    """Return the number of repaired values of every column that has some."""
    found = Counter[str]()
    for what, number in repairs.counts.items():
        name, _, how = what.rpartition(": ")
        found[name] += number if how in REPAIRED.values() else 0
    return dict(+found)
