"""The solution of a multi-step Bellman equation: values, visits and certificate."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from nopg._seeding import generator
from nopg.bellman._nodes import Interpolation
from nopg.bellman._problem import Certificate, Solution, unknown_under
from nopg.models._rollout import Rollout, rollout
from nopg.policies import Policy

if TYPE_CHECKING:
    from nopg.bellman._multistep import MultistepProblem

# Visits: length of the rollouts in effective horizons, in steps at most, and least paths of a noisy plant.
_VISITED, _LONGEST_VISITS, _FEWEST_VISITS = 5.0, 600, 40


class MultistepSolution(Solution):
    """Values of the nodes under one controller, and what follows from them.

    Attributes:
        values: V of every part and node, shape (P, m).
        unknown_values: Discounted probability of leaving the data from every node, shape (P, m).
        returns: Discounted return from the starts by part, shape (P,).
        unknown_mass: Discounted probability of leaving the data, of all rows.
    """

    problem: MultistepProblem

    def __init__(
        self, problem: MultistepProblem, policy: Policy, path: Rollout, ends: Interpolation | None = None
    ) -> None:
        self.problem, self.policy, self.path = problem, policy, path
        P, L, m, n_0 = problem.num_parts, problem.num_paths, len(problem.nodes), len(problem.starts)
        shape = (P, L, m + n_0)
        gamma, v = problem.discount, problem.unknown_value
        self._gamma = gamma ** len(path)
        self._ends = ends = ends or problem.nodes.interpolate(torch.as_tensor(path.states[-1]))
        G, alive, lost = path.value(gamma, v)
        weights = (ends.weights * torch.as_tensor(alive[-1])[:, None] / L).view(*shape, -1)
        near = ends.near.view(*shape, -1)
        W = torch.zeros(P, m + n_0, m, dtype=torch.float64)
        for number in range(L):
            W.scatter_add_(2, near[:, number], weights[:, number])
        self.weights, self.start_weights = W[:, :m], W[:, m:]
        earned, unknown = (torch.as_tensor(part).view(shape).mean(dim=1) for part in (G[0], lost))
        self._factors = torch.linalg.lu_factor(torch.eye(m, dtype=torch.float64) - self._gamma * self.weights)
        self.targets = earned[:, :m]
        right = torch.stack([self.targets, unknown[:, :m]], dim=2)
        solved = torch.linalg.lu_solve(*self._factors, right)
        self.values, self.unknown_values = solved.unbind(dim=2)
        start_values = (
            torch.stack([earned, unknown], dim=2)[:, m:] + self._gamma * self.start_weights @ solved
        )
        shares = problem.few_starts.weights
        self.returns, self._unknown_masses = torch.einsum("n,pnk->pk", shares, start_values).unbind(dim=1)

    @cached_property
    def without_leaving(self) -> MultistepSolution:
        """Return the solution along the same paths as if none left the data."""
        return MultistepSolution(self.problem, self.policy, self.path.staying(), self._ends)

    @property
    def unknown_mass(self) -> float:
        """The discounted probability of leaving the data."""
        return float(self._unknown_masses[0])

    @property
    def expected_return(self) -> float:
        """Ĵ from all rows, leaving the data worth the unknown value."""
        return float(self.returns[0])

    @property
    def objective(self) -> float:
        """The mean return over the parts; with one part that of all rows."""
        return float(self.returns.mean())

    @cached_property
    def visits(self) -> torch.Tensor:
        """Weight of every node's backup in the objective, shape (P, m): Λᵀμ = γᴴ W₀ᵀ 1/P."""
        starts = self._start_flow
        solved: torch.Tensor = torch.linalg.lu_solve(*self._factors, starts[:, :, None], adjoint=True)
        return solved[:, :, 0]

    @property
    def _start_flow(self) -> torch.Tensor:
        """γᴴ W₀ᵀ of the starts' shares, over the parts, shape (P, m)."""
        shares = self.problem.few_starts.weights
        flow: torch.Tensor = torch.einsum("n,pnm->pm", shares, self.start_weights)
        return self._gamma * flow / self.problem.num_parts

    @property
    def certificate(self) -> Certificate:
        """What is proven about values and visits: residuals bound errors, with γᴴ in place of γ."""
        V, mu, b, W, gamma = self.values, self.visits, self.targets, self.weights, self._gamma
        m, eps = W.shape[1], torch.finfo(torch.float64).eps
        inverse = 1.0 / (1.0 - gamma * min(float(W.sum(dim=2).max()), 1.0))
        left = b - V + gamma * (W @ V[:, :, None])[:, :, 0]
        rounding = (m + 2) * eps * float(b.abs().max() + 2.0 * V.abs().max())
        value_error = inverse * (float(left.abs().max()) + rounding)
        starts = self._start_flow
        unbalanced = starts - mu + gamma * (W.mT @ mu[:, :, None])[:, :, 0]
        mu_rounding = (m + 2) * eps * float(starts.abs().sum() + 2.0 * mu.abs().sum())
        by_values, by_visits = (starts * V).sum(dim=1), (mu * b).sum(dim=1)
        reach = gamma * float(self.start_weights.sum(dim=2).mean(dim=1).max())
        size = float(self.returns.abs().max() + V.abs().max())
        return Certificate(
            return_error=reach * value_error + (m + 8) * eps * size,
            q_error=value_error,
            mu_error=inverse * (float(unbalanced.abs().sum(dim=1).max()) + mu_rounding),
            duality_gap=float((by_values - by_visits).abs().max()),
            mass_defect=float(unbalanced.sum(dim=1).abs().max()),
            converged=bool(V.isfinite().all() and mu.isfinite().all()),
        )

    def value(self, features: torch.Tensor) -> torch.Tensor:
        """Return V̂ at state features (m, d_f): H steps from each, then the values of the nodes."""
        return self.value_after(self._states(features), None)

    def unknown_at(self, features: torch.Tensor) -> torch.Tensor:
        """Return the share of (s, π(s)) that the data do not account for, shape (m,)."""
        support, schema = self.problem.model.support, self.problem.data.schema
        return torch.as_tensor(unknown_under(support, self.policy, schema, self._states(features)))

    def _states(self, features: torch.Tensor) -> torch.Tensor:
        return self.problem.data.schema.decode(features.double())

    def value_after(self, states: torch.Tensor, actions: torch.Tensor | None) -> torch.Tensor:
        """Return the value (m,) of raw states (m, d_s), the first actions (m, d_a) given or the policy's."""
        problem = self.problem

        def act(features: torch.Tensor, t: int) -> torch.Tensor:
            return actions if t == 0 and actions is not None else self.policy.mode(features)

        path = rollout(problem.model, act, states, problem.horizon)
        tail = problem.nodes.value(torch.as_tensor(path.states[-1]), self.values[0]).numpy()
        return torch.as_tensor(path.value(problem.discount, problem.unknown_value, tail)[0][0])

    def visited(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the states of rollouts from the starts, weighted by γᵗ."""
        problem = self.problem
        gamma, starts, shares = problem.discount, problem.starts, problem.few_starts.weights
        T = min(math.ceil(_VISITED / (1.0 - gamma)), _LONGEST_VISITS)
        noise = None
        if problem.noisy:
            repeats = -(-_FEWEST_VISITS // len(starts))
            starts, shares = starts.repeat(repeats, 1), shares.repeat(repeats)
            rng = generator(0, "noise of the visits")
            shape = (T, len(starts), 2 * problem.model.num_states)
            noise = torch.randn(shape, generator=rng, dtype=torch.float64).numpy()
        path = rollout(problem.model, lambda f, _: self.policy.mode(f), starts, T, noise=noise)
        weights = gamma ** np.arange(len(path))[:, None] * path.going[:-1] * shares.numpy()
        flat = torch.as_tensor(weights.reshape(-1))
        return torch.as_tensor(path.states[:-1].reshape(-1, problem.model.num_states)), flat / flat.sum()
