"""The paper's problem: samples, initial states, discount, and the estimator of Algorithm 1."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import torch

from nopg._checks import check_discount
from nopg._seeding import generator
from nopg._typing import FloatArray
from nopg.bellman._multistep import MultistepProblem
from nopg.bellman._problem import ControlProblem, GradientEstimate, GradientEstimator
from nopg.data import Transitions
from nopg.data._start_set import StartSet
from nopg.errors import ArgumentError
from nopg.models import LocalModel
from nopg.paper._config import PaperModelConfig
from nopg.paper._equation import Equation, PaperSolution
from nopg.paper._model import PaperModel
from nopg.paper._selection import select_bandwidths
from nopg.paper._solver import Solver
from nopg.policies import Policy

# Above this many rows an update takes seconds and gigabytes.
_MANY_ROWS = 20_000


class PaperProblem(ControlProblem, model=PaperModelConfig):
    """The paper's model and all of its equation that does not depend on the policy.

    Args:
        model: The paper's model.
        initial_states: Raw states that the task starts in, equally likely, shape (n₀, d_s).
        discount: γ in [0, 1).
        unknown_value: v, the value of leaving the data; the worst that can happen if not given.
    """

    default_updates: ClassVar[int] = 1_500  # the supplement's

    def __init__(
        self,
        model: PaperModel,
        initial_states: torch.Tensor,
        discount: float,
        *,
        unknown_value: float | None = None,
    ) -> None:
        self.model, self.discount = model, check_discount(discount)
        self.initial_states = initial_states
        self.initial = model.at(model.data.schema.encode(initial_states))
        v = model.default_unknown_value(self.discount) if unknown_value is None else unknown_value
        self.unknown_value = v

    @classmethod
    def _fitted(
        cls, config: PaperModelConfig, data: Transitions, discount: float, *, costs: torch.Tensor | None
    ) -> PaperProblem:
        if costs is not None:
            raise ArgumentError("the paper's model fits no costs; use the local model")
        h = config.bandwidths or select_bandwidths(data)
        model = PaperModel(data, h, prior_mass=config.prior_mass)
        return cls(model, data.starts, discount, unknown_value=config.unknown_value)

    def settings(self) -> dict[str, Any]:
        """Return plain values from which the same problem is built on the same data."""
        return {
            "name": PaperModelConfig.name,
            "unknown_value": self.unknown_value,
            "bandwidths": self.model.bandwidths.to_dict(),
            "prior_mass": self.model.prior_mass,
        }

    @property
    def data(self) -> Transitions:
        """The transitions."""
        return self.model.data

    @cached_property
    def multistep(self) -> MultistepProblem:
        """The multi-step equation on the local model, fitted when it is first asked for."""
        data = self.data
        data = data if data.initial_states is not None else data.starting_at(self.initial_states)
        return MultistepProblem.build(LocalModel(data), StartSet.of(data), self.discount)

    @property
    def description(self) -> str:
        """The model and its equation in one sentence."""
        return f"the paper's model (Nadaraya-Watson) of {len(self.model)} samples"

    @property
    def note(self) -> str:
        """The number of candidates, and what is meant for many rows."""
        states = self.model.next_states
        each = len(states.candidates.samples) / len(states)
        text = f"{len(states)} next states, about {each:.0f} candidates each"
        slow = "; an update takes seconds, model='local' is meant for so many rows"
        return text + (slow if len(self.model) > _MANY_ROWS else "")

    def estimator(self) -> GradientEstimator:
        """Return the paper's estimator of the policy gradient."""
        return NOPG(self)

    def equation(self, policy: Policy, rng: torch.Generator) -> Equation:
        """Return the equation of a policy; see `Equation`."""
        return Equation(self, policy, rng)

    def solve(self, policy: Policy, *, seed: int = 0) -> PaperSolution:
        """Return the certified solution under a policy."""
        return self.equation(policy, generator(seed, "actions")).solve()


class NOPG:
    """Algorithm 1 for one update: solve the equation of a policy, return its exact gradient.

    Args:
        problem: Model, initial states, discount.
        tolerance: Relative residual of the solves.
    """

    def __init__(self, problem: PaperProblem, *, tolerance: float = 1e-4) -> None:
        self.problem, self.tolerance = problem, tolerance
        self._solver = Solver()
        self._last: tuple[FloatArray, FloatArray] | None = None

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the gradient at this policy; the noise of its actions comes from the generator."""
        equation = self.problem.equation(policy, rng)
        solution = equation.solve(self._solver, tolerance=self.tolerance, guesses=self._last)
        q, mu = solution.q_solution, solution.mu_solution
        self._last = (q.value, mu.value)
        return GradientEstimate(
            direction=solution.gradient(),
            expected_return=solution.expected_return,
            diagnostics={
                "unknown_mass": solution.unknown_mass,
                "products": 2 * (q.num_steps + mu.num_steps),
                "q_error": q.error_bound,
                "mu_error": mu.error_bound,
            },
        )
