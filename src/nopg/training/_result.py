"""What a training returns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from nopg._support import Support
from nopg._typing import ArrayLike, FloatArray
from nopg.bellman import Certificate, ControlProblem, Solution
from nopg.bellman._problem import unknown_under
from nopg.data import Transitions, start_note
from nopg.evaluation import Assessment, OfflineEvaluator, Verdict
from nopg.models import ColumnFit
from nopg.policies import FormulaPolicy
from nopg.training._constraints import ConstraintResult
from nopg.training._controller import Controller
from nopg.training._improve import solution_under
from nopg.training._reports import Update
from nopg.training._sensitivity import Deviation, GainCurve, deviations, gain_curves, limited


@dataclass(frozen=True, repr=False)
class TrainingResult:
    """A trained controller and what is known about it before it runs.

    Attributes:
        policy: The controller: numpy observation in, numpy action out.
        discount: γ.
        expected_return: The discounted return to expect from the initial states: along rollouts of the model,
            or Ĵ of the paper's equation.
        unknown_mass: The discounted probability of leaving the data.
        certificate: The proven numerical error of the solution.
        history: Every update of the training; with constraints of the ascent in which Ĵ counts the costs at
            their price.
        start: Where the ascent began.
        starts: Raw initial states, shape (n₀, d_s).
        unknown_starts: The unknown share of each under the best of the logged actions nearby, shape (n₀,).
        seed: The one seed of everything random.
        support: Where the data are: the unknown share at any (s, a), saved and exported with the result.
        interval: Where the return lies in 95 of 100 datasets; None with the paper's model.
        verdict: Whether the data can tell: `ok`, `weak` or `not identifiable`; None with the paper's model.
        reasons: Why the verdict is not `ok`.
        notes: What else the numbers rest on: where the task starts, exogenous columns, few starts.
        fitted: The equation on the fitted model, or a function that builds it from a file.
        constraints: What came of each limit, if there were some.
        saved_identity: The number of rows and the hash of the data of a result from a file.
    """

    policy: Controller
    discount: float
    expected_return: float
    unknown_mass: float
    certificate: Certificate
    history: tuple[Update, ...]
    start: str
    starts: torch.Tensor
    unknown_starts: torch.Tensor
    seed: int
    support: Support
    fitted: ControlProblem | Callable[[], ControlProblem]
    interval: tuple[float, float] | None = None
    verdict: Verdict | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    constraints: tuple[ConstraintResult, ...] = ()
    saved_identity: Mapping[str, object] | None = None

    @classmethod
    def of(
        cls,
        policy: Controller,
        solution: Solution,
        assessment: Assessment | None = None,
        *,
        evaluator: OfflineEvaluator | None = None,
        **known: Any,
    ) -> TrainingResult:
        """Return the result with the numbers of an assessment, else of the paper's equation."""
        found: Solution | Assessment = assessment or solution
        known |= {name: getattr(found, name) for name in ("expected_return", "unknown_mass")}
        known["notes"] = (start_note(solution.problem.data),)
        if assessment is not None:
            answer = ("interval", "verdict", "reasons", "notes")
            known |= {name: getattr(assessment, name) for name in answer}
        known |= {"discount": solution.problem.discount, "certificate": solution.certificate}
        result = cls(policy=policy, support=solution.problem.local_model.support, **known)
        cached = {"solution": solution, "evaluation": assessment, "evaluator": evaluator}
        vars(result).update({name: one for name, one in cached.items() if one is not None})
        return result

    @cached_property
    def _fitted(self) -> ControlProblem:
        return self.fitted if isinstance(self.fitted, ControlProblem) else self.fitted()

    @cached_property
    def solution(self) -> Solution:
        """The solution of the Bellman equation under the controller."""
        return solution_under(self._fitted, self.policy.policy, seed=self.seed)

    @property
    def problem(self) -> ControlProblem:
        """The equation that the controller was trained in."""
        return self.solution.problem

    @cached_property
    def evaluator(self) -> OfflineEvaluator:
        """Judges any policy: on the local model of the data."""
        return OfflineEvaluator.of(self._fitted.multistep)

    @cached_property
    def evaluation(self) -> Assessment:
        """What the data say of the controller: its return with an interval, paths and a verdict."""
        found = self.evaluator.assess(self.policy)
        return replace(found, notes=self.notes or found.notes)  # of the log as it was read

    @cached_property
    def gains(self) -> tuple[GainCurve, ...]:
        """The return that is predicted around each gain of a controller that is formulas."""
        return gain_curves(self.policy, self.evaluator)

    @cached_property
    def deviations(self) -> tuple[Deviation, ...]:
        """What is predicted if the controller may deviate from the logged one by little, or by more."""
        return deviations(self.policy, self.evaluator)

    def within(self, share: float) -> TrainingResult:
        """Return the controller that deviates from the logged one by a share of the logged range at most.

        The logged controller is imitated: by the same formulas with other gains where these do, else by a
        network. What is predicted is that of the new controller.

        Args:
            share: From 0, the logged controller, to 1.
        """
        near = limited(self.policy, self.evaluator.data, share)
        found = self.evaluator.assess(near)
        solution = solution_under(self._fitted, near.policy, seed=self.seed, paths=found.paths)
        same = ("fitted", "history", "start", "starts", "unknown_starts", "seed", "constraints")
        known = {name: getattr(self, name) for name in same}
        return TrainingResult.of(near, solution, found, evaluator=self.evaluator, **known)

    @property
    def column_fits(self) -> tuple[ColumnFit, ...]:
        """How well every state column and the reward is predicted on held-out rows."""
        return self.evaluator.model.column_fits

    @property
    def data(self) -> Transitions:
        """The transitions in the order in which they were logged, with the starts of the task."""
        return self._fitted.data.with_starts(self.starts)

    @cached_property
    def data_identity(self) -> Mapping[str, object]:
        """How many rows the data have, and a hash by which they are known again."""
        from nopg.training._saved import data_identity

        return self.saved_identity or data_identity(self._fitted.data)

    @property
    def start_unknown(self) -> float:
        """The share of the initial states that the data cannot account for, known before training.

        By the local model, whatever model the answer itself rests on.
        """
        return float(self.unknown_starts.mean())

    def value(self, states: ArrayLike) -> FloatArray:
        """Return V̂ at raw states (m, d_s)."""
        return self.solution.value(self.policy.schema.encode(self.policy.raw_states(states))).numpy()

    def unknown_at(self, states: ArrayLike) -> FloatArray:
        """Return the unknown share at raw states (m, d_s) and the actions of the controller there."""
        return unknown_under(
            self.support, self.policy.policy, self.policy.schema, self.policy.raw_states(states)
        )

    def summary(self) -> dict[str, object]:
        """Return the numbers of the result as plain values."""
        low, high = self.interval or (None, None)
        return {
            "expected_return": self.expected_return,
            "interval_low": low,
            "interval_high": high,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
            "unknown_mass": self.unknown_mass,
            "start_unknown": self.start_unknown,
            "return_error": self.certificate.return_error,
            "discount": self.discount,
            "updates": len(self.history),
            "start": self.start,
            **({"gains": law.gains} if isinstance(law := self.policy.policy, FormulaPolicy) else {}),
        }

    def save(self, path: str | os.PathLike[str], *, data: bool = True, overwrite: bool = False) -> Path:
        """Write the result to a file; `nopg.load` reads it.

        It holds JSON and safetensors, never a pickle. It appears under its name whole or not at all.

        Args:
            path: Must not exist yet.
            data: Whether to put the transitions in. Without them the controller, the numbers and `unknown_at`
                remain, but not what is asked of the model, such as `value`.
            overwrite: Whether an older result at the path is replaced.
        """
        from nopg.training._saved import save_result

        return save_result(self, path, with_data=data, overwrite=overwrite)

    def __repr__(self) -> str:
        start = ", start outside the data" if self.start_unknown > 0.5 else ""
        between = ""
        if self.interval is not None:
            low, high = self.interval
            between = f" in [{low:.6g}, {high:.6g}], {self.verdict}"
        return (
            f"TrainingResult(return {self.expected_return:.6g}{between}, "
            f"unknown mass {self.unknown_mass:.2%}, {len(self.history)} updates{start})"
        )
