"""The studies: which benchmarks, methods and seeds each of them runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from nopg.errors import ArgumentError
from studies.plants import BENCHMARKS
from studies.rivals import RIVALS

__all__ = ["METHODS", "STUDIES", "Job", "Study", "jobs"]

METHODS = ("behaviour", "nopg", *RIVALS)
"""All methods, in the order of the table."""


@dataclass(frozen=True, slots=True)
class Study:
    """A set of runs.

    Attributes:
        name: Name on the command line, and of the file of records.
        benchmarks: Names of the benchmarks.
        methods: Methods that run unless others are asked for.
        seeds: Seeds that run unless others are asked for.
    """

    name: str
    benchmarks: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...] = tuple(range(10))


@dataclass(frozen=True, slots=True)
class Job:
    """One run to make."""

    study: str
    benchmark: str
    method: str
    rows: int
    seed: int


_COST = ("pendulum-uniform",)

STUDIES: Mapping[str, Study] = MappingProxyType(
    {
        study.name: study
        for study in (
            Study(
                "development",
                tuple(n for n, b in BENCHMARKS.items() if b.role == "development" and n not in _COST),
                ("behaviour", "nopg"),
            ),
            Study("report", tuple(n for n, b in BENCHMARKS.items() if b.role == "report"), METHODS),
            Study("cost", _COST, ("nopg",), (0, 1, 2)),
        )
    }
)
"""Development plants, report plants with all rivals, and CPU time by rows."""


def jobs(
    study: str,
    *,
    benchmarks: Sequence[str] = (),
    methods: Sequence[str] = (),
    rows: Sequence[int] = (),
    seeds: Sequence[int] = (),
) -> list[Job]:
    """Return the runs of a study, or those of them that are asked for.

    The behaviour does not depend on the size of the data and runs at the first size only.

    Args:
        study: Name of the study.
        benchmarks: Names of benchmarks of the study; all if empty.
        methods: Names of methods; those of the study if empty.
        rows: Sizes; those of each benchmark if empty.
        seeds: Seeds; those of the study if empty.
    """
    plan = _known("study", study, STUDIES)
    chosen = [name for name in plan.benchmarks if not benchmarks or name in benchmarks]
    for name in benchmarks:
        if name not in plan.benchmarks:
            raise ArgumentError(
                f"{study} has no benchmark {name!r}; choose from {', '.join(plan.benchmarks)}"
            )
    for name in methods:
        if name not in METHODS:
            raise ArgumentError(f"there is no method {name!r}; choose from {', '.join(METHODS)}")
    return [
        Job(study, name, method, size, seed)
        for name in chosen
        for method in methods or plan.methods
        for size in _sizes(name, method, rows)
        for seed in seeds or plan.seeds
    ]


def _sizes(benchmark: str, method: str, rows: Sequence[int]) -> Sequence[int]:
    sizes = BENCHMARKS[benchmark].sizes
    return sizes[:1] if method == "behaviour" else rows or sizes


def _known(what: str, name: str, among: Mapping[str, Study]) -> Study:
    if name not in among:
        raise ArgumentError(f"there is no {what} {name!r}; choose from {', '.join(among)}")
    return among[name]
