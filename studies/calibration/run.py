"""Making the runs of the study: one log at a time, one record per policy."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

import nopg
from nopg.errors import NopgError
from nopg.evaluation import Assessment, OfflineEvaluator
from nopg.evaluation._behavior import logged_returns
from studies.calibration.cells import CELLS, Cell, Role
from studies.job_runner import recorded
from studies.records import FOLDER, Record, code_version, read

__all__ = ["STUDY", "Job", "Policies", "jobs", "missing", "run_all", "run_one"]

STUDY = "calibration"
Policies = Literal["given", "trained"]

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
    """Return the jobs of a role, log after log, so that a run that is stopped has seen all cells.

    Args:
        role: Development or report.
        policies: Given ones, or the one that is trained on the log.
        logs: Number of logs of every cell.
        plants: Names of the plants; all if empty.
    """
    cells = [cell for cell in CELLS if cell.role == role and (not plants or cell.plant_name in plants)]
    return [Job(cell, seed, policies) for seed in range(logs) for cell in cells]


def missing(wanted: Sequence[Job], folder: Path = FOLDER) -> list[Job]:
    """Return the jobs without a record of the present version of the code."""
    done = {(record.key[:2], record.key[3:]) for record in read(folder, STUDY)}
    blank = {job: _record(job, "") for job in wanted}
    return [job for job, record in blank.items() if (record.key[:2], record.key[3:]) not in done]


def run_all(todo: Sequence[Job], *, workers: int = 1, folder: Path = FOLDER) -> Iterator[Record]:
    """Make runs and yield their records, each already written to the file of the study."""
    yield from recorded(todo, run_one, workers, folder)


def run_one(job: Job) -> list[Record]:
    """Evaluate the policies of one log and simulate their true returns."""
    torch.set_num_threads(1)
    data = job.cell.log(job.seed)
    run = _given if job.policies == "given" else _trained
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run(job, data)
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
    return {
        "return_range": evaluator.model.return_range(evaluator.discount),
        "logged_return": logged,
    }


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


def _record(job: Job, name: str, **values: Any) -> Record:
    cell = job.cell
    return Record(
        study=STUDY,
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
