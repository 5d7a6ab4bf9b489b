"""One run of the study of logs: read, derive, train, and run the controller on the true plant."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from nopg import Transitions
from nopg.errors import ArgumentError, NopgError
from studies.calibration.plants.laws import Behaviour
from studies.logs import LOG_PLANTS, LogPlant, streamed
from studies.logs.arx import arx_two_gains
from studies.ours import train_nopg
from studies.plants.benchmark import Returns
from studies.records import Record, code_version
from studies.rivals import RIVALS

__all__ = ["LOOPS", "METHODS", "STUDY", "Run", "run_one"]

STUDY = "logs"
_LEARNERS = ("nopg", "td3bc")
METHODS = (*_LEARNERS, "arx", "behaviour", "references")
# Controlled column and set point of the plants that have one of each.
LOOPS = MappingProxyType(
    {
        "level-tank": ("level", "setpoint"),
        "delay-line": ("output", "setpoint"),
        "heated-tank": ("temperature", "setpoint"),
        "pipeline": ("flow", "target"),
        "two-tanks": ("lower", "setpoint"),
        "reactor": ("temperature", "setpoint"),
    }
)
_NO_LAGS = MappingProxyType(dict[str, int]())


@dataclass(frozen=True, slots=True)
class Run:
    """What to run.

    Attributes:
        plant: Name of the plant.
        log: Seed of the log, of the training and of the true returns.
        rows: Number of rows.
        method: One of `METHODS`.
        lags: Earlier values by name; None for those that the plant declares, "auto" for a choice by the log.
        steps: Length of an episode of the undiscounted return; None for that of the plant.
        options: Fields of `nopg.TrainingConfig` that are not the default.
    """

    plant: str
    log: int
    rows: int
    method: str
    lags: Mapping[str, int] | str | None = None
    steps: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def run_one(run: Run) -> list[Record]:
    """Make a run; the references give one record each."""
    torch.set_num_threads(1)
    plant = LOG_PLANTS[run.plant]
    if run.method == "references":
        return [_known(run, plant, name, law) for name, law in plant.references().items()]
    if run.method == "behaviour":
        return [_known(run, plant, "behaviour", plant.behaviour())]
    if run.method == "arx":
        return [_arx(run, plant)]
    return [_learned(run, plant)]


def _known(run: Run, plant: LogPlant, name: str, law: Behaviour) -> Record:
    returns = plant.returns(law, run.log, run.steps)
    return _record(run, plant, name, returns, commit=code_version("studies/logs"))


def _arx(run: Run, plant: LogPlant) -> Record:
    if run.plant not in LOOPS:
        raise ArgumentError(f"{run.plant} has no single loop; the method arx is for {', '.join(LOOPS)}")
    output, set_point = LOOPS[run.plant]
    data, began = plant.data(run.rows, run.log), time.process_time()
    found = arx_two_gains(data, plant.discount, output=output, set_point=set_point)
    seconds = time.process_time() - began
    return _record(
        run,
        plant,
        "arx",
        plant.returns(found, run.log, run.steps),
        commit=code_version("studies/logs"),
        cpu_seconds=round(seconds, 3),
        results={"kind": found.kind, "gains": found.gains},
    )


def _learned(run: Run, plant: LogPlant) -> Record:
    """Return the record of a controller that was trained on the log with its derived columns."""
    data, began = plant.data(run.rows, run.log), time.process_time()
    lags = _lags(run, plant, data)
    derived = data.derive(lags=lags)
    facts: dict[str, Any] = {"results": {"lags": dict(lags), "derived_rows": len(derived)}}
    returns = Returns(math.nan, math.nan, math.nan, 0)
    try:
        policy, summary, warned = _train(run, derived, plant.discount)
    except NopgError as error:  # a method that gives up has failed the run
        facts |= {"warnings": (f"{type(error).__name__}: {error}",)}
        facts |= {"cpu_seconds": round(time.process_time() - began, 3)}
    else:
        facts |= {"warnings": warned, "summary": summary}
        facts |= {"cpu_seconds": round(time.process_time() - began, 3)}
        law = streamed(policy, derived.schema, (plant.low, plant.high))
        returns = plant.returns(law, run.log, run.steps)
    return _record(run, plant, run.method, returns, commit=code_version("src/nopg"), **facts)


def _train(
    run: Run, data: Transitions, discount: float
) -> tuple[Callable[[Any], Any], Mapping[str, Any], tuple[str, ...]]:
    """Return a controller, what it promises and the warnings of its training."""
    if run.method == "nopg":
        found = train_nopg(data, discount, run.log, run.options)
        return found.policy, found.summary, found.warnings
    return RIVALS[run.method](data, discount, run.log), {}, ()


def _lags(run: Run, plant: LogPlant, data: Transitions) -> Mapping[str, int]:
    """Return the lags of a run, chosen by the log alone where that is asked for."""
    if run.lags is None:
        return plant.lags
    if not isinstance(run.lags, str):
        return run.lags
    if run.lags == "none":
        return _NO_LAGS
    try:
        from nopg.models import select_lags  # type: ignore[attr-defined, unused-ignore]
    except ImportError as error:
        raise ArgumentError(
            "this version of nopg does not choose lags; give them, e.g. --lags valve=2"
        ) from error
    found: Any = select_lags(data)
    return dict(getattr(found, "lags", found))


def _record(run: Run, plant: LogPlant, method: str, returns: Returns, **facts: Any) -> Record:
    changed = {"lags": run.lags, "steps": run.steps, "config": dict(run.options) or None}
    finite = {name: value for name, value in asdict(returns).items() if np.isfinite(value)}
    return Record(
        study=STUDY,
        benchmark=plant.name,
        role=plant.role,
        method=method,
        rows=run.rows,
        seed=run.log,
        options={name: value for name, value in changed.items() if value is not None},
        **finite,
        **facts,
    )
