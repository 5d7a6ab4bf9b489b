"""False alarms and delays of `nopg.Monitor`: `python -m studies.monitor [--role report] [--logs 0-2]`.

Each log trains a controller, which then runs on the true plant, episode after episode. False alarms: 10 000
steps of the unchanged plant. Delays: after 600 steps of the unchanged plant, an actuator loses a fifth of its
gain, one sensor is off by ¼ standard deviation of its logged states, or the last moving column is pushed by ¼
standard deviation of its logged steps, in every step. Constants of the monitor were chosen on the
development plants.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import nopg
from nopg import Transitions
from nopg._seeding import generator
from nopg.monitoring import Monitor
from nopg.training import TrainingResult
from studies.markdown import table
from studies.plants import BENCHMARKS, Benchmark
from studies.plants.simulation import Noise
from studies.printing import say
from studies.records import Record, append, code_version, read
from studies.seeds import seeds_of

__all__ = ["main", "page"]

_STUDY = "monitor"
_HEALTHY_STEPS, _BEFORE, _AFTER, _WITHIN = 10_000, 600, 400, 200
_HEALTHY_RUNS, _FAULT_RUNS = 7, 4
# Length of an episode of the run; the pendulum swings up twice in 200 steps.
_EPISODES = {"two-tanks": 60, "lqr": 30, "stochastic-pendulum": 100, "cart-pole": 500}
# The sensor that goes wrong; nothing depends on the position of the cart, so no step tells its offset.
_SENSORS = {
    "two-tanks": "lower",
    "lqr": "x1",
    "stochastic-pendulum": "angle",
    "cart-pole": "angle",
    "reactor": "temperature",
    "four-tanks": "level1",
    "motor": "speed",
}
_KINDS = {"gain": "gain", "sensor": "sensor", "disturbance": "offset"}
_FAULTS = {"gain": "gain −20 %", "sensor": "sensor offset", "disturbance": "disturbance"}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a plant.

    Attributes:
        gain: Factor of all actions.
        sensor: Added to measured states, shape (d_s,).
        push: Added to the true state in every step, shape (d_s,).
        column: Name of the sensor or of the column that is pushed; empty for a gain, which all actions lose.
    """

    gain: float
    sensor: torch.Tensor
    push: torch.Tensor
    column: str = ""

    @classmethod
    def of(cls, kind: str, name: str, result: TrainingResult) -> Fault:
        """Return a fault of a plant by its kind, sized by the log; another kind is no fault."""
        model = result.evaluator.model
        moving = (model.rows.spread[: model.num_states] > 0).nonzero()[:, 0].tolist()
        states = result.policy.schema.states
        sensor, push = torch.zeros(2, model.num_states, dtype=torch.float64)
        if kind == "sensor":
            k = states.index(_SENSORS[name])
            sensor[k] = 0.25 * model.state_space.units[k]
            return cls(1.0, sensor, push, states[k])
        if kind == "disturbance":
            k = moving[-1]
            push[k] = 0.25 * model.rows.spread[k]
            return cls(1.0, sensor, push, states[k])
        return cls(0.8 if kind == "gain" else 1.0, sensor, push)


def benchmark_of(name: str) -> Benchmark:
    """Return a plant; the regulator gets noise of .2 on its actions, without which all runs are the same."""
    found = BENCHMARKS[name]
    return replace(found, noise=Noise(disturbance=(0.2, 0.2))) if name == "lqr" else found


def log_of(benchmark: Benchmark, seed: int) -> Transitions:
    """Return a log of the plant's first size."""
    data = benchmark.data(benchmark.sizes[0], seed)
    if benchmark.name != "lqr":
        return data
    actions = benchmark.noise.disturbed(data.actions, generator(seed, "noise of the log"))
    return replace(data, next_states=benchmark.plant.step(data.states, actions))


