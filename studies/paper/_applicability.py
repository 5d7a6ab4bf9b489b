"""What each method can be used on: the paper's table, found by trying (`table:applicability`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nopg import PaperModel, TrainingConfig
from nopg._seeding import generator
from nopg.baselines import train_offline
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_grid
from nopg.errors import NopgError
from nopg.policies import GaussianMLPPolicy, MLPPolicy, Policy
from nopg.training import optimize
from studies.baselines import PWIS
from studies.markdown import table
from studies.paper._experiment import Experiment, Finding, Measurement
from studies.paper._methods import LABELS
from studies.paper._tasks import TASKS, Task
from studies.records import Record

_UPDATES, _ROWS = 10, 300
_RANDOM = TASKS["pendulum-random"]
_METHODS = ("ddpg-offline", "pwis", "nopg-d", "nopg-s")
_HEADINGS = {
    "demonstrations": "demonstrations by a person",
    "unstructured": "unconnected transitions",
    "deterministic": "deterministic policies",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicabilityStudy(Experiment):
    """Each method is tried on each kind of data; what it says when it refuses is kept."""

    def plan(self) -> list[Record]:
        """Return one run per method."""
        return [self.run(method, _ROWS, 0) for method in _METHODS]

    def measure(self, run: Record) -> Measurement:
        """Try a method on all."""
        car, method = TASKS["mountain-car"], run.method
        attempts: dict[str, Callable[[], object]] = {
            "demonstrations": lambda: _try(method, car, car.data(1, 0)),
            "unstructured": lambda: _try(method, _RANDOM, collect_grid(Pendulum(), (5, 5, 2))),
            "deterministic": lambda: _try(method, _RANDOM, _RANDOM.data(_ROWS, 0), deterministic=True),
        }
        results = {name: _outcome(attempt) for name, attempt in attempts.items()}
        return Measurement(results, None, {"updates": _UPDATES})

    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return the paper's table, with what a refusal says."""
        if not records:
            return []
        by_method = {record.method: record.results for record in records}
        rows = [
            (LABELS[method], *(_cell(by_method[method][name]) for name in _HEADINGS))
            for method in _METHODS
            if method in by_method
        ]
        return [
            *table(("method", *_HEADINGS.values()), rows),
            "",
            "Bias and variance, the other two columns of the paper's table, are measured above: "
            "[the regulator](#gradient-direction-on-the-regulator).",
        ]

    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return whether every cell is as in the paper: PWIS applies to none, the others to all."""
        claim = "Every cell as in the paper, by trying"
        cells = [r.results[name]["applies"] == (r.method != "pwis") for r in records for name in _HEADINGS]
        if {r.method for r in records} != set(_METHODS):
            return [Finding(claim, "not run", "not run in full")]
        verdict = "reproduced" if all(cells) else "not reproduced"
        return [Finding(claim, f"{sum(cells)} of {len(cells)}", verdict)]


def _try(method: str, task: Task, data: Transitions, *, deterministic: bool = False) -> None:
    """Train for some updates, or raise what the method says."""
    rng, config = generator(0, "policy"), TrainingConfig(updates=_UPDATES, progress=False)
    if method == "ddpg-offline":
        train_offline("ddpg", data, discount=task.discount, updates=_UPDATES, snapshots=1)
    elif method == "pwis":
        kind = MLPPolicy if deterministic else GaussianMLPPolicy
        policy: Policy = kind.from_data(data.features, data.actions, rng=rng)
        PWIS(task.logged(data), task.discount).estimate(policy, rng=rng)
    else:
        gaussian = method == "nopg-s" and not deterministic
        optimize(
            data,
            task.discount,
            policy="gaussian" if gaussian else "deterministic",
            model=PaperModel.Config(),
            config=config,
        )


def _outcome(attempt: Callable[[], object]) -> dict[str, Any]:
    try:
        attempt()
    except NopgError as error:
        return {"applies": False, "says": str(error)}
    return {"applies": True, "says": None}


def _cell(tried: dict[str, Any]) -> str:
    return "yes" if tried["applies"] else f"no: {tried['says']}"
