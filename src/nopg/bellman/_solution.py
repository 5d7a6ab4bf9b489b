"""The solution of a Bellman equation: values, visits, what is unknown, and the proof."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from nopg._seeding import generator
from nopg.bellman._cut import Cut
from nopg.bellman._paper_terms import PaperTerms
from nopg.bellman._problem import Certificate, Solution, StateEstimates
from nopg.bellman._system import PolicySystem
from nopg.errors import ArgumentError
from nopg.linalg import Solution as SolvedSystem
from nopg.models._model import Backup, Queries
from nopg.policies import Policy
from nopg.policies._policy import policy_actions


@dataclass(frozen=True)
class BellmanSolution(Solution):
    """q and μ of one policy, and everything that follows from them.

    Attributes:
        equation: The equation that was solved.
        q_solution: Λq = b, with its certificate.
        mu_solution: Λᵀμ = ε₀, with its certificate.
    """

    equation: PolicySystem
    q_solution: SolvedSystem
    mu_solution: SolvedSystem

    @property
    def problem(self) -> PaperTerms:  # type: ignore[override]
        """What it solves."""
        return self.equation.problem

    @property
    def policy(self) -> Policy:  # type: ignore[override]
        """The policy."""
        return self.equation.policy

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
        known = float(equation.initial_responsibilities @ self.q)
        return equation.initial_reward + known + equation.initial_unknown * equation.problem.unknown_value

    @property
    def unknown_mass(self) -> float:
        """U = m₀ + γμᵀm, the discounted probability of leaving the data."""
        equation = self.equation
        return equation.initial_unknown + equation.discount * float(self.mu @ equation.unknown)

    @cached_property
    def cut(self) -> Cut:
        """What leaving out samples may change."""
        return Cut.of(self.equation, self.q_solution, self.mu_solution)

    @property
    def certificate(self) -> Certificate:
        """What is proven about q, μ and Ĵ."""
        equation, gamma = self.equation, self.equation.discount
        P, b, eps_0 = equation.operator, equation.targets, equation.initial_responsibilities
        stays, started = P.apply(torch.ones_like(b)), float(eps_0.sum())

        # ε₀ᵀq and m₀v are themselves rounded, which counts where ε₀ is small (Higham 2002, section 3.1).
        terms = int(eps_0.count_nonzero()) + 8
        unknown = abs(equation.initial_unknown * equation.problem.unknown_value)
        size = float(eps_0 @ self.q.abs()) + unknown + abs(equation.initial_reward)
        limits = torch.finfo(P.dtype)
        rounding = terms * limits.eps * (size + limits.smallest_normal)  # denormal numbers have fewer digits

        cut = self.cut.return_error
        return Certificate(
            return_error=started * self.q_solution.error_bound + rounding + cut,
            q_error=self.q_solution.error_bound,
            mu_error=self.mu_solution.error_bound,
            duality_gap=abs(float(eps_0 @ self.q) - float(self.mu @ b)),
            mass_defect=abs(float(self.mu.sum()) - gamma * float(self.mu @ stays) - started),
            converged=self.q_solution.converged and self.mu_solution.converged,
            cut_error=cut,
        )

    def at(self, features: torch.Tensor, *, seed: int = 0) -> StateEstimates:
        """Return all that is known at state features (m, d_f); the model is asked once for all of it.

        Far from all data the value tends to the unknown value if the model has prior mass, and to that of the
        nearest sample if not. μ̃ = ε(s)ᵀμ / (1 − m) is never a bare 0 there: it is what the nearest data say.
        """
        return _Estimates(self, self.equation.problem.model.bind(features), seed)

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

    def visited(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the initial states and those that samples lead to, weighted by discounted visits."""
        problem, gamma = self.problem, self.problem.discount
        nodes, starts = problem.model.node_queries, problem.initial_states
        later = (1 - gamma) * gamma * self.mu.clamp(min=0)  # rounding may leave −10⁻¹⁷
        later = (later * problem.model.continues / problem.model.group_size).repeat_interleave(
            problem.model.group_size
        )
        weights = torch.cat([torch.full((len(starts),), (1 - gamma) / len(starts), dtype=later.dtype), later])
        states = torch.cat([starts, problem.model.data.schema.decode(nodes.features.double())])
        return states, weights / weights.sum()

    def arrays(self) -> dict[str, torch.Tensor]:
        """Return q and μ, the row of the log that each node comes from, and the bandwidths."""
        h, rows = self.problem.model.bandwidths, self.problem.rows
        return {
            "q": self.q,
            "mu": self.mu,
            "rows": torch.arange(len(self.q)) if rows is None else rows,
            "bandwidths.states": h.states,
            "bandwidths.actions": h.actions,
            "bandwidths.next_states": h.next_states,
        }


@dataclass(frozen=True)
class _Estimates(StateEstimates):
    """What the paper's equation says at some states.

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
