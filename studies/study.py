"""What every study is: a command that makes the runs without a record, and a page of all records."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from scipy.stats import binomtest

from nopg.report._style import save
from studies.records import FOLDER, ROOT, Record, append, read

_FIGURES = ROOT / "docs" / "figures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One study."""

    name: str  # On the command line, and of the file of records.
    about: str  # Help text.
    arguments: Callable[[argparse.ArgumentParser], object]  # Adds options to the command line.
    jobs: Callable[[argparse.Namespace], Sequence[Any]]  # The runs that parsed options ask for.
    # Makes a run and returns its records; in a process of its own if there are several.
    run: Callable[[Any], Sequence[Record]]
    blank: Callable[[Any], Record]  # A record of a run that has not been made.
    # What a record and the blank one of its run have in common.
    key: Callable[[Record], Hashable] = attrgetter("run")
    page: Callable[[Sequence[Record]], str] = lambda _: ""  # Markdown from all records.
    # Figures from all records, by name.
    figures: Callable[[Sequence[Record]], Mapping[str, Any]] = lambda _: {}
    file: str = ""  # Of the page, below the root; empty for none.

    def missing(self, wanted: Sequence[Any], folder: Path = FOLDER) -> list[Any]:
        """Return the runs that have no record."""
        done = {self.key(record) for record in read(folder, self.name)}
        return [job for job in wanted if self.key(self.blank(job)) not in done]

    def made(self, job: Any) -> Sequence[Record]:
        """Make a run on one thread, without warnings."""
        torch.set_num_threads(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.run(job)

    def make(self, todo: Sequence[Any], *, workers: int = 1, folder: Path = FOLDER) -> Iterator[Record]:
        """Make runs and yield their records, each already written to the file of the study."""
        for records in map(self.made, todo) if workers == 1 else self._in_processes(todo, workers):
            for record in records:
                append(record, folder)
                yield record

    def command(self, given: argparse.Namespace) -> None:
        """Make the runs that are asked for and have no record yet."""
        wanted = self.jobs(given)
        todo = wanted if given.again else self.missing(wanted, given.results)
        say(f"{len(todo)} of {len(wanted)} runs to make")
        for record in self.make(todo, workers=given.workers, folder=given.results):
            say(_line(record))

    def write(self, folder: Path = FOLDER) -> None:
        """Write the page and draw its figures."""
        records = read(folder, self.name)
        for name, figure in self.figures(records).items():
            save(figure, _FIGURES / name)
        if self.file:
            (ROOT / self.file).write_text(self.page(records), encoding="utf-8")

    def _in_processes(self, todo: Sequence[Any], workers: int) -> Iterator[Sequence[Record]]:
        with ProcessPoolExecutor(max_workers=workers) as pool:
            for done in as_completed([pool.submit(_made, self.run, job) for job in todo]):
                yield done.result()


def _made(run: Callable[[Any], Sequence[Record]], job: Any) -> Sequence[Record]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    return run(job)


def _line(record: Record) -> str:
    """Return a run in one line; figures of report plants are on the page alone."""
    options = "".join(f", {value}" for value in record.options.values() if value)
    words = f"{record.benchmark} {record.rows}, seed {record.seed}, {record.method}{options}"
    if "refused" in record.summary:
        words += f": {record.summary['refused']}"
    elif record.role != "report" and record.discounted is not None:
        words += f": {record.discounted:.4g}"
        if "verdict" in record.summary:
            words += ", {expected_return:.4g} predicted, {verdict}".format(**record.summary)
    return f"{words}, {record.cpu_seconds:.1f} CPU s"


def seeds_of(text: str) -> tuple[int, ...]:
    """Return the seeds of a text such as `0-9` or `0,2,5-7`.

    Example:
        >>> seeds_of("0,2,5-7")
        (0, 2, 5, 6, 7)
    """
    spans = [part.partition("-") for part in text.split(",")]
    return tuple(seed for first, _, last in spans for seed in range(int(first), int(last or first) + 1))


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    head, *body = (f"| {' | '.join(row)} |" for row in (heads, *rows))
    return [head, "|" + "---|" * len(heads), *body]


def share(hits: int, total: int) -> str:
    """Return a share in percent with its 95 % interval by Clopper and Pearson; nothing of no cases.

    Example:
        >>> share(19, 20)
        '95.0% [75.1%, 99.9%]'
    """
    if not total:
        return ""
    low, high = binomtest(hits, total).proportion_ci(0.95, "exact")
    return f"{hits / total:.1%} [{low:.1%}, {high:.1%}]"
