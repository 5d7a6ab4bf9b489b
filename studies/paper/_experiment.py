"""What every experiment is: a plan of trials, a measurement for each, and what the records of all say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from nopg.data import Transitions
from nopg.errors import ArgumentError
from studies.paper.records import Record

__all__ = ["MODES", "Choice", "Experiment", "Finding", "Measurement", "Mode", "Trial"]

Mode = Literal["ours", "faithful"]
"""Nothing set, all from the data; or the supplement's settings."""

MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: one measurement, one record, one file.

    Attributes:
        experiment: Its name.
        mode: Whose settings.
        method: Which method.
        size: Of the data: transitions, or demonstrations; of an online method, steps.
        seed: Of everything random in it.
        quick: Whether it is cut short, to see that it runs.
        demonstrations: A file of demonstrations instead of the package's own.
    """

    experiment: str
    mode: Mode
    method: str
    size: int
    seed: int
    quick: bool = False
    demonstrations: str | None = None

    @property
    def cost(self) -> float:
        """About how much longer it takes than others, for an estimate of the time left."""
        return float(self.size)

    def path(self, folder: Path) -> Path:
        """Return where its record is kept; a file of this name is a complete record."""
        place = (folder / "quick" if self.quick else folder) / self.experiment / self.mode
        if self.demonstrations is not None:
            place /= Path(self.demonstrations).stem
        return place / f"{self.method}-{self.size}-{self.seed}.json"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which trials are asked for; what is left open is the experiment's own.

    Attributes:
        modes: Whose settings.
        trials: Seeds of each.
        sizes: Of the data.
        methods: Names.
        quick: Cut everything short.
        demonstrations: A file, for the experiment that learns from demonstrations.
    """

    modes: tuple[Mode, ...] = ("ours",)
    trials: int | None = None
    sizes: tuple[int, ...] | None = None
    methods: tuple[str, ...] | None = None
    quick: bool = False
    demonstrations: str | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a trial found.

    Attributes:
        results: For the record; JSON.
        data: What it learned from, None if it collected its own.
        config: The frozen configuration, for the record.
    """

    results: dict[str, Any]
    data: Transitions | None
    config: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim against the records.

    Attributes:
        claim: What must be.
        found: What came out, in figures.
        verdict: In a word: 'reproduced', 'beaten', 'kept', 'missed', 'not reproduced', or 'not run'.
    """

    claim: str
    found: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(ABC):
    """One figure or table of the paper.

    Attributes:
        name: As on the command line.
        title: As a heading.
        place: Where it stands in the paper.
        claim: What the paper says of it.
        deviations: Where ours differs from the paper's set-up, and why.
        has_figure: Whether there is a picture of it.
    """

    name: str
    title: str
    place: str
    claim: str
    deviations: tuple[str, ...] = ()
    has_figure: bool = True

    def chosen_methods(self, choice: Choice, known: Sequence[str]) -> tuple[str, ...]:
        """Return the methods asked for, all of them if none was; one that there is not is refused."""
        if choice.methods is None:
            return tuple(known)
        if strangers := sorted(set(choice.methods) - set(known)):
            raise ArgumentError(f"{self.name} has no method {strangers}; it has {list(known)}")
        return choice.methods

    @abstractmethod
    def plan(self, choice: Choice) -> list[Trial]:
        """Return the trials of a choice, in the order in which they should run."""

    @abstractmethod
    def measure(self, trial: Trial) -> Measurement:
        """Run one trial."""

    @abstractmethod
    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return the tables of the records, as lines of Markdown."""

    @abstractmethod
    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return what the records say of each claim."""
