"""A first look at a dataset before training: numbered, graded findings."""

from nopg.inspect._clock import Clock
from nopg.inspect._columns import Column
from nopg.inspect._coverage import Coverage
from nopg.inspect._describe import Description, describe, quick_findings
from nopg.inspect._episodes import Episodes
from nopg.inspect._findings import Finding, Grade, count_of, share_of
from nopg.inspect._stuck import Run

__all__ = [
    "Clock",
    "Column",
    "Coverage",
    "Description",
    "Episodes",
    "Finding",
    "Grade",
    "Run",
    "count_of",
    "describe",
    "quick_findings",
    "share_of",
]
