"""Logs of any length: the pass over their rows, and the controller that follows.

Parquet files of a million rows are written first, uniform in the box of states and actions, where they are
not there yet; their cost is not counted. Development plants.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from types import MappingProxyType
from typing import Literal

import torch

import nopg
from nopg._seeding import generator
from nopg.data.io import write_parquet
from nopg.envs import CartPole, ControlLaw, Environment, Pendulum, collect_uniform, simulate
from nopg.large_logs import summarize
from studies.records import Record, code_version, last_of_each
from studies.study import Study, table

_FILE_ROWS = 1_000_000
_DISCOUNT, _EPISODES = 0.99, 100
# The plant that is logged, the one on which the controller runs, and how long and how often.
_PLANTS: Mapping[str, tuple[Environment, Environment, int, int]] = MappingProxyType(
    {
        "pendulum": (Pendulum(), Pendulum(), 500, 1),
        "cart-pole": (
            CartPole(),
            CartPole(rate=50, angle_limit=0.25, start_angle=0.1, max_voltage=5),
            10_000,
            10,
        ),
    }
)
_HEADS = (
    "plant",
    "rows",
    "engine",
    "workers",
    "pass, min",
    "rows per s",
    "MB a process",
    "training, s",
    "discounted return",
    "predicted",
    "sum of rewards",
)
_INTRODUCTION = """# Logs of any length

Made by `python -m studies page large-logs` from `results/studies/large-logs.jsonl`; do not edit. One pass
over Parquet files of a million rows each (uniform states and actions, development plants), then one call of
`nopg.optimize` with the summary, γ = .99. Wall time of the pass, the sample and its model included, on a
machine with two cores, loaded as the last column says; the largest memory of one process. Discounted returns
and sums of rewards are those of the true plant. The sum is over 500 steps of the
pendulum, whose best known is −304, and 10 000 of the cart-pole, 100 times what the discount looks ahead.
The cart-pole is logged with an end at 3° and ±24 V, and then runs with an end at .25 rad, ±5 V and
starts within .1 rad, half of them beyond its log: its sums say little of more rows.
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


@dataclass(frozen=True, slots=True)
class Job:
    """One log, where its files are, and who passes over it."""

    plant: str
    rows: int
    logs: Path
    processes: int
    engine: Literal["processes", "ray"]


def _blank(job: Job) -> Record:
    return Record(
        study="large-logs",
        benchmark=job.plant,
        role="development",
        method=job.engine,
        rows=job.rows,
        commit=code_version("src/nopg"),
    )


def _run(job: Job) -> list[Record]:
    """Return the record of one log: the pass, then a training from its summary and the true return."""
    files = write_log(job.plant, job.rows, job.logs)
    load, began = os.getloadavg()[0], time.monotonic()
    summary = summarize(files, workers=job.processes, engine=job.engine)
    seconds = time.monotonic() - began
    largest = 1_024 * max(getrusage(who).ru_maxrss for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    began = time.monotonic()
    result = nopg.optimize(summary, _DISCOUNT, config=nopg.TrainingConfig(progress=False))
    training = round(time.monotonic() - began, 1)
    measured: dict[str, float] = {"workers": job.processes, "load": round(load, 1)}
    measured |= {"megabytes": round(largest / 1e6), "training_seconds": training}
    undiscounted, discounted = _true_returns(job.plant, result.policy)
    record = replace(
        _blank(job),
        wall_seconds=round(seconds, 1),
        undiscounted=undiscounted,
        discounted=discounted,
        summary={"interval": result.interval, "verdict": result.evaluation.verdict},
        results=measured,
    )
    return [record]


def _true_returns(name: str, policy: ControlLaw) -> tuple[float, float]:
    """Return the mean sum of rewards over the steps of a plant, and the mean discounted return."""
    _, plant, steps, episodes = _PLANTS[name]
    starts = plant.initial(1 if episodes == 1 else _EPISODES, rng=generator(0, "true returns"))
    runs = simulate(plant, policy, steps=steps, initial_states=starts)
    rewards = torch.where(runs.alive, runs.rewards, 0.0)
    shares = _DISCOUNT ** torch.arange(len(rewards), dtype=rewards.dtype)
    return float(rewards[:, :episodes].sum(dim=0).mean()), float((shares @ rewards).mean())


def page(records: Sequence[Record]) -> str:
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
    return f"{_INTRODUCTION}\n" + "\n".join(lines) + "\n"


def _seconds(record: Record) -> float:
    return math.nan if record.wall_seconds is None else record.wall_seconds


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plant", choices=tuple(_PLANTS))
    parser.add_argument("--rows", type=int, action="append", help="rows of a log; repeatable")
    parser.add_argument("--processes", type=int, default=2, help="of a pass")
    parser.add_argument("--engine", choices=("processes", "ray"), default="processes")
    parser.add_argument("--logs", type=Path, required=True, help="folder of the Parquet files")


def _jobs(given: argparse.Namespace) -> list[Job]:
    given.logs.mkdir(parents=True, exist_ok=True)
    sizes = given.rows or [_FILE_ROWS]
    return [Job(given.plant, rows, given.logs, given.processes, given.engine) for rows in sizes]


LARGE_LOGS = Study(
    name="large-logs",
    about="logs of any length: the pass over their rows, and the controller that follows",
    arguments=_arguments,
    jobs=_jobs,
    run=_run,
    blank=_blank,
    page=page,
    file="studies/pages/large-logs.md",
)
