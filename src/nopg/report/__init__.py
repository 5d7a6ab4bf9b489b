"""A first look at a dataset: what is in it, and what to mend before training."""

from nopg.report._clock import Clock
from nopg.report._columns import Column
from nopg.report._coverage import Coverage
from nopg.report._describe import Description, describe
from nopg.report._episodes import Episodes
from nopg.report._findings import Finding, Grade
from nopg.report._stuck import Run

__all__ = [
    "Clock",
    "Column",
    "Coverage",
    "Description",
    "Episodes",
    "Finding",
    "Grade",
    "Run",
    "describe",
]
