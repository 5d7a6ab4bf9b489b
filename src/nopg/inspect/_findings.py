"""Findings, their grades and their order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """How serious a finding is, from the least to the most."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One property of the data that matters for training: what was found, and what to do about it.

    Every topic, such as `stuck sensor`, has at most one. `ok` is nothing to do, a `warning` probably worth
    correcting, an `error` to be corrected before training.
    """

    topic: str
    grade: Grade
    what: str
    advice: str

    def __str__(self) -> str:
        return f"[{self.grade}] {self.topic}: {self.what}. {self.advice}."


def ok(topic: str, what: str) -> Finding:
    """Return a finding with nothing to do."""
    return Finding(topic, Grade.OK, what, "Nothing to do")


def warning(topic: str, what: str, advice: str) -> Finding:
    """Return a finding that is probably worth correcting."""
    return Finding(topic, Grade.WARNING, what, advice)


def error(topic: str, what: str, advice: str) -> Finding:
    """Return a finding to correct before training."""
    return Finding(topic, Grade.ERROR, what, advice)


def graded(topic: str, what: str, advice: str, *, grave: bool, minor: bool = False) -> Finding:
    """Return a finding that is an `error` if grave, `ok` if minor, else a `warning`."""
    if grave:
        return error(topic, what, advice)
    return ok(topic, what) if minor else warning(topic, what, advice)
