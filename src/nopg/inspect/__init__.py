"""A first look at a dataset before training: numbered, graded findings."""

from nopg.inspect._describe import Description, describe
from nopg.inspect._findings import Finding, Grade

__all__ = [
    "Description",
    "Finding",
    "Grade",
    "describe",
]
