"""What `optimize` returns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from nopg._stream import check_states, wrong_shape
from nopg._typing import ArrayLike, FloatArray, as_tensor
from nopg.bellman import Certificate, ControlProblem, Solution
from nopg.data import Schema, Transitions
from nopg.errors import ArgumentError, DataError
from nopg.evaluation import OfflineEvaluation, OfflineEvaluator, Verdict
from nopg.models import ColumnFit
from nopg.models._rollout import Rollout, rollout
from nopg.models._state_support import CondensedSupport
from nopg.policies import FormulaPolicy
from nopg.training._constraint import ConstraintResult
from nopg.training._controller import Controller
from nopg.training._deviations import DeviationTable, deviation_table, limited
from nopg.training._gains import GainTable, gain_table
from nopg.training._reports import Update
from nopg.training._saving import save_result
from nopg.training._starts import StartSupport
from nopg.training._summary import LiveSource, ResultSource, Summary

__all__ = ["TrainingResult"]


@dataclass(frozen=True, repr=False)
class TrainingResult:
    """A trained controller and what is known about it before it runs.

    Attributes:
        policy: The controller: numpy observation in, numpy action out.
        numbers: The numbers that the training ended with.
        history: Every update of the training; with constraints of the round that was chosen, in which Ĵ
            counts the costs at their price.
        start: Where the ascent began.
        start_support: What the data know of the initial states.
        seed: The one seed of everything random.
        source: Where solution and support come from.
        constraints: What came of each limit, if there were some.
    """

    policy: Controller
    numbers: Summary
    history: tuple[Update, ...]
    start: str
    start_support: StartSupport
    seed: int
    source: ResultSource
    constraints: tuple[ConstraintResult, ...] = ()

    @cached_property
    def solution(self) -> Solution:
        """The solution of the Bellman equation under the controller."""
        return self.source.solution()

    @property
    def problem(self) -> ControlProblem:
        """The equation that the controller was trained in."""
        return self.solution.problem

    @cached_property
    def evaluator(self) -> OfflineEvaluator:
        """Judges any policy: on the model that the controller was trained on, where that has rollouts."""
        problem = self.problem.multistep
        return OfflineEvaluator.of(problem) if problem else OfflineEvaluator(self.data, self.discount)

    @cached_property
    def evaluation(self) -> OfflineEvaluation:
        """What the data say of the controller: its return with an interval, paths and a verdict."""
        known = self.source.evaluation()
        if known is not None:
            return known
        found = self.evaluator.evaluate(self.policy)
        if self.verdict is not None:  # the numbers of the paper's equation are others
            self.numbers.check(found)
        return found

    @cached_property
    def gains(self) -> GainTable:
        """The gains of a controller that is formulas, with the return that is predicted around each."""
        return gain_table(self.policy, self.evaluator)

    @cached_property
    def deviations(self) -> DeviationTable:
        """What is predicted if the controller may deviate from the logged one by little, or by more."""
        return deviation_table(self.policy, self.evaluator)

    def within(self, share: float) -> TrainingResult:
        """Return the controller that deviates from the logged one by a share of the logged range at most.

        The logged controller is imitated: by the same formulas with other gains where these do, else by a
        network. What is predicted is that of the new controller; at runtime the limit can be lowered further
        (`RuntimeController.within`).

        Args:
            share: From 0, the logged controller, to 1.
        """
        near = limited(self.policy, self.evaluator.data, share)
        evaluation, solution = self.evaluator.evaluate(near), self.problem.solve(near.policy, seed=self.seed)
        return replace(
            self,
            policy=near,
            numbers=Summary.of(solution, evaluation),
            source=LiveSource(solution, evaluation),
        )

    @property
    def column_fits(self) -> tuple[ColumnFit, ...]:
        """How well every state column and the reward is predicted on held-out rows."""
        return self.evaluator.model.column_fits

    @cached_property
    def condensed_support(self) -> CondensedSupport:
        """The support of the data by few representatives, which is saved and exported with the controller."""
        return self.source.support()

    @property
    def data(self) -> Transitions:
        """The transitions in the order in which they were logged, with the starts of the task."""
        data = self.problem.data
        return data if data.initial_states is not None else data.starting_at(self.start_support.states)

    @cached_property
    def data_identity(self) -> Mapping[str, object]:
        """How many rows the data have, and a hash by which they are known again."""
        return self.source.data_identity()

    @property
    def discount(self) -> float:
        """γ."""
        return self.numbers.discount

    @property
    def start_unknown(self) -> float:
        """The share of the initial states that the data cannot account for, known before training.

        By the rule of `StateSupport.prior_mass`, whatever model and β the answer itself rests on.
        """
        return float(self.start_support.unknown.mean())

    @property
    def expected_return(self) -> float:
        """The discounted return that the data let us expect from the initial states."""
        return self.numbers.expected_return

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the return lies in 95 of 100 datasets; None with the paper's model."""
        return self.numbers.interval

    @property
    def verdict(self) -> Verdict | None:
        """Whether the data can tell: `ok`, `weak` or `not identifiable`; None with the paper's model."""
        return self.numbers.verdict

    @property
    def unknown_mass(self) -> float:
        """The discounted probability of leaving the data."""
        return self.numbers.unknown_mass

    @property
    def certificate(self) -> Certificate:
        """The proven numerical error of the solution."""
        return self.numbers.certificate

    def value(self, states: ArrayLike) -> FloatArray:
        """Return V̂ at raw states (m, d_s); see `BellmanSolution.value`."""
        return self.solution.value(self._features(states)).numpy()

    def action_value(self, states: ArrayLike, actions: ArrayLike) -> FloatArray:
        """Return Q̂ at raw states (m, d_s) for actions (m, d_a)."""
        return self.solution.action_value(self._features(states), as_tensor(actions)).numpy()

    def visitation(self, states: ArrayLike) -> FloatArray:
        """Return μ̃ at raw states (m, d_s); see `BellmanSolution.visitation`."""
        return self.solution.visitation(self._features(states)).numpy()

    def unknown_at(self, states: ArrayLike) -> FloatArray:
        """Return the unknown mass at raw states (m, d_s)."""
        return self.solution.unknown_at(self._features(states)).numpy()

    def support(self, states: ArrayLike) -> FloatArray:
        """Return the effective sample size at raw states (m, d_s)."""
        return self.solution.support(self._features(states)).numpy()

    def predicted_paths(self, steps: int, states: ArrayLike | None = None) -> Rollout:
        """Return predicted paths of the controller over a number of steps from raw states (m, d_s).

        By default from the initial states, and without the noise of the plant.
        """
        if steps < 1:
            raise ArgumentError(f"steps is {steps}; give at least 1")
        begin = self.evaluator.problem.starts
        if states is not None:
            begin = self._states(states)
        return rollout(
            self.evaluator.model, lambda features, _: self.policy.policy.mode(features), begin, steps
        )

    def summary(self) -> dict[str, object]:
        """Return the numbers of the result as plain values."""
        low, high = self.interval or (None, None)
        return {
            "expected_return": self.expected_return,
            "interval_low": low,
            "interval_high": high,
            "verdict": self.verdict,
            "reasons": list(self.numbers.reasons),
            "unknown_mass": self.unknown_mass,
            "start_unknown": self.start_unknown,
            "return_error": self.certificate.return_error,
            "discount": self.discount,
            "updates": len(self.history),
            "start": self.start,
            **({"gains": law.gains} if isinstance(law := self.policy.policy, FormulaPolicy) else {}),
        }

    def save(self, path: str | os.PathLike[str], *, data: bool = True, overwrite: bool = False) -> Path:
        """Write the result to a folder, or to one file if the path ends in `.zip`; `nopg.load` reads it.

        It holds JSON and safetensors, never a pickle. It appears under its name whole or not at all.

        Args:
            path: Must not exist yet.
            data: Whether to put the transitions in. Without them controller and numbers remain, but not what
                is asked of the model anywhere else: `value`, `visitation`, `support`, `predicted_paths`.
            overwrite: Whether an older result at the path is replaced.
        """
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

    def _features(self, states: ArrayLike) -> torch.Tensor:
        return self.policy.schema.encode(self._states(states))

    def _states(self, states: ArrayLike) -> torch.Tensor:
        """Return raw states (m, d_s); another shape and numbers that are not finite are refused."""
        schema: Schema = self.policy.schema
        given, columns = as_tensor(states), len(schema.states)
        if given.numel() % columns:
            raise DataError(wrong_shape(schema, tuple(given.shape)))
        rows = given.reshape(-1, columns)
        check_states(schema, rows.numpy(force=True))
        return rows
