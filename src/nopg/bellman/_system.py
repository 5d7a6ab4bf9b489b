"""The linear systems of the nonparametric Bellman equation (`theorem:fixedpoint`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from nopg.bellman._paper_terms import PaperTerms
from nopg.errors import SolverError
from nopg.linalg import Auto, Resolvent, Solution, Solver
from nopg.linalg._operator import TransitionOperator
from nopg.models._model import Backup
from nopg.policies import Policy
from nopg.policies._policy import ActionTape


@dataclass(frozen=True)
class BellmanSystem:
    """Λq = b and Λᵀμ = ε₀ with Λ = I − γP for given answers of the model.

    Attributes:
        problem: What does not depend on the actions.
        node_backup: Answers at the states that the nodes lead to.
        initial_backup: Answers at the initial states.
    """

    problem: PaperTerms
    node_backup: Backup
    initial_backup: Backup

    @property
    def discount(self) -> float:
        """γ."""
        return self.problem.discount

    @cached_property
    def operator(self) -> TransitionOperator:
        """P: non-negative, rows of terminal nodes zero, other rows summing to 1 − m."""
        return self.problem.model.operator(self.node_backup)

    @cached_property
    def unknown(self) -> torch.Tensor:
        """Unknown mass m of each node, 0 where it is terminal, shape (n,)."""
        return self.operator.continues * self.operator.average(self.node_backup.unknown)

    @cached_property
    def lost(self) -> torch.Tensor:
        """Bound on the share of the weights of each node that candidates left out have, shape (n,)."""
        return self.operator.continues * self.operator.average(self.node_backup.lost)

    @cached_property
    def targets(self) -> torch.Tensor:
        """Right-hand side b = c + γ (expected reward + m v), shape (n,); for the paper's model r + γ m v."""
        P, v = self.operator, self.problem.unknown_value
        reward = P.continues * P.average(self.node_backup.reward)
        return self.problem.model.node_rewards + self.discount * (reward + self.unknown * v)

    @cached_property
    def initial_responsibilities(self) -> torch.Tensor:
        """ε₀, the mean over the initial states, shape (n,)."""
        each = torch.full_like(self.initial_backup.unknown, 1 / self.problem.num_initial)
        return self.initial_backup.weights.apply_transposed(each)

    @property
    def initial_unknown(self) -> float:
        """m₀, the mass of the initial states that the data cannot account for."""
        return float(self.initial_backup.unknown.sum()) / self.problem.num_initial

    @property
    def initial_lost(self) -> float:
        """Bound on the share of ε₀ that candidates left out have."""
        return float(self.initial_backup.lost.sum()) / self.problem.num_initial

    @property
    def initial_reward(self) -> float:
        """Expected first reward that is not already in the values of the nodes."""
        return float(self.initial_backup.reward.sum()) / self.problem.num_initial

    def solve_both(
        self,
        solver: Solver | None = None,
        *,
        tolerance: float = 1e-10,
        start: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[Solution, Solution]:
        """Solve for q and μ.

        Args:
            solver: `Auto` if not given.
            tolerance: Relative residual at which the solver may stop.
            start: q and μ of a nearby equation, such as that of the last update.
        """
        Lambda = Resolvent(self.operator, self.discount)
        b, eps_0 = self.targets, self.initial_responsibilities
        q, mu = (solver or Auto()).solve_both(Lambda, b, eps_0, tolerance=tolerance, guesses=start)
        for name, solution in (("q", q), ("μ", mu)):
            if not solution.converged:
                raise SolverError(
                    f"the solve for {name} stopped at a residual of {solution.residual:.1e} after "
                    f"{solution.num_steps} products, short of the relative tolerance {tolerance:.0e}; "
                    "allow more steps, ask for less, or use solver='lu'"
                )
        return q, mu


@dataclass(frozen=True)
class PolicySystem(BellmanSystem):
    """The system of one policy.

    Attributes:
        policy: π.
        at_nodes: Its actions at the states that the nodes lead to.
        at_starts: Its actions at the initial states.
    """

    policy: Policy
    at_nodes: ActionTape
    at_starts: ActionTape
