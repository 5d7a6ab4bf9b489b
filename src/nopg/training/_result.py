"""What `optimize` returns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import torch

from nopg._typing import ArrayLike, FloatArray, as_tensor
from nopg.bellman import BellmanSolution, Certificate
from nopg.data import Schema, Transitions
from nopg.graph import CondensedSupport, whole_data
from nopg.kernels import Bandwidths
from nopg.training._choice import ModelChoice
from nopg.training._controller import Controller
from nopg.training._rehearsal import PredictedPaths, predict_paths
from nopg.training._reports import Update
from nopg.training._saving import data_identity, save_result
from nopg.training._starts import StartSupport

__all__ = ["Answer", "ConstraintAnswer", "ResultSource", "Trained", "TrainingResult"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The numbers that a training ends with.

    Attributes:
        discount: γ that they hold for.
        expected_return: Ĵ.
        unknown_mass: U.
        certificate: The proven numerical error.
    """

    discount: float
    expected_return: float
    unknown_mass: float
    certificate: Certificate

    @classmethod
    def of(cls, solution: BellmanSolution) -> Answer:
        """Return those of a solution."""
        return cls(
            solution.equation.discount,
            solution.expected_return,
            solution.unknown_mass,
            solution.certificate,
        )


@dataclass(frozen=True, slots=True)
class ConstraintAnswer:
    """What came of one limit.

    Attributes:
        name: Of the constraint.
        limit: What may be spent.
        cost: What the controller is predicted to spend: (1 − γ)·Σₜ γᵗcₜ, for a region the share of discounted
            time in it.
        upper: The upper end of the 95 % interval of that, if this was to keep the limit.
        multiplier: λ, the price of the cost in rewards at which the controller was trained; 0 if free.
        kept: Whether the prediction keeps the limit.
    """

    name: str
    limit: float
    cost: float
    upper: float | None
    multiplier: float
    kept: bool

    def __str__(self) -> str:
        upper = "" if self.upper is None else f", at most {self.upper:.3g}"
        return f"{self.name}: {self.cost:.3g}{upper}, limit {self.limit:.3g}"


class ResultSource(Protocol):
    """Where the large parts of a result come from: a training, or a file."""

    def solution(self) -> BellmanSolution:
        """Return the Bellman solution."""

    def support(self) -> CondensedSupport:
        """Return what a controller carries along to know where it is."""

    def data_identity(self) -> Mapping[str, object]:
        """Return the number of rows of the data and a hash of them."""


@dataclass(frozen=True, slots=True)
class Trained:
    """The parts of a result that are at hand after a training."""

    solved: BellmanSolution
    bandwidths: Bandwidths

    def solution(self) -> BellmanSolution:
        """Return the Bellman solution."""
        return self.solved

    def support(self) -> CondensedSupport:
        """Return what a controller carries along to know where it is."""
        return CondensedSupport.of(self._whole_data(), self.bandwidths.state_kernel)

    def data_identity(self) -> Mapping[str, object]:
        """Return the number of rows of the data and a hash of them."""
        return data_identity(self._whole_data())

    def _whole_data(self) -> Transitions:
        model = self.solved.equation.problem.model
        return whole_data(model.data, model.space.ranks)


@dataclass(frozen=True, repr=False)
class TrainingResult:
    """A trained controller and what is known about it before it runs.

    Attributes:
        policy: The controller: numpy observation in, numpy action out.
        answer: The numbers that the training ended with.
        bandwidths: Of the kernels, with where they come from.
        history: Every update of the training; with constraints of the round that was chosen, in which Ĵ
            counts the costs at their price.
        choice: Which transition model it rests on, and why.
        start_support: What the data know of the initial states.
        rows: The row of the data that each of the first nodes of the solution comes from, shape (n,); on
            several ranks the nodes of this one.
        seed: The one seed of everything random.
        source: Where solution and support come from.
        constraints: What came of each limit, if there were some.
    """

    policy: Controller
    answer: Answer
    bandwidths: Bandwidths
    history: tuple[Update, ...]
    choice: ModelChoice
    start_support: StartSupport
    rows: torch.Tensor
    seed: int
    source: ResultSource
    constraints: tuple[ConstraintAnswer, ...] = ()

    @cached_property
    def solution(self) -> BellmanSolution:
        """The Bellman solution under the controller, solved to its certificate."""
        return self.source.solution()

    @cached_property
    def condensed_support(self) -> CondensedSupport:
        """The support of the data by few representatives, which is saved and exported with the controller."""
        return self.source.support()

    @property
    def data(self) -> Transitions:
        """The transitions that the solution rests on, in the order of its nodes; `log` is that of the log."""
        return self.solution.equation.problem.model.data

    @cached_property
    def log(self) -> Transitions:
        """The transitions in the order in which they were logged; what asks about episodes wants these."""
        return self.data.take(self.rows.argsort())

    @cached_property
    def data_identity(self) -> Mapping[str, object]:
        """How many rows the data have, and a hash by which they are known again; a question to all ranks."""
        return self.source.data_identity()

    @property
    def discount(self) -> float:
        """γ."""
        return self.answer.discount

    @property
    def start_unknown(self) -> float:
        """The share of the initial states that the data cannot account for, known before training.

        By the rule of `StateSupport.prior_mass`, whatever model and β the answer itself rests on.
        """
        return float(self.start_support.unknown.mean())

    @property
    def expected_return(self) -> float:
        """Ĵ, the discounted return that the data let us expect from the initial states."""
        return self.answer.expected_return

    @property
    def unknown_mass(self) -> float:
        """U, the discounted probability of leaving the data."""
        return self.answer.unknown_mass

    @property
    def certificate(self) -> Certificate:
        """The proven numerical error of the solution."""
        return self.answer.certificate

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
        """Return how many samples' worth of data stand at raw states (m, d_s)."""
        return self.solution.support(self._features(states)).numpy()

    def predicted_paths(self, steps: int, states: ArrayLike | None = None) -> PredictedPaths:
        """Return where the controller is expected to go in so many steps from raw states (m, d_s).

        By default from the initial states. Only the local-linear model can say.
        """
        problem = self.solution.equation.problem
        features = problem.initial.features if states is None else self._features(states)
        return predict_paths(problem, self.policy.policy, features, steps)

    def save(self, path: str | os.PathLike[str], *, data: bool = True, overwrite: bool = False) -> Path:
        """Write the result to a folder, or to one file if the path ends in `.zip`; `nopg.load` reads it.

        It holds JSON and safetensors, never a pickle. It appears under its name whole or not at all. On
        several ranks all of them call this together, and the first one writes.

        Args:
            path: Must not exist yet.
            data: Whether to put the transitions in. Without them controller and numbers remain, but not what
                is asked of the model anywhere else: `value`, `visitation`, `support`, `predicted_paths`.
            overwrite: Whether an older result at the path is replaced.
        """
        return save_result(self, path, with_data=data, overwrite=overwrite)

    def __repr__(self) -> str:
        proof = self.certificate
        start = ", start outside the data" if self.start_unknown > 0.5 else ""
        return (
            f"TrainingResult(return {self.expected_return:.6g} ± {proof.return_error:.0e} (numerics), "
            f"unknown mass {self.unknown_mass:.2%}, {self.choice.name}, "
            f"{len(self.history)} updates{start})"
        )

    def _features(self, states: ArrayLike) -> torch.Tensor:
        schema: Schema = self.policy.schema
        return schema.encode(as_tensor(states).reshape(-1, len(schema.states)))
