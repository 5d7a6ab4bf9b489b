"""The solution of a Bellman equation: values, visits, what is unknown, and the proof."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from nopg._seeding import generator
from nopg.errors import ArgumentError
from nopg.graph import Backup, Queries
from nopg.policies import policy_actions
from nopg.solvers import Solution

if TYPE_CHECKING:
    from nopg.bellman._equation import BellmanEquation

__all__ = ["BellmanSolution", "Certificate", "StateEstimates"]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is proven about a solution; numerical error only, not that of the model.

    Attributes:
        return_error: Bound on |Ĵ − exact Ĵ|, the rounding of the last inner product included.
        q_error: Bound on ‖q̂ − q‖∞.
        mu_error: Bound on ‖μ̂ − μ‖₁.
        duality_gap: |ε₀ᵀq − μᵀb|, 0 in exact arithmetic.
        mass_defect: |(1−γ)Σμ + γΣ_terminal μ + γμᵀm − Σε₀|, 0 in exact arithmetic.
        converged: Whether both solves reached their tolerance.
    """

    return_error: float
    q_error: float
    mu_error: float
    duality_gap: float
    mass_defect: float
    converged: bool


@dataclass(frozen=True)
class BellmanSolution:
    """q and μ of one policy, and everything that follows from them.

    Attributes:
        equation: The equation that was solved.
        q_solution: Λq = b, with its certificate.
        mu_solution: Λᵀμ = ε₀, with its certificate.
    """

    equation: BellmanEquation
    q_solution: Solution
    mu_solution: Solution

    @property
    def q(self) -> torch.Tensor:
        """Value of each node, shape (n,); for the paper's model qⱼ ≈ Q(sⱼ, aⱼ)."""
        return self.q_solution.value

    @property
    def mu(self) -> torch.Tensor:
        """Discounted visits of each node from the initial states, shape (n,)."""
        return self.mu_solution.value

    @property
    def expected_return(self) -> float:
        """Ĵ = ε₀ᵀq + m₀v, the discounted return from the initial states."""
        equation = self.equation
        known = equation.problem.space.dot(equation.initial_responsibilities, self.q)
        return equation.initial_reward + known + equation.initial_unknown * equation.problem.unknown_value

    @property
    def unknown_mass(self) -> float:
        """U = m₀ + γμᵀm, the discounted probability of leaving the data."""
        equation = self.equation
        return equation.initial_unknown + equation.discount * equation.problem.space.dot(
            self.mu, equation.unknown
        )

    @property
    def certificate(self) -> Certificate:
        """What is proven about q, μ and Ĵ."""
        equation, gamma = self.equation, self.equation.discount
        P, b, eps_0 = equation.operator, equation.targets, equation.initial_responsibilities
        space, stays = equation.problem.space, P.apply(torch.ones_like(b))

        # ε₀ᵀq and m₀v are themselves rounded, which counts where ε₀ is small (Higham 2002, section 3.1).
        terms = space.sum(eps_0 != 0) + 8
        unknown = abs(equation.initial_unknown * equation.problem.unknown_value)
        size = space.dot(eps_0, self.q.abs()) + unknown + abs(equation.initial_reward)
        rounding = terms * torch.finfo(P.dtype).eps * size

        return Certificate(
            return_error=space.sum(eps_0) * self.q_solution.error_bound + rounding,
            q_error=self.q_solution.error_bound,
            mu_error=self.mu_solution.error_bound,
            duality_gap=abs(space.dot(eps_0, self.q) - space.dot(self.mu, b)),
            mass_defect=abs(space.sum(self.mu) - gamma * space.dot(self.mu, stays) - space.sum(eps_0)),
            converged=self.q_solution.converged and self.mu_solution.converged,
        )

    def at(self, features: torch.Tensor, *, seed: int = 0) -> StateEstimates:
        """Return all that is known at state features (m, d_f); the model is asked once for all of it."""
        return StateEstimates(self, self.equation.problem.model.bind(features), seed)

    def value(self, features: torch.Tensor, *, seed: int = 0) -> torch.Tensor:
        """Return V̂ under the policy at state features (m, d_f), shape (m,).

        Far from all data this tends to the unknown value if the model has prior mass, and to the value
        of the nearest sample if not; `unknown_at` and `support` say which values to trust.
        """
        return self.at(features, seed=seed).value

    def action_value(self, features: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return Q̂ at state features (m, d_f) for actions (m, d_a), shape (m,)."""
        if actions.shape != (len(features), self.equation.problem.model.num_actions):
            raise ArgumentError(
                f"actions have shape {tuple(actions.shape)}; give one action of "
                f"{self.equation.problem.model.num_actions} numbers for each of {len(features)} states"
            )
        queries = self.equation.problem.model.bind(features)
        backup = queries.backup(actions[None].to(queries.features))
        return backup.values(self.q, self.equation.problem.unknown_value)

    def visitation(self, features: torch.Tensor, *, seed: int = 0) -> torch.Tensor:
        """Return μ̃ = ε(s)ᵀμ / (1 − m) at state features (m, d_f): visits of the data around s, shape (m,).

        It is never a bare 0 outside the data: there it is what the nearest data say, which is no
        evidence about s; read it beside `unknown_at`.
        """
        return self.at(features, seed=seed).visitation

    def unknown_at(self, features: torch.Tensor, *, seed: int = 0) -> torch.Tensor:
        """Return m(s), the mass at state features (m, d_f) that the data cannot account for, shape (m,)."""
        return self.at(features, seed=seed).unknown

    def support(self, features: torch.Tensor) -> torch.Tensor:
        """Return how many samples' worth of data stand at state features (m, d_f), shape (m,)."""
        return self.at(features).support


@dataclass(frozen=True)
class StateEstimates:
    """What a solution says at some states, each computed when it is asked for.

    Attributes:
        solution: The solution.
        queries: The states, bound to its model.
        seed: Of the noise of a stochastic policy.
    """

    solution: BellmanSolution
    queries: Queries
    seed: int = 0

    @cached_property
    def backup(self) -> Backup:
        """The model's answer under the policy."""
        queries, policy = self.queries, self.solution.equation.policy
        noise = policy.noise(len(queries.features), generator(self.seed, "query actions"))
        return queries.backup(policy_actions(policy, queries.features, noise.to(queries.features)))

    @property
    def value(self) -> torch.Tensor:
        """V̂, shape (m,); see `BellmanSolution.value`."""
        return self.backup.values(self.solution.q, self.solution.equation.problem.unknown_value)

    @property
    def visitation(self) -> torch.Tensor:
        """μ̃, shape (m,); see `BellmanSolution.visitation`."""
        return self.backup.weights.apply(self.solution.mu) / self.backup.weights.sums()

    @property
    def unknown(self) -> torch.Tensor:
        """m(s), the mass that the data cannot account for, shape (m,)."""
        return self.backup.unknown

    @property
    def support(self) -> torch.Tensor:
        """How many samples' worth of data stand there, shape (m,)."""
        return self.queries.support()
