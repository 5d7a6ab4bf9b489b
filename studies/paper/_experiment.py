"""What every experiment is: a plan of trials, a measurement for each, and what the records of all say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

from nopg.data import Transitions
from nopg.errors import ArgumentError
from studies.records import Record

__all__ = [
    "MODES",
    "MODE_WORDS",
    "Choice",
    "Experiment",
    "Finding",
    "Measurement",
    "Mode",
    "Trial",
    "mode_of",
]

Mode = Literal["ours", "paper", "faithful"]
"""The default model, nothing set; the paper's model, nothing set; the same with the supplement's settings."""

MODES: tuple[Mode, ...] = get_args(Mode)

MODE_WORDS: Mapping[Mode, str] = MappingProxyType(
    {"ours": "default model", "paper": "paper's model", "faithful": "supplement's settings"}
)


def mode_of(record: Record) -> Mode:
    """Return whose settings a record was made with."""
    return cast(Mode, record.options.get("mode", "ours"))


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: one measurement, one record.

    Attributes:
        experiment: Name of the experiment.
        mode: Whose settings.
        method: Which method.
        size: Size of the data: transitions, or demonstrations; steps of an online method.
        seed: Random seed.
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

    @classmethod
    def of(cls, record: Record, demonstrations: Path | None = None) -> Trial:
        """Return the trial of a record; one on a file of demonstrations needs that file."""
        name = record.options.get("demonstrations")
        if name is not None and (demonstrations is None or demonstrations.name != name):
            raise ArgumentError(f"this trial learned from {name}; give the file with --demonstrations")
        return cls(
            record.benchmark,
            mode_of(record),
            record.method,
            record.rows,
            record.seed,
            quick=record.study == "paper-quick",
            demonstrations=None if name is None else str(demonstrations),
        )

    @property
    def study(self) -> str:
        """The study, whose file keeps the record; short trials have their own."""
        return "paper-quick" if self.quick else "paper"

    def record(self, *, commit: str = "", **values: Any) -> Record:
        """Return the record of this trial."""
        options: dict[str, str] = {} if self.mode == "ours" else {"mode": self.mode}
        if self.demonstrations is not None:
            options["demonstrations"] = Path(self.demonstrations).name
        return Record(
            study=self.study,
            benchmark=self.experiment,
            method=self.method,
            rows=self.size,
            seed=self.seed,
            options=options,
            commit=commit,
            **values,
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """Which trials are asked for; None is the experiment's own choice.

    Attributes:
        modes: Whose settings.
        trials: Number of seeds.
        sizes: Sizes of the data.
        methods: Names of methods.
        quick: Whether to cut every trial short.
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
        results: Plain values for the record.
        data: What it learned from, None if it collected its own.
        config: The configuration, for the record.
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
        name: Name on the command line.
        title: Heading.
        place: Place in the paper; empty for a comparison that is not in it.
        claim: What the paper claims.
        deviations: Where ours differs from the paper's set-up, and why.
        has_figure: Whether it has a figure.
    """

    name: str
    title: str
    place: str
    claim: str
    deviations: tuple[str, ...] = ()
    has_figure: bool = True

    def chosen_methods(self, choice: Choice, known: Sequence[str]) -> tuple[str, ...]:
        """Return the methods asked for, all if none was; an unknown one is refused."""
        if choice.methods is None:
            return tuple(known)
        if unknown := sorted(set(choice.methods) - set(known)):
            raise ArgumentError(f"{self.name} has no method {unknown}; it has {list(known)}")
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
