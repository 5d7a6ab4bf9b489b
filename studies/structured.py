"""PI controllers trained from PI logs, beside the logged gains and the SIMC rule.

    python -m studies.structured level-tank --logs 0-4        (development)
    python -m studies.structured two-tanks --logs 0-9

For every log: the logged controller without its noise; a PI controller whose gains are trained on the log,
with what was predicted of it; and a PI controller by the SIMC rule (Skogestad, 2003) from a first-order model
with delay that is fitted to the log by least squares, within the bounds of the action, and within the logged
actions, where a trained controller stays. All run on the true plant from the starts of the log.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

import nopg
from nopg.baselines import FirstOrderPlant
from nopg.errors import NopgError
from nopg.policies import ControlStructure, FormulaPolicy
from nopg.training._controller import Controller
from nopg.training._sensitivity import limited
from nopg.training._structured import formula_policy, with_columns
from studies.calibration.plants.laws import Behaviour
from studies.logs import LOG_PLANTS, LogPlant, streamed
from studies.logs.controllers import PI
from studies.markdown import table
from studies.printing import note, say
from studies.records import FOLDER, Record, append, code_version, last_of_each, read
from studies.seeds import seeds_of

__all__ = ["STUDY", "main", "page", "result", "simc"]

STUDY = "structured"
_INTRODUCTION = """# PI controllers from PI logs