def run(
    benchmark: Benchmark, policy: Callable[[Any], Any], fault: Fault, *, rows: int, rng: torch.Generator
) -> Transitions:
    """Return rows of episodes in sequence, as they would be logged."""
    plant, noise = benchmark.plant, benchmark.noise
    steps = _EPISODES.get(benchmark.name, benchmark.steps)
    count = math.ceil(rows / steps) + (20 if rows < _HEALTHY_STEPS else 0)  # episodes may end early
    states = plant.initial(count, rng=rng)
    seen, alive = noise.measured(states, rng) + fault.sensor, torch.ones(count, dtype=torch.bool)
    columns: list[tuple[torch.Tensor, ...]] = []
    for _ in range(steps):
        asked = plant.applied(torch.as_tensor(policy(seen), dtype=torch.float64))
        states = plant.step(states, noise.disturbed(fault.gain * asked, rng)) + fault.push
        after = noise.measured(states, rng) + fault.sensor
        ends = plant.terminal(states)
        columns.append((seen, asked, plant.reward(seen, asked, after), after, ends, alive))
        seen, alive = after, alive & ~ends
    s, a, r, after, ends, there = (
        torch.stack(one, dim=1).flatten(0, 1) for one in zip(*columns, strict=True)
    )
    numbers = torch.arange(count).repeat_interleave(steps)
    data = Transitions.from_arrays(
        *(part[there] for part in (s, a, r, after)),
        terminated=ends[there],
        episodes=numbers[there],
        state_names=plant.state_names,
        action_names=plant.action_names,
        angles=plant.angles,
    )
    return data.take(torch.arange(min(rows, len(data))))


def measure(name: str, log: int) -> Record:
    """Train on one log and return false alarms, delays and causes."""
    torch.set_num_threads(1)
    benchmark, began = benchmark_of(name), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = nopg.TrainingConfig(updates=20, seed=log, progress=False)
        result = nopg.optimize(log_of(benchmark, log), benchmark.discount, config=config)
    monitor = Monitor(result, shadow=False)
    healthy = [
        _healthy(monitor, benchmark, generator(100 * log + k, "healthy")) for k in range(_HEALTHY_RUNS)
    ]
    faults = {
        kind: [_faulty(monitor, benchmark, kind, 100 * log + k) for k in range(_FAULT_RUNS)]
        for kind in _FAULTS
    }
    return Record(
        study=_STUDY,
        benchmark=name,
        role=benchmark.role,
        rows=benchmark.sizes[0],
        seed=log,
        commit=code_version("src/nopg/monitoring", "src/nopg/models", "studies/monitor.py"),
        cpu_seconds=round(time.process_time() - began, 1),
        summary={"verdict": result.verdict},
        results={"healthy": healthy, "faults": faults},
    )


def _healthy(monitor: Monitor, benchmark: Benchmark, rng: torch.Generator) -> dict[str, Any]:
    monitor.reset()
    data = run(
        benchmark,
        monitor.result.policy,
        Fault.of("none", benchmark.name, monitor.result),
        rows=_HEALTHY_STEPS,
        rng=rng,
    )
    status = monitor.watch(data)
    found = None if status.change is None else status.change.found
    most = float(np.log10(monitor.history()["evidence"].max()))
    return {"rows": len(data), "found": found, "log10_evidence": round(most, 2), "verdict": status.verdict}


def _faulty(monitor: Monitor, benchmark: Benchmark, kind: str, seed: int) -> dict[str, Any]:
    monitor.reset()
    rng, policy, fault = (
        generator(seed, kind),
        monitor.result.policy,
        Fault.of(kind, benchmark.name, monitor.result),
    )
    before = run(benchmark, policy, Fault.of("none", benchmark.name, monitor.result), rows=_BEFORE, rng=rng)
    after = run(benchmark, policy, fault, rows=_AFTER, rng=rng)
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
    rows = [_row(name, list(group)) for name, group in _by_plant(records)]
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


def _by_plant(records: Sequence[Record]) -> Iterator[tuple[str, Iterator[Record]]]:
    for name in dict.fromkeys(record.benchmark for record in records):
        yield name, (record for record in records if record.benchmark == name)


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


def main() -> None:
    """Run the study and print its page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", choices=("development", "report"), default="development")
    parser.add_argument("--plants", nargs="*", help="instead of all plants of the role")
    parser.add_argument("--logs", default="0-2", help="such as 0-2")
    parser.add_argument("--table-only", action="store_true")
    given = parser.parse_args()
    if not given.table_only:
        for name in given.plants or [name for name in _SENSORS if BENCHMARKS[name].role == given.role]:
            for log in seeds_of(given.logs):
                append(measure(name, log))
    say(page([*{record.run: record for record in read(study=_STUDY)}.values()]))


if __name__ == "__main__":
    main()
