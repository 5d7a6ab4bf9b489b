"""The nonparametric Bellman equation of one policy (`definition:npbe`, `theorem:fixedpoint`).

    Λq = r + γmv,   Λᵀμ = ε₀,   Ĵ = ε₀ᵀq + m₀v,   V̂(s) = ε(s)ᵀq + m(s)v,   μ̃(s) = ε(s)ᵀμ / (1 − m(s))

and the policy gradient (`equation:algorithmicgradient`), by the derivative of each value by its action:

    ∂Ĵ/∂θ = Σᵢ wᵢ (∂Vᵢ/∂aᵢ)ᵀ ∂aᵢ/∂θ,   wᵢ = γμᵢ at next states, 1/n₀ at initial states
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from nopg._seeding import generator
from nopg._typing import FloatArray
from nopg.bellman._problem import Certificate, Solution
from nopg.errors import ArgumentError
from nopg.paper._model import States, Weights
from nopg.paper._solver import Resolvent, SolvedSystem, Solver
from nopg.policies import Policy
from nopg.policies._policy import policy_gradient

if TYPE_CHECKING:
    from nopg.paper._problem import PaperProblem

# Up to this bound on the lost weights no further system is solved to sharpen it.
_SMALL = 0.1


class Equation:
    """The equation of one policy.

    Attributes:
        weights: ε of the next states.
        initial_weights: ε of the initial states.
        P: Transition matrix between the samples, (n, n); rows of terminals are empty.
        resolvent: Λ = I − γP.
        unknown: m of each sample, 0 after a terminal, shape (n,).
        targets: b = r + γmv, shape (n,).
        eps_0: ε₀, the mean over the initial states, shape (n,).
        initial_unknown: m₀.
    """

    def __init__(self, problem: PaperProblem, policy: Policy, rng: torch.Generator) -> None:
        model, initial = problem.model, problem.initial
        if policy.num_actions != model.actions.shape[1]:
            raise ArgumentError(
                f"the policy has {policy.num_actions} actions, the data have {model.actions.shape[1]}"
            )
        self.problem, self.policy = problem, policy
        both = (model.next_states, initial)
        with torch.enable_grad():
            self._actions = [policy.actions(one.features, policy.noise(len(one), rng)) for one in both]
        self.weights, self.initial_weights = map(States.weights, both, self._actions)
        self.P = model.transition_matrix(self.weights.mean)
        self.resolvent = Resolvent(self.P, problem.discount)
        self.unknown = model.continues * self.weights.unknown.mean(axis=0)
        self.targets = model.rewards + problem.discount * self.unknown * problem.unknown_value
        self.eps_0 = self.initial_weights.mean.T @ np.full(len(initial), 1.0 / len(initial))
        self.initial_unknown = float(self.initial_weights.unknown.mean())

    def solve(
        self,
        solver: Solver | None = None,
        *,
        tolerance: float = 1e-10,
        guesses: tuple[FloatArray, FloatArray] | None = None,
    ) -> PaperSolution:
        """Solve for q and μ; see `Solver.solve_both`."""
        both = (solver or Solver()).solve_both(
            self.resolvent, self.targets, self.eps_0, tolerance=tolerance, guesses=guesses
        )
        return PaperSolution(self, *both)

    def gradient(self, q: FloatArray, mu: FloatArray) -> tuple[torch.Tensor, ...]:
        """Return ∂Ĵ/∂θ, one tensor per trainable parameter.

        With q and μ held fixed the chain rule stops at the actions, so no tape is kept over the weights.
        """
        problem, model, v = self.problem, self.problem.model, self.problem.unknown_value
        n_0 = len(problem.initial)
        terms = (
            (model.next_states, self.weights, problem.discount * mu * model.continues),
            (problem.initial, self.initial_weights, np.full(n_0, 1.0 / n_0)),
        )
        by_action = [
            torch.as_tensor(states.action_gradient(actions, weights, q, v) * share[:, None])
            for (states, weights, share), actions in zip(terms, self._actions, strict=True)
        ]
        return policy_gradient(self.policy, self._actions, by_action)


class PaperSolution(Solution):
    """q of Λq = b and μ of Λᵀμ = ε₀ for one policy with their certificates, and what follows from them."""

    problem: PaperProblem

    def __init__(self, equation: Equation, q_solution: SolvedSystem, mu_solution: SolvedSystem) -> None:
        self.equation, self.problem, self.policy = equation, equation.problem, equation.policy
        self.q_solution, self.mu_solution = q_solution, mu_solution

    @property
    def q(self) -> torch.Tensor:
        """qⱼ ≈ Q(sⱼ, aⱼ), shape (n,)."""
        return torch.as_tensor(self.q_solution.value)

    @property
    def mu(self) -> torch.Tensor:
        """Discounted visits of each sample from the initial states, shape (n,)."""
        return torch.as_tensor(self.mu_solution.value)

    @property
    def expected_return(self) -> float:
        """Ĵ = ε₀ᵀq + m₀v, the discounted return from the initial states."""
        equation = self.equation
        known = float(equation.eps_0 @ self.q_solution.value)
        return known + equation.initial_unknown * self.problem.unknown_value

    @property
    def unknown_mass(self) -> float:
        """U = m₀ + γμᵀm, the discounted probability of leaving the data."""
        equation = self.equation
        later = float(self.mu_solution.value @ equation.unknown)
        return equation.initial_unknown + self.problem.discount * later

    def gradient(self) -> tuple[torch.Tensor, ...]:
        """Return ∂Ĵ/∂θ; see `Equation.gradient`."""
        return self.equation.gradient(self.q_solution.value, self.mu_solution.value)

    @cached_property
    def cut_error(self) -> float:
        """Bound on what the samples left out may change in Ĵ.

        Row i of P loses at most the share δᵢ of its weights. With x = γδ and Δ = Λ⁻¹x, Λ that of all
        samples, |q̂ − q| ≤ (max q̂ − min q̂) Δ. The equation without them has d = Λ̂⁻¹x, and
        Δ ≤ d + max(d) Δ, so that max Δ ≤ max(d)/(1 − max(d)).
        """
        equation, problem, gamma = self.equation, self.problem, self.problem.discount
        start, Lambda = float(equation.initial_weights.lost.mean()), equation.resolvent
        x = gamma * problem.model.continues * equation.weights.lost.mean(axis=0)
        deepest = float(x.max()) * Lambda.inverse_bound
        if deepest > _SMALL:
            d = Solver().iterate(Lambda, x, tolerance=1e-2)
            deepest = min(deepest, float(d.value.max()) + d.error_bound)
        lost = float("inf")
        if deepest < 1:
            mu = self.mu_solution
            reached = float(mu.value.clip(min=0) @ x) + mu.error_bound * float(x.max())
            lost = start + (reached + start * deepest) / (1.0 - deepest)
        if lost == 0.0:
            return 0.0
        # A value is a sum of rewards, or that of leaving the data.
        unknown = [problem.unknown_value] if problem.model.prior_mass > 0 else []
        q, rewards = self.q_solution, problem.model.rewards
        spread = max([q.value.max(), *unknown]) - min([q.value.min(), *unknown]) + 2.0 * q.error_bound
        ends = (float(rewards.max()), float(rewards.min()))
        values = [*ends, *(end / (1.0 - gamma) for end in ends), *unknown]
        return float(min(lost * spread, max(values) - min(values)))

    @cached_property
    def certificate(self) -> Certificate:
        """What is proven about q, μ and Ĵ."""
        equation, q, mu = self.equation, self.q_solution, self.mu_solution
        eps_0, started = equation.eps_0, float(equation.eps_0.sum())
        # ε₀ᵀq and m₀v are themselves rounded, which counts where ε₀ is small (Higham 2002, section 3.1).
        size = float(eps_0 @ np.abs(q.value)) + abs(equation.initial_unknown * self.problem.unknown_value)
        limits = np.finfo(np.float64)
        terms = int(np.count_nonzero(eps_0)) + 8
        rounding = terms * float(limits.eps) * (size + float(limits.smallest_normal))
        stays = self.problem.discount * float(mu.value @ (equation.P @ np.ones(len(eps_0))))
        return Certificate(
            return_error=started * q.error_bound + rounding + self.cut_error,
            q_error=q.error_bound,
            mu_error=mu.error_bound,
            duality_gap=abs(float(eps_0 @ q.value) - float(mu.value @ equation.targets)),
            mass_defect=abs(float(mu.value.sum()) - stays - started),
            converged=q.converged and mu.converged,
            cut_error=self.cut_error,
        )

    def value(self, features: torch.Tensor) -> torch.Tensor:
        """Return V̂ at state features (m, d_f).

        Far from all data it tends to the unknown value if the model has prior mass, and to the value of the
        nearest sample if not.
        """
        weights = self._weights(features)
        unknown = weights.unknown.mean(axis=0) * self.problem.unknown_value
        return torch.as_tensor(weights.mean @ self.q_solution.value + unknown)

    def visitation(self, features: torch.Tensor) -> torch.Tensor:
        """Return μ̃ at state features (m, d_f): never a bare 0, but what the nearest data say."""
        eps = self._weights(features).mean
        return torch.as_tensor((eps @ self.mu_solution.value) / eps.sum(axis=1))

    def unknown_at(self, features: torch.Tensor) -> torch.Tensor:
        """Return m(s), the mass at state features (m, d_f) that the data cannot account for."""
        return torch.as_tensor(self._weights(features).unknown.mean(axis=0))

    def _weights(self, features: torch.Tensor) -> Weights:
        """Return ε at state features under the policy."""
        states = self.problem.model.at(features)
        noise = self.policy.noise(len(states), generator(0, "query actions"))
        return states.weights(self.policy.actions(states.features, noise))

    def visited(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the initial states and those that samples lead to, weighted by discounted visits."""
        model, gamma, starts = self.problem.model, self.problem.discount, self.problem.initial_states
        later = (1 - gamma) * gamma * self.mu_solution.value.clip(min=0) * model.continues  # no −10⁻¹⁷
        weights = torch.cat([torch.full((len(starts),), (1 - gamma) / len(starts)), torch.as_tensor(later)])
        states = torch.cat([starts, self.problem.data.schema.decode(model.next_states.features)])
        return states, weights / weights.sum()
