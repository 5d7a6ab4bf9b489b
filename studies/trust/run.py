"""The runs of the study: one log each, a record for every controller on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import torch

from nopg.baselines import baseline
from nopg.errors import NopgError
from studies.job_runner import recorded
from studies.records import FOLDER, Record, code_version, read
from studies.trust.assess import LOGGED, assess_all, train
from studies.trust.case import Case, random_generator
from studies.trust.controllers import given_laws
from studies.trust.trial import Trial, Truth

__all__ = ["FIRST_SEEDS", "STUDY", "Job", "Policies", "Role", "missing", "run_all", "run_one"]

STUDY = "trust"
Role = Literal["development", "report"]
Policies = Literal["given", "trained"]
FIRST_SEEDS: Mapping[Role, int] = {"development": 0, "report": 10_000}
"""Seeds of a role begin here; those of development end below 1 000."""

_PARTS = ("baselines", "bellman", "data", "evaluation", "inspect", "models")
# What a change of makes a record out of date.
_CODE: Mapping[Policies, tuple[str, ...]] = {
    "given": tuple(f"src/nopg/{part}" for part in _PARTS),
    "trained": tuple(f"src/nopg/{part}" for part in (*_PARTS, "policies", "training")),
}


@dataclass(frozen=True, slots=True)
class Job:
    """One log and the kind of controllers to judge on it."""

    case: Case
    policies: Policies

    @property
    def role(self) -> Role:
        """Whether a default of the library may be chosen by it."""
        return "report" if self.case.seed >= FIRST_SEEDS["report"] else "development"


def missing(wanted: Sequence[Job], folder: Path = FOLDER) -> list[Job]:
    """Return the jobs without a record of the present version of the code."""
    done = {_place(record) for record in read(folder, STUDY)}
    return [job for job in wanted if _place(_record(job, "")) not in done]


def run_all(todo: Sequence[Job], *, workers: int = 1, folder: Path = FOLDER) -> Iterator[Record]:
    """Make runs and yield their records, each already written to the file of the study."""
    yield from recorded(todo, run_one, workers, folder)


def run_one(job: Job) -> list[Record]:
    """Judge the controllers of one log and simulate their true returns."""
    torch.set_num_threads(1)
    try:
        trial = Trial(job.case)
        return _given(job, trial) if job.policies == "given" else _trained(job, trial)
    except NopgError as error:  # refusing the log is an answer
        return [_record(job, "refused", summary={"refused": f"{type(error).__name__}: {error}"})]


def _given(job: Job, trial: Trial) -> list[Record]:
    data, discount = trial.log.data, trial.world.facts.discount
    policies: dict[str, Any] = dict(given_laws(trial.world.logger, random_generator(job.case.seed, "given")))
    with suppress(NopgError):  # some logs have no regulator
        policies["lqr"] = baseline("lqr", data, discount)
    answers = assess_all(data, discount, policies)
    return [
        _judged(job, trial, name, answer, truth=trial.truth(policies[name]))
        for name, answer in answers.items()
    ]


def _trained(job: Job, trial: Trial) -> list[Record]:
    choice, answer = train(trial.log.data, trial.world.facts.discount, job.case.seed)
    every = {name: trial.truth(policy) for name, policy in choice.policies.items()}
    truths = {name: one.mean for name, one in every.items()}
    truths[LOGGED] = trial.logged_truth().mean
    more = {
        "candidates": truths,
        "chosen": choice.chosen,
        "regret": regret(truths, choice.chosen),
        "gains": dict(choice.gains),
    }
    return [_judged(job, trial, "trained", answer, truth=every[choice.chosen], more=more)]


def regret(truths: Mapping[str, float], chosen: str) -> float | None:
    """Return (best − chosen) / (best − logged), at most 1; None where no candidate is better than the log.

    Args:
        truths: True returns of the candidates by name, and of the logged behaviour.
        chosen: Name of the chosen one.
    """
    best = max(value for name, value in truths.items() if name != LOGGED)
    room = best - truths[LOGGED]
    return min((best - truths[chosen]) / room, 1.0) if room > 0 else None


def _judged(
    job: Job,
    trial: Trial,
    name: str,
    answer: Mapping[str, Any],
    *,
    truth: Truth,
    more: Mapping[str, Any] | None = None,
) -> Record:
    facts = asdict(trial.world.facts)
    return _record(
        job,
        name,
        benchmark=facts.pop("kind"),
        rows=len(trial.log.data),
        cpu_seconds=round(answer["cpu_seconds"], 3),
        discounted=truth.mean,
        standard_error=truth.error,
        episodes=truth.paths,
        summary={key: value for key, value in answer.items() if key != "cpu_seconds"},
        results={
            "from_new_starts": truth.new,
            "new_error": truth.new_error,
            "facts": facts | {"strength": trial.world.fault.strength},
            **(more or {}),
        },
    )


def _record(job: Job, name: str, **values: Any) -> Record:
    given: dict[str, Any] = {"benchmark": "", "rows": 0, **values}
    case = {field.name: getattr(job.case, field.name) for field in fields(Case) if field.name != "seed"}
    return Record(
        **given,
        study=STUDY,
        method=name,
        seed=job.case.seed,
        role=job.role,
        commit=code_version(*_CODE[job.policies]),
        options={**case, "policies": job.policies},
    )


def _place(record: Record) -> tuple[Any, ...]:
    return record.seed, record.commit, *record.key[5:6]
