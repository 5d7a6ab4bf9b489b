"""Logs of any length: the pass over their rows, and the controller that follows.

    python -m studies.large_logs pendulum --rows 1000000 --rows 10000000
    python -m studies.large_logs cart-pole --rows 1000000 --engine ray

Parquet files of a million rows are written first, uniform in the box of states and actions, where they are
not there yet; their cost is not counted. Development plants.
"""

from __future__ import annotations

import argparse
import math
import os
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import torch

import nopg
from nopg.data.io import write_parquet
from nopg.envs import CartPole, Environment, Pendulum, collect_uniform
from nopg.large_logs import LogSummary, summarize
from studies.markdown import table
from studies.memory import counted_bytes, peak_memory
from studies.plants import BENCHMARKS
from studies.printing import note, say
from studies.records import FOLDER, Record, append, code_version, last_of_each, read

__all__ = ["STUDY", "main", "page", "result"]

STUDY = "large-logs"
_FILE_ROWS = 1_000_000
_DISCOUNT = 0.99
# Between two measurements of memory.
_SECONDS = 0.5
_PLANTS: Mapping[str, tuple[Environment, str]] = MappingProxyType(
    {"pendulum": (Pendulum(), "pendulum-grid-99"), "cart-pole": (CartPole(), "cart-pole")}
)
_HEADS = (
    "plant",
    "rows",
    "engine",
    "workers",
    "pass, min",
    "rows per s",
    "MB a process",
    "MB in all",
    "training, s",
    "discounted return",
    "predicted",
    "sum of rewards",
)
_INTRODUCTION = """# Logs of any length

Made by `python -m studies page large-logs` from `results/studies/large-logs.jsonl`; do not edit. One pass
over Parquet files of a million rows each (uniform states and actions, development plants), then one call of
`nopg.optimize` with the summary, γ = .99. Wall time of the pass, the sample and its model included, on a
machine with two cores, loaded as the last column says; the largest memory of one process, and of all of this
machine's processes together, shared pages counted once, each half second. Discounted returns
and sums of rewards are those of the true plant. The sum is over the steps of its benchmark, 500 of the
pendulum, whose best known is −304, and 10 000 of the cart-pole, 100 times what the discount looks ahead.
"""


def write_log(plant: str, rows: int, folder: Path) -> list[Path]:
    """Return the files of a log of this many rows; those that are not there are written."""
    environment, files = _PLANTS[plant][0], list[Path]()
    for number in range(math.ceil(rows / _FILE_ROWS)):
        count = min(_FILE_ROWS, rows - number * _FILE_ROWS)
        file = folder / f"{plant}-{number:05d}-{count}.parquet"
        if not file.exists():
            data = collect_uniform(environment, count, seed=number, num_initial_states=20)
            write_parquet(data, file.with_suffix(".part"))
            file.with_suffix(".part").rename(file)
        files.append(file)
    return files


def run_one(plant: str, rows: int, folder: Path, *, workers: int, engine: str) -> Record:
    """Return the record of one log: the pass, then a training from its summary and the true return."""
    files = write_log(plant, rows, folder)
    load, began = os.getloadavg()[0], time.monotonic()
    with _AllProcesses() as memory:
        summary = summarize(files, workers=workers, engine=engine)  # type: ignore[arg-type]
    seconds = time.monotonic() - began
    largest = max(peak_memory(), peak_memory(children=True))
    trained, values = _trained(summary, plant)
    measured: dict[str, float] = {"workers": workers, "load": round(load, 1)}
    measured["megabytes"] = round(largest / 1e6)
    if engine == "processes":  # those of a cluster are no children of this one
        measured["total_megabytes"] = round(memory.most / 1e6)
    return Record(
        study=STUDY,
        benchmark=plant,
        role="development",
        method=engine,
        rows=rows,
        commit=code_version("src/nopg"),
        wall_seconds=round(seconds, 1),
        undiscounted=values.undiscounted,
        discounted=values.discounted,
        summary=trained,
        results=measured | {"training_seconds": trained["seconds"]},
    )


class _AllProcesses:
    """Measures, while it is entered, the most memory of this process and its children together.

    Pages that several processes share, such as those of libraries, count once.
    """

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS):
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            files = [Path(f"/proc/{process}/smaps_rollup") for process in ("self", *children)]
            shares = (counted_bytes(file, "Pss") or 0 for file in files)  # none of one that has ended
            self.most = max(self.most, sum(shares))


def _trained(summary: LogSummary, plant: str) -> tuple[dict[str, Any], Any]:
    """Return what is predicted of the controller from a summary, with its seconds, and its true returns."""
    torch.set_num_threads(1)
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = nopg.optimize(summary, _DISCOUNT, config=nopg.TrainingConfig(progress=False))
    seconds = round(time.monotonic() - began, 1)
    facts = {"interval": result.interval, "verdict": result.evaluation.verdict, "seconds": seconds}
    return facts, BENCHMARKS[_PLANTS[plant][1]].run(result.policy, 0)


def result(records: Sequence[Record]) -> str:
    """Return the table of all passes, and how the time of a pass grows with the rows."""
    chosen = sorted(last_of_each(records), key=lambda one: (one.benchmark, one.method, one.rows))
    rows = [
        (
            one.benchmark,
            f"{one.rows:,}".replace(",", " "),
            one.method,
            f"{one.results['workers']}",
            f"{_seconds(one) / 60:.1f}",
            f"{one.rows / _seconds(one):.0f}",
            f"{one.results['megabytes']}",
            f"{one.results.get('total_megabytes', '')}",
            f"{one.results['training_seconds']:.0f}",
            f"{one.discounted:.4g}",
            "{:.4g} … {:.4g}".format(*one.summary["interval"]),
            f"{one.undiscounted:.4g}",
            f"{one.results['load']}",
        )
        for one in chosen
    ]
    lines = [*table((*_HEADS, "load before"), rows), ""]
    for plant in _PLANTS:
        own = [one for one in chosen if (one.benchmark, one.method) == (plant, "processes")]
        if len(own) > 1:
            first, last = own[0], own[-1]
            power = math.log(_seconds(last) / _seconds(first)) / math.log(last.rows / first.rows)
            lines.append(f"{plant}: the time of a pass grows with rows to the power {power:.2f}")
    return "\n".join(lines)


def _seconds(record: Record) -> float:
    return math.nan if record.wall_seconds is None else record.wall_seconds


def page(records: Sequence[Record]) -> str:
    """Return the page."""
    return f"{_INTRODUCTION}\n{result(records)}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sizes that are asked for, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.large_logs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plant", choices=tuple(_PLANTS))
    parser.add_argument("--rows", type=int, action="append", help="rows of a log; repeatable")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engine", choices=("processes", "ray"), default="processes")
    parser.add_argument("--logs", type=Path, required=True, help="folder of the Parquet files")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the records")
    given = parser.parse_args(arguments)
    given.logs.mkdir(parents=True, exist_ok=True)
    for rows in given.rows or [_FILE_ROWS]:
        note(f"{given.plant}, {rows} rows")
        append(
            run_one(given.plant, rows, given.logs, workers=given.workers, engine=given.engine), given.folder
        )
    say(result(read(given.folder, STUDY)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
