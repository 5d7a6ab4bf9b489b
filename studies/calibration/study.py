"""The runs of the study: one log at a time, one record per policy."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import nopg
from nopg.errors import NopgError
from nopg.evaluation import Assessment, OfflineEvaluator
from nopg.evaluation._behavior import logged_returns
from studies.calibration.cells import CELLS, PLANTS, Cell, Policies, Role
from studies.calibration.page import page
from studies.records import Record, code_version
from studies.study import Study

_PARTS = ("bellman", "data", "evaluation", "models", "policies")
# What a change of makes a record out of date; after a change of a plant use --again.
_CODE: Mapping[Policies, tuple[str, ...]] = {
    "given": tuple(f"src/nopg/{part}" for part in _PARTS),
    "trained": tuple(f"src/nopg/{part}" for part in (*_PARTS, "training")),
}


@dataclass(frozen=True, slots=True)
class Job:
    """One log and the kind of policies to evaluate on it."""

    cell: Cell
    seed: int
    policies: Policies


def jobs(role: Role, policies: Policies, logs: int, plants: Sequence[str] = ()) -> list[Job]:
    """Return the jobs of a role, log after log, so that a run that is stopped has seen all cells."""
    cells = [cell for cell in CELLS if cell.role == role and (not plants or cell.plant_name in plants)]
    return [Job(cell, seed, policies) for seed in range(logs) for cell in cells]


def _run(job: Job) -> list[Record]:
    """Evaluate the policies of one log and simulate their true returns."""
    data = job.cell.log(job.seed)
    try:
        return (_given if job.policies == "given" else _trained)(job, data)
    except NopgError as error:  # refusing the log is an answer
        return [_record(job, "refused", summary={"refused": f"{type(error).__name__}: {error}"})]


def _given(job: Job, data: nopg.Transitions) -> list[Record]:
    began = time.process_time()
    evaluator = OfflineEvaluator(data, job.cell.discount)
    logged = logged_returns(data, job.cell.discount)
    facts = _facts(evaluator, None if logged is None else logged.mean)
    policies = job.cell.plant.policies(job.seed)
    share = (time.process_time() - began) / len(policies)
    records = []
    for name, policy in policies.items():
        began = time.process_time()
        summary = _summary(evaluator.assess(policy)) | facts
        records.append(_with_truth(job, name, policy, summary, share + time.process_time() - began))
    return records


def _trained(job: Job, data: nopg.Transitions) -> list[Record]:
    began = time.process_time()
    config = nopg.TrainingConfig(seed=job.seed, progress=False)
    result = nopg.optimize(data, job.cell.discount, config=config)
    logged = result.evaluator.logged().expected_return
    summary = _summary(result.evaluation) | _facts(result.evaluator, logged) | {"start": result.start}
    seconds = time.process_time() - began
    return [_with_truth(job, "trained", result.policy, summary, seconds)]


def _facts(evaluator: OfflineEvaluator, logged: float | None) -> dict[str, Any]:
    """Return what holds for all policies of a log."""
    return {"return_range": evaluator.model.return_range(evaluator.discount), "logged_return": logged}


def _summary(found: Assessment) -> dict[str, Any]:
    """Return all fields of an assessment that are numbers or words, and its standard error."""
    values = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    values["standard_error"] = found.standard_error
    return {name: value for name, value in values.items() if isinstance(value, (int, float, str, tuple))}


def _with_truth(
    job: Job, name: str, policy: Callable[[Any], Any], summary: Mapping[str, Any], seconds: float
) -> Record:
    truth = job.cell.true_return(policy, job.seed)
    return _record(
        job,
        name,
        summary=summary,
        cpu_seconds=round(seconds, 3),
        discounted=truth.mean,
        standard_error=truth.standard_error,
        episodes=truth.episodes,
        results={"from_new_starts": truth.from_new_starts},
    )


def _record(job: Job, name: str = "", **values: Any) -> Record:
    cell = job.cell
    return Record(
        study="calibration",
        benchmark=cell.plant_name,
        method=name,
        rows=cell.rows,
        seed=job.seed,
        role=cell.role,
        commit=code_version(*_CODE[job.policies]),
        options={
            "behaviour": cell.behaviour,
            "steps": cell.steps,
            "discount": cell.discount,
            "policies": job.policies,
        },
        **values,
    )


def _key(record: Record) -> Hashable:
    """Return a log, the kind of policies and the version of the code."""
    _, plant, _, *log = record.run
    return plant, *log, record.commit


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--role", required=True, choices=get_args(Role))
    parser.add_argument("--policies", required=True, choices=get_args(Policies))
    parser.add_argument("--logs", default=20, type=int, help="number of logs of every cell")
    parser.add_argument("--plant", action="append", default=[], choices=PLANTS, help="may be repeated")


CALIBRATION = Study(
    name="calibration",
    about="verdicts and intervals against true returns",
    arguments=_arguments,
    jobs=lambda given: jobs(given.role, given.policies, given.logs, given.plant),
    run=_run,
    blank=_record,
    key=_key,
    page=page,
    file="studies/pages/calibration.md",
)
