"""What each method can be used on: the paper's table, found by trying (`table:applicability`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_grid
from nopg.errors import NopgError
from nopg.policies import MLPPolicy
from studies.baselines import PWIS
from studies.markdown import table
from studies.paper._experiment import Choice, Experiment, Finding, Measurement, Trial
from studies.paper._methods import METHODS
from studies.paper._tasks import MOUNTAIN_CAR, TASKS
from studies.records import Record

__all__ = ["ApplicabilityStudy"]

_UPDATES, _ROWS = 10, 300
_PAPER: Mapping[str, dict[str, bool]] = MappingProxyType(
    {
        "ddpg-offline": {"demonstrations": True, "unstructured": True, "deterministic": True},
        "pwis": {"demonstrations": False, "unstructured": False, "deterministic": False},
        "nopg-d": {"demonstrations": True, "unstructured": True, "deterministic": True},
        "nopg-s": {"demonstrations": True, "unstructured": True, "deterministic": True},
    }
)
_HEADINGS = {
    "demonstrations": "demonstrations by a person",
    "unstructured": "unconnected transitions",
    "deterministic": "deterministic policies",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicabilityStudy(Experiment):
    """Each method is tried on each kind of data; what it says when it refuses is kept."""

    def plan(self, choice: Choice) -> list[Trial]:
        """Return one trial per method."""
        methods = self.chosen_methods(choice, list(_PAPER))
        return [Trial(self.name, "ours", method, _ROWS, 0, choice.quick) for method in methods]

    def measure(self, trial: Trial) -> Measurement:
        """Try a method on all."""
        attempts: dict[str, Callable[[], object]] = {
            "demonstrations": lambda: _train(trial.method, MOUNTAIN_CAR.data(1, 0), MOUNTAIN_CAR),
            "unstructured": lambda: _train(
                trial.method, collect_grid(Pendulum(), (5, 5, 2)), TASKS["pendulum-random"]
            ),
            "deterministic": lambda: _deterministic(trial.method),
        }
        results = {name: _tried(attempt) for name, attempt in attempts.items()}
        return Measurement(results, None, {"updates": _UPDATES})

    def tables(self, records: Sequence[Record]) -> list[str]:
        """Return the paper's table, with what a refusal says."""
        if not records:
            return []
        rows = [
            (METHODS[method].label, *(_cell(record.results[name]) for name in _HEADINGS))
            for method in _PAPER
            for record in records
            if record.method == method
        ]
        return [
            *table(("method", *_HEADINGS.values()), rows),
            "",
            "Bias and variance, the other two columns of the paper's table, are measured above: "
            "[the regulator](#gradient-direction-on-the-regulator).",
        ]

    def findings(self, records: Sequence[Record]) -> list[Finding]:
        """Return whether every cell is as in the paper."""
        claim = "Every cell as in the paper, by trying"
        found = {r.method: r.results for r in records}
        if set(found) != set(_PAPER):
            return [Finding(claim, "not run", "not run in full")]
        cells = [
            found[method][name]["applies"] == applies
            for method, row in _PAPER.items()
            for name, applies in row.items()
        ]
        verdict = "reproduced" if all(cells) else "not reproduced"
        return [Finding(claim, f"{sum(cells)} of {len(cells)}", verdict)]


def _train(method: str, data: Transitions, task: Any) -> object:
    return METHODS[method].train(task, data, 0, _UPDATES)


def _deterministic(method: str) -> object:
    """Ask a method for a gradient of a deterministic policy; those without gradients of ours train one."""
    task = TASKS["pendulum-random"]
    data = task.data(_ROWS, seed=0)
    if method != "pwis":
        return _train("nopg-d" if method == "nopg-s" else method, data, task)
    policy = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))
    return PWIS(task.logged(data), task.discount).estimate(policy, rng=generator(0, "none"))


def _tried(attempt: Callable[[], object]) -> dict[str, Any]:
    try:
        attempt()
    except NopgError as error:
        return {"applies": False, "says": str(error)}
    return {"applies": True, "says": None}


def _cell(tried: Mapping[str, Any]) -> str:
    return "yes" if tried["applies"] else f"no: {tried['says']}"
