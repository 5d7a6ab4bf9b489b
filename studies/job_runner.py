"""Jobs one after another or in processes, and their records as they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

from studies.records import Record, append

__all__ = ["in_processes", "recorded"]

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_processes(todo: Sequence[Job], run: Callable[[Job], Result], workers: int) -> Iterator[Result]:
    """Yield the results of jobs: in their order with one worker, else as processes end."""
    if workers == 1:
        yield from map(run, todo)
        return
    with ProcessPoolExecutor(max_workers=workers) as pool:
        for done in as_completed([pool.submit(run, job) for job in todo]):
            yield done.result()


def recorded(
    todo: Sequence[Job], run: Callable[[Job], Sequence[Record]], workers: int, folder: Path
) -> Iterator[Record]:
    """Yield the records of jobs, each already written to the file of its study."""
    for records in in_processes(todo, run, workers):
        for record in records:
            append(record, folder)
            yield record