Made by `python -m studies page structured` from `results/studies/structured.jsonl`; do not edit. A PI
controller whose gains are trained on the log of another one, beside the logged gains without their noise
(`logged`) and the SIMC rule on a first-order fit of the same log: `simc` within the bounds of the action,
`simc-logged` within the actions that were logged, which a trained controller does not leave. `simc`
also begins otherwise: its integral is the mean logged action, the others add to the action before. Gains
within 1 % of those of `simc-logged` count as the same. Discounted returns on the true plant. Below each
table: the trained controller within a largest deviation from the imitated log, as a share of the logged
range of the action; gains over the imitated log.
"""
# Controlled column and set point of each plant.
LOOPS = {
    "level-tank": ("level", "setpoint"),
    "delay-line": ("output", "setpoint"),
    "heated-tank": ("temperature", "setpoint"),
    "pipeline": ("flow", "target"),
    "two-tanks": ("lower", "setpoint"),
    "reactor": ("temperature", "setpoint"),
}
# Gains that differ by less are the same.
_SAME = 0.01
_HEADS = ("rows", "log", "method", "true return", "predicted", "interval", "inside", "verdict", "gains")


def run_one(plant: LogPlant, log: int, rows: int, kind: str) -> list[Record]:
    """Return the records of one log: logged controller, trained one, SIMC."""
    torch.set_num_threads(1)
    data, loop = plant.data(rows, log), LOOPS[plant.name]
    records = [_record(plant, log, rows, "logged", plant.references()["clean PI"])]
    began = time.process_time()
    found = simc(data, *loop, plant)
    seconds = time.process_time() - began
    gains = {"kp": found.gain, "ki": found.gain / (found.integral_steps * _interval(data))}
    facts: dict[str, Any] = {"cpu_seconds": round(seconds, 3), "results": {"gains": gains}}
    records.append(_record(plant, log, rows, "simc", found, **facts))
    records.append(_record(plant, log, rows, "simc-logged", _within_log(plant, data, kind), **facts))
    return [*records, _trained(plant, log, data, kind)]


def _within_log(plant: LogPlant, data: nopg.Transitions, kind: str) -> Behaviour:
    """Return the controller that a training begins with: gains of the rule, within the logged actions."""
    derived, formulas = with_columns(_structure(plant, kind), data.derive(lags=plant.lags))
    logged = torch.stack(derived.actions.aminmax(dim=0))
    law = Controller(formula_policy(formulas, derived, logged), derived.schema)
    return streamed(law, derived.schema, (plant.low, plant.high))


def _structure(plant: LogPlant, kind: str) -> ControlStructure:
    output, set_point = LOOPS[plant.name]
    return ControlStructure(kind, follows={output: set_point})  # type: ignore[arg-type]


def _trained(plant: LogPlant, log: int, data: nopg.Transitions, kind: str) -> Record:
    structure = _structure(plant, kind)
    began, rows = time.process_time(), len(data)
    data = data.derive(lags=plant.lags)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        config = nopg.TrainingConfig(seed=log, progress=False)
        result = nopg.optimize(data, plant.discount, policy=structure, config=config)
    seconds = time.process_time() - began
    policy = result.policy.policy
    assert isinstance(policy, FormulaPolicy)
    law = streamed(result.policy, result.policy.schema, (plant.low, plant.high))
    return _record(
        plant,
        log,
        rows,
        kind,
        law,
        cpu_seconds=round(seconds, 1),
        warnings=tuple(str(one.message) for one in warned),
        summary={**result.summary(), "interval": result.interval},
        results={"gains": policy.gains, "deviations": _deviations(plant, log, result)},
    )


def _deviations(plant: LogPlant, log: int, result: nopg.TrainingResult) -> list[dict[str, Any]]:
    """Return the predicted and the true gain over the imitated log, by the largest deviation from it."""
    true, found = dict[float, float](), []
    for one in result.deviations:
        near = limited(result.policy, result.evaluator.data, one.share)
        law = streamed(near, near.schema, (plant.low, plant.high))
        true[one.share] = plant.returns(law, log).discounted
        low, high = one.gain.interval
        values = {"share": one.share, "gain": one.gain.mean, "low": low, "high": high}
        found.append({**values, "true": true[one.share] - true[0.0]})
    return found


def simc(data: nopg.Transitions, output: str, set_point: str, plant: LogPlant) -> PI:
    """Return the PI controller of the SIMC rule; its integral begins with the mean logged action."""
    gain, integral = FirstOrderPlant.of(data, output, data.schema.actions[0]).tuned()
    states, rest = data.schema.states, float(data.actions.mean())
    return PI(
        plant=plant,
        columns=(states.index(output), states.index(set_point)),
        gain=gain,
        integral_steps=integral,
        resting=lambda measured: np.full(len(measured), rest),
    )


def _interval(data: nopg.Transitions) -> float:
    return 1.0 if data.schema.interval is None else data.schema.interval


def _record(plant: LogPlant, log: int, rows: int, method: str, law: Behaviour, **facts: Any) -> Record:
    returns = asdict(plant.returns(law, log))
    finite = {name: value for name, value in returns.items() if np.isfinite(value)}
    commit = code_version("src/nopg")
    return Record(
        study=STUDY,
        benchmark=plant.name,
        role=plant.role,
        method=method,
        rows=rows,
        seed=log,
        commit=commit,
        **finite,
        **facts,
    )


def page(records: Sequence[Record]) -> str:
    """Return the page: PI controllers from PI logs, then deviations from the log."""
    lines = [_INTRODUCTION]
    for plant in LOG_PLANTS:
        for rows in sorted({one.rows for one in records if one.benchmark == plant}):
            chosen = [one for one in records if (one.benchmark, one.rows) == (plant, rows)]
            versions = ", ".join(sorted({one.commit for one in chosen if one.summary}))
            lines += [
                f"## {plant}, {rows} rows: {LOG_PLANTS[plant].role} plant, code {versions}",
                "",
                result(chosen, plant),
                "",
            ]
            lines += _deviation_lines(chosen)
    return "\n".join(lines)


def _deviation_lines(records: Sequence[Record]) -> list[str]:
    """Return the table of deviations, mean over logs, and on how many logs all gains were as predicted."""
    tables = [one.results["deviations"] for one in records if one.results.get("deviations")]
    if not tables:
        return []
    rows = []
    for steps in zip(*tables, strict=True):
        inside = sum(step["low"] <= step["true"] <= step["high"] for step in steps)
        means = [fmean(step[name] for step in steps) for name in ("gain", "true")]
        rows.append(
            (f"{steps[0]['share']:.0%}", *(f"{one:.4g}" for one in means), f"{inside} of {len(steps)}")
        )
    every = sum(all(step["low"] <= step["true"] <= step["high"] for step in steps) for steps in tables)
    heads = ("largest deviation", "predicted gain", "true gain", "inside the interval")
    closing = f"At every deviation inside: {every} of {len(tables)} logs."
    return [*table(heads, rows), "", closing, ""]


def result(records: Sequence[Record], plant: str) -> str:
    """Return the table of one plant, and how often the trained gains beat the others."""
    chosen = last_of_each(record for record in records if record.benchmark == plant)
    lines = []
    for one in sorted(chosen, key=lambda record: (record.seed, record.method)):
        low, high = one.summary.get("interval", (None, None))
        inside = "" if low is None else "yes" if low <= one.true_return <= high else "no"
        gains: Mapping[str, float] = one.results.get("gains", {})
        lines.append(
            (
                f"{one.rows}",
                f"{one.seed}",
                one.method,
                f"{one.true_return:.4g}",
                "" if low is None else f"{one.summary['expected_return']:.4g}",
                "" if low is None else f"{low:.4g} … {high:.4g}",
                inside,
                str(one.summary.get("verdict", "")),
                ", ".join(f"{name} {value:.3g}" for name, value in gains.items()),
            )
        )
    return "\n".join([*table(_HEADS, lines), "", *_counts(chosen)])


def _counts(records: Sequence[Record]) -> list[str]:
    """Return one line for each trained structure: on how many logs it beats the others."""
    of_log = {(one.method, one.seed): one for one in records}
    found = []
    for method in sorted({one.method for one in records if one.summary}):
        runs = [one for one in records if one.method == method]
        parts = [
            f"than {other} {_compared([(one, of_log[other, one.seed]) for one in runs])}"
            for other in ("logged", "simc", "simc-logged")
            if all((other, one.seed) in of_log for one in runs)
        ]
        inside = sum(
            one.summary["interval"][0] <= one.true_return <= one.summary["interval"][1] for one in runs
        )
        found.append(
            f"{method}, {len(runs)} logs: {'; '.join(parts)}; "
            f"the true return is inside {inside} of {len(runs)} intervals"
        )
    return found


def _compared(pairs: Sequence[tuple[Record, Record]]) -> str:
    """Return on how many logs controllers are better than others, act within the same limits alike, or not.

    The rule within the logged actions and a trained controller differ in their gains alone.
    """
    same = [other.method == "simc-logged" and _same_gains(one, other) for one, other in pairs]
    better = sum(
        one.true_return > other.true_return and not tie for (one, other), tie in zip(pairs, same, strict=True)
    )
    ties = f", the same on {sum(same)}" if any(same) else ""
    return f"better on {better}{ties}, worse on {len(pairs) - better - sum(same)}"


def _same_gains(one: Record, other: Record) -> bool:
    known: Mapping[str, float] = other.results["gains"]
    gains: Mapping[str, float] = one.results["gains"]
    return all(
        math.isclose(value, known.get(name, 0.0), rel_tol=_SAME, abs_tol=1e-12)
        for name, value in gains.items()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the logs that have no record, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.structured",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plant", choices=tuple(LOOPS))
    parser.add_argument("--logs", default="0-4", help="seeds of the logs, such as 0-4")
    parser.add_argument("--rows", type=int, help="rows of a log; the first size of the plant by default")
    parser.add_argument("--kind", choices=("pi", "pid", "p"), default="pi")
    parser.add_argument("--again", action="store_true", help="also logs that have a record")
    parser.add_argument("--folder", default=str(FOLDER), help="folder of the records")
    given = parser.parse_args(arguments)
    plant, folder = LOG_PLANTS[given.plant], Path(given.folder)
    for log in seeds_of(given.logs):
        rows = given.rows or plant.sizes[0]
        done = {one.method for one in read(folder, STUDY) if (one.benchmark, one.seed) == (plant.name, log)}
        if given.kind in done and not given.again:
            continue
        note(f"{plant.name}, log {log}, {rows} rows")
        try:
            for record in run_one(plant, log, rows, given.kind):
                append(record, folder)
        except NopgError as error:
            note(f"error: {error}")
            return 1
    say(result(read(folder, STUDY), plant.name))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
