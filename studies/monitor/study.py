"""False alarms and delays of `nopg.Monitor`.

Each log trains a controller, which then runs on the true plant, episode after episode. False alarms: 10 000
steps of the unchanged plant. Delays: after 600 steps of the unchanged plant, an actuator loses a fifth of its
gain, one sensor is off by ¼ standard deviation of its logged states, or the last moving column is pushed by ¼
standard deviation of its logged steps, in every step.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import nopg
from nopg import Transitions
from nopg._seeding import generator
from nopg.monitoring import Monitor
from studies.monitor.development_plants import DEVELOPMENT_PLANTS
from studies.monitor.plant import Fault, WatchedPlant
from studies.monitor.report_plants import FOUR_TANKS, MOTOR, REACTOR
from studies.records import Record, code_version, last_of_each
from studies.study import Study, seeds_of, table

_PLANTS = {plant.name: plant for plant in (*DEVELOPMENT_PLANTS, REACTOR, FOUR_TANKS, MOTOR)}
_HEALTHY_STEPS, _BEFORE, _AFTER, _WITHIN = 10_000, 600, 400, 200
_HEALTHY_RUNS, _FAULT_RUNS = 7, 4
# Episodes may end early: so many more are run.
_SPARE = 20
_KINDS = {"gain": "gain", "sensor": "sensor", "disturbance": "offset"}
_FAULTS = {"gain": "gain −20 %", "sensor": "sensor offset", "disturbance": "disturbance"}


def _fault(kind: str, watched: WatchedPlant, monitor: Monitor) -> Fault:
    """Return a fault of a kind, sized by the log."""
    model, states = monitor.result.evaluator.model, monitor.result.policy.schema.states
    if kind == "gain":
        return Fault(gain=0.8)
    size, spread = torch.zeros(model.num_states, dtype=torch.float64), model.rows.spread[: model.num_states]
    if kind == "sensor":
        k = states.index(watched.sensor)
        size[k] = 0.25 * model.state_space.units[k]
        return Fault(sensor=size, column=states[k])
    k = int((spread > 0).nonzero()[-1, 0])
    size[k] = 0.25 * spread[k]
    return Fault(push=size, column=states[k])


def _rows(
    watched: WatchedPlant, monitor: Monitor, rows: int, rng: torch.Generator, fault: Fault | None = None
) -> Transitions:
    """Return rows of episodes in sequence."""
    count = math.ceil(rows / watched.steps) + (_SPARE if rows < _HEALTHY_STEPS else 0)
    starts = watched.plant.initial(count, rng=rng)
    data = watched.run(monitor.result.policy, starts, watched.steps, rng, fault)
    return data.take(torch.arange(min(rows, len(data))))


def _run(job: tuple[str, int]) -> list[Record]:
    """Train on one log and return false alarms, delays and causes."""
    (name, log), began = job, time.process_time()
    watched = _PLANTS[name]
    config = nopg.TrainingConfig(updates=20, seed=log, progress=False)
    result = nopg.optimize(watched.log(watched, log), watched.discount, config=config)
    monitor = Monitor(result, shadow=False)
    healthy = [_healthy(monitor, watched, generator(100 * log + k, "healthy")) for k in range(_HEALTHY_RUNS)]
    faults = {
        kind: [_faulty(monitor, watched, kind, 100 * log + k) for k in range(_FAULT_RUNS)] for kind in _FAULTS
    }
    record = replace(
        _blank(job),
        cpu_seconds=round(time.process_time() - began, 1),
        summary={"verdict": result.verdict},
        results={"healthy": healthy, "faults": faults},
    )
    return [record]


def _blank(job: tuple[str, int]) -> Record:
    name, log = job
    return Record(
        study="monitor",
        benchmark=name,
        role=_PLANTS[name].role,
        rows=_PLANTS[name].rows,
        seed=log,
        commit=code_version("src/nopg/monitoring", "src/nopg/models", "studies/monitor"),
    )


def _healthy(monitor: Monitor, watched: WatchedPlant, rng: torch.Generator) -> dict[str, Any]:
    monitor.reset()
    data = _rows(watched, monitor, _HEALTHY_STEPS, rng)
    status = monitor.watch(data)
    found = None if status.change is None else status.change.found
    most = float(np.log10(monitor.history()["evidence"].max()))
    return {"rows": len(data), "found": found, "log10_evidence": round(most, 2), "verdict": status.verdict}


def _faulty(monitor: Monitor, watched: WatchedPlant, kind: str, seed: int) -> dict[str, Any]:
    monitor.reset()
    rng, fault = generator(seed, kind), _fault(kind, watched, monitor)
    before = _rows(watched, monitor, _BEFORE, rng)
    after = _rows(watched, monitor, _AFTER, rng, fault)
    monitor.watch(before)
    status = monitor.watch(after)
    if status.change is None:
        return {"delay": None, "verdict": status.verdict}
    change = status.change
    return {
        "delay": change.found - len(before),
        "since": change.since - len(before),
        "cause": change.words,
        "named": change.kind == _KINDS[kind] and fault.column in {"", change.column},
        "verdict": status.verdict,
    }


def _total(records: Sequence[Record], role: str) -> list[str]:
    """Return the sums over the plants of a role, beside what is aimed at."""
    chosen = [record for record in records if record.role == role]
    if not chosen:
        return []
    healthy = [sum(one["found"] is not None for one in record.results["healthy"]) for record in chosen]
    runs = _HEALTHY_RUNS * len(chosen)
    faults = [one for record in chosen for kind in _FAULTS for one in record.results["faults"][kind]]
    soon = sum(one["delay"] is not None and 0 < one["delay"] <= _WITHIN for one in faults)
    logs = sum(count > 0 for count in healthy)
    return [
        f"- {role} plants: false alarms in {sum(healthy)} of {runs} runs (at most 5 % aimed at), on {logs} "
        f"of {len(chosen)} logs; "
        f"{soon} of {len(faults)} faults found within {_WITHIN} steps (9 of 10 aimed at)."
    ]


def page(records: Sequence[Record]) -> str:
    """Return the page."""
    records = last_of_each(records)
    lines = [
        "# Watching a controller: false alarms and delays",
        "",
        "Made by `python -m studies page monitor` from `results/studies/monitor.jsonl`; do not edit. Every "
        f"log trains a controller (20 updates). False alarms: {_HEALTHY_RUNS} runs of {_HEALTHY_STEPS} steps "
        "of the unchanged plant for each log, with `false_alarms=0.05` per 10 000 steps. Found: share of "
        f"{_FAULT_RUNS} runs for each log in which the fault was found within {_WITHIN} steps, and the "
        "median delay. Faults: all actuators lose a fifth of their gain; one sensor is off by ¼ standard "
        "deviation of its logged states; the last moving column is pushed by ¼ standard deviation of its "
        "logged steps, in every step. Constants were chosen on development plants.",
        "",
    ]
    verdicts = Counter(one["verdict"] for record in records for one in record.results["healthy"])
    names = dict.fromkeys(record.benchmark for record in records)
    rows = [_row(name, [record for record in records if record.benchmark == name]) for name in names]
    heads = ("plant", "role", "logs", "false alarms", "highest evidence", *_FAULTS.values(), "cause named")
    lines += table(heads, rows)
    lines += ["", *(line for role in ("development", "report") for line in _total(records, role)), ""]
    lines += [
        "Highest evidence: of all unchanged runs, as a share of the threshold. Cause named: share of found "
        "faults of which kind (gain, sensor, or offset of a column for the disturbance) and column were "
        "named first. Verdicts on unchanged runs: "
        + ", ".join(f"{count} {name}" for name, count in sorted(verdicts.items()))
        + ".",
        "",
        "The pendulum's weaker motor is the hardest: it shows in the swing-up alone, where a fifth of at "
        "most 2 N m competes with torque noise of .5 N m; decision record 10 has the ways tried. A sensor "
        "offset on which no step depends, such as that of the cart's position, is never found. The bound on "
        "false alarms rests on errors of the model being like those on held-out rows; on one log of four "
        "tanks every unchanged run of its controller ends in an alarm, so they are not. Why the weaker "
        "actuator of the reactor is never found was not examined.",
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, records: list[Record]) -> list[str]:
    healthy = [one for record in records for one in record.results["healthy"]]
    alarms = sum(one["found"] is not None for one in healthy)
    highest = 10 ** (max(one["log10_evidence"] for one in healthy) - math.log10(_HEALTHY_STEPS / 0.05))
    cells = [name, records[0].role, f"{len(records)}", f"{alarms} of {len(healthy)}", f"{highest:.2g}"]
    named = found = 0
    for kind in _FAULTS:
        runs = [one for record in records for one in record.results["faults"][kind]]
        delays = [one["delay"] for one in runs if one["delay"] is not None and one["delay"] > 0]
        soon = sum(delay <= _WITHIN for delay in delays)
        median = f", {np.median(delays):.0f} steps" if delays else ""
        cells.append(f"{soon} of {len(runs)}{median}")
        found += len(delays)
        named += sum(one.get("named", False) for one in runs)
    return [*cells, f"{named} of {found}"]


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--role", choices=("development", "report"), default="development")
    parser.add_argument("--plants", nargs="*", choices=_PLANTS, help="instead of all plants of the role")
    parser.add_argument("--logs", default=(0, 1, 2), type=seeds_of, help="such as 0-2")


def _jobs(given: argparse.Namespace) -> list[tuple[str, int]]:
    chosen = given.plants or [name for name, plant in _PLANTS.items() if plant.role == given.role]
    return [(name, log) for name in chosen for log in given.logs]


MONITOR = Study(
    name="monitor",
    about="false alarms and delays of the monitor",
    arguments=_arguments,
    jobs=_jobs,
    run=_run,
    blank=_blank,
    page=page,
    file="studies/pages/monitor.md",
)
