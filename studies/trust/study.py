"""The runs of the study: one log each, a record for every controller on it."""

from __future__ import annotations

import argparse
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from nopg.baselines import baseline
from nopg.errors import NopgError
from studies.records import Record, code_version
from studies.study import Study
from studies.trust.assess import LOGGED, assess_all, train
from studies.trust.case import PATTERNS, Case, random_generator
from studies.trust.controllers import given_laws
from studies.trust.faults import FAULTS
from studies.trust.page import page
from studies.trust.trial import Trial, Truth

__all__ = ["FIRST_SEEDS", "TRUST", "Job", "regret"]

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


def _run(job: Job) -> list[Record]:
    """Judge the controllers of one log and simulate their true returns."""
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


def _record(job: Job, name: str = "", **values: Any) -> Record:
    given: dict[str, Any] = {"benchmark": "", "rows": 0, **values}
    case = {field.name: getattr(job.case, field.name) for field in fields(Case) if field.name != "seed"}
    return Record(
        **given,
        study="trust",
        method=name,
        seed=job.case.seed,
        role=job.role,
        commit=code_version(*_CODE[job.policies]),
        options={**case, "policies": job.policies},
    )


def _key(record: Record) -> Hashable:
    """Return a log, the kind of controllers and the version of the code."""
    *_, seed, options = record.run
    return seed, options, record.commit


def _jobs(given: argparse.Namespace) -> list[Job]:
    first = FIRST_SEEDS[given.role]
    faults = list(FAULTS) if "all" in given.fault else given.fault
    return [
        Job(Case(first + seed, fault, given.episodes, given.recording, given.pattern), given.policies)
        for seed in given.seeds
        for fault in faults
        if not (given.recording and FAULTS[fault].of_starts)
    ]


def _seeds(text: str) -> range:
    """Return the seeds of `60`, the first 60 of a role, or of `20-59`."""
    first, dash, last = text.partition("-")
    found = range(int(first), int(last) + 1) if dash else range(int(first))
    if len(found) and found[-1] >= 1_000:
        raise argparse.ArgumentTypeError("a role has 1 000 seeds")
    return found


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--role", required=True, choices=get_args(Role))
    parser.add_argument("--policies", required=True, choices=get_args(Policies))
    parser.add_argument("--seeds", default=range(20), type=_seeds, help="a number, or numbers such as 20-59")
    parser.add_argument("--fault", nargs="+", default=["none"], choices=("all", *FAULTS))
    parser.add_argument("--episodes", default=0, type=int, help="number of episodes; drawn by default")
    parser.add_argument(
        "--pattern", default="", choices=("", *PATTERNS), help="of the starts; drawn by default"
    )
    parser.add_argument(
        "--recording", action="store_true", help="one recording in which every row is a start"
    )


TRUST = Study(
    name="trust",
    about="verdicts on random plants and faulty logs, and the regret of choices",
    arguments=_arguments,
    jobs=_jobs,
    run=_run,
    blank=_record,
    key=_key,
    page=page,
    file="studies/pages/trust.md",
)
