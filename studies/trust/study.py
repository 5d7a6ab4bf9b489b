"""The runs of the study: one log each, a record for every controller on it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

import nopg
from nopg.baselines import baseline
from nopg.errors import NopgError
from nopg.evaluation import Assessment, OfflineEvaluator
from nopg.evaluation._comparison import LOGGED
from nopg.training._judge import judge
from nopg.training._proposals import regulators
from studies.records import Record, code_version
from studies.study import Study
from studies.trust.case import PATTERNS, Case, random_generator
from studies.trust.controllers import given_laws
from studies.trust.faults import FAULTS
from studies.trust.page import page
from studies.trust.trial import Trial, Truth

_NETWORK = "network"
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
    began = time.process_time()
    evaluator = OfflineEvaluator(data, discount)
    share, records = (time.process_time() - began) / len(policies), []
    for name, policy in policies.items():
        began = time.process_time()
        answer = evaluator.assess(policy)
        seconds = share + time.process_time() - began
        records.append(_judged(job, trial, name, answer, seconds=seconds, truth=trial.truth(policy)))
    return records


def _trained(job: Job, trial: Trial) -> list[Record]:
    """Judge what `optimize` takes of a network and regulators; the logged behaviour is no candidate.

    The network is trained once: `policy="auto"` trains the same one before it chooses.
    """
    began = time.process_time()
    config = nopg.TrainingConfig(seed=job.case.seed, progress=False)
    discount = trial.world.facts.discount
    result = nopg.optimize(trial.log.data, discount, policy="deterministic", config=config)
    evaluator, laws = result.evaluator, tuple(regulators(result.evaluator))
    judged = judge(evaluator, result.policy, laws, {})
    seconds = time.process_time() - began
    policies: dict[str, Any] = {**dict(laws), _NETWORK: result.policy}
    chosen = judged.kept or _NETWORK
    every = {name: trial.truth(policy) for name, policy in policies.items()}
    truths = {name: one.mean for name, one in every.items()} | {LOGGED: trial.logged_truth().mean}
    more = {
        "candidates": truths,
        "chosen": chosen,
        "regret": regret(truths, chosen),
        "gains": {
            name: evaluator.assess(law).gain_over(judged.logged).interval for name, law in policies.items()
        },
    }
    record = _judged(job, trial, "trained", judged.assessment, seconds=seconds, truth=every[chosen])
    summary, results = {**record.summary, "start": result.start}, {**record.results, **more}
    return [replace(record, summary=summary, results=results)]


def regret(truths: Mapping[str, float], chosen: str) -> float | None:
    """Return (best − chosen) / (best − logged), at most 1; None where no candidate is better than the log.

    Args:
        truths: True returns of the candidates by name, and of the logged behaviour.
        chosen: Name of the chosen one.
    """
    best = max(value for name, value in truths.items() if name != LOGGED)
    room = best - truths[LOGGED]
    return min((best - truths[chosen]) / room, 1.0) if room > 0 else None


def _judged(job: Job, trial: Trial, name: str, answer: Assessment, *, seconds: float, truth: Truth) -> Record:
    facts = asdict(trial.world.facts)
    return _record(
        job,
        name,
        benchmark=facts.pop("kind"),
        rows=len(trial.log.data),
        cpu_seconds=round(seconds, 3),
        discounted=truth.mean,
        standard_error=truth.error,
        episodes=truth.paths,
        summary={
            "expected_return": answer.expected_return,
            "interval": list(answer.interval),
            "standard_error": answer.standard_error,
            "model_error": answer.errors.model,
            "unknown_mass": answer.unknown_mass,
            "verdict": answer.verdict,
            "reasons": list(answer.reasons),
        },
        results={
            "from_new_starts": truth.new,
            "new_error": truth.new_error,
            "facts": facts | {"strength": trial.world.fault.strength, "kicks": trial.log.kicks},
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
