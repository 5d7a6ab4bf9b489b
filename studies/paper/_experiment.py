"""What every experiment is: runs to make, a measurement of each, and what the records of all say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from nopg.data import Transitions
from studies.records import Record

Mode = Literal["ours", "paper", "faithful"]
"""The default model, nothing set; the paper's model, nothing set; the same with the supplement's settings."""

MODES: tuple[Mode, ...] = get_args(Mode)

MODE_WORDS: Mapping[Mode, str] = {
    "ours": "default model",
    "paper": "paper's model",
    "faithful": "supplement's settings",
}


def mode_of(record: Record) -> Mode:
    """Return whose settings a record was made with."""
    return cast(Mode, record.options.get("mode", "ours"))


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim against the records."""

    claim: str  # What must be.
    found: str  # What came out, in figures.
    # In a word: 'reproduced', 'beaten', 'kept', 'missed', 'not reproduced', or 'not run in full'.
    verdict: str

    @classmethod
    def of(
        cls, claim: str, found: str, *, done: bool, kept: bool, words: tuple[str, str] = ("kept", "missed")
    ) -> Finding:
        """Return the finding on a claim that is kept or not, if all runs for it are done."""
        return cls(claim, found, words[0 if kept else 1] if done else "not run in full")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(ABC):
    """One figure or table of the paper."""

    name: str  # Name on the command line.
    title: str  # Heading.
    place: str  # Place in the paper.
    claim: str  # What the paper claims.
    deviations: tuple[str, ...] = ()  # Where ours differs from the paper's set-up, and why.

    def run(self, method: str, rows: int, seed: int, mode: Mode = "ours", **options: str) -> Record:
        """Return a run that has not been made: a record without results."""
        settings = options if mode == "ours" else {"mode": mode, **options}
        return Record(
            study="paper",
            benchmark=self.name,
            method=method,
            rows=rows,
            seed=seed,
            options=settings,
            commit="",
        )

    @abstractmethod
    def plan(self) -> list[Record]:
        """Return all runs, in the order in which they should be made."""

    @abstractmethod
    def measure(self, run: Record) -> tuple[dict[str, Any], Transitions | None]:
        """Make a run; return plain values for its record, and the data unless it collected them."""

    @abstractmethod
    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return the tables of the records, as lines of Markdown."""

    @abstractmethod
    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return what the records say of each claim."""

    @abstractmethod
    def draw(self, records: Sequence[Record]) -> Any:
        """Return the figure of the records; there are some."""
