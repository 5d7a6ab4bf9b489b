"""The nonparametric Bellman equation of one policy (`definition:npbe`, `theorem:fixedpoint`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from nopg._checks import check_discount
from nopg._nesting import nested, part_of
from nopg._seeding import generator
from nopg.bellman._estimate import GradientEstimator
from nopg.bellman._problem import ControlProblem
from nopg.bellman._solution import BellmanSolution
from nopg.data import Transitions
from nopg.errors import ArgumentError, SolverError
from nopg.kernels import GaussianKernel
from nopg.linalg import Auto, Resolvent, Solution, Solver
from nopg.linalg._operator import TransitionOperator
from nopg.linalg._space import VectorSpace
from nopg.models import PaperModel
from nopg.models._model import Backup, Queries
from nopg.policies import Policy
from nopg.policies._policy import ActionTape, shared_noise

__all__ = ["BellmanEquation", "BellmanSystem", "PaperProblem"]


@dataclass(frozen=True)
class PaperProblem(ControlProblem):
    """All of the paper's equation that does not depend on the policy.

    Attributes:
        model: The paper's model.
        initial: The states the task starts in, bound to the model, equally likely.
        discount: γ in [0, 1).
        unknown_value: v, the value of leaving the data; the worst that can happen if not given.
        rows: The row of the log that each row of the model's data comes from, shape (n,); None for the same.
    """

    model: PaperModel
    initial: Queries
    discount: float
    unknown_value: float
    rows: torch.Tensor | None = None

    @classmethod
    def build(
        cls,
        model: PaperModel,
        initial_features: torch.Tensor,
        *,
        discount: float,
        unknown_value: float | None = None,
        rows: torch.Tensor | None = None,
    ) -> PaperProblem:
        """Bind the initial states, given as features (n₀, d_f), to the model."""
        gamma = check_discount(discount)
        v = model.default_unknown_value(gamma) if unknown_value is None else unknown_value
        return cls(model, model.bind(initial_features), gamma, v, rows)

    @property
    def data(self) -> Transitions:
        """The transitions, in the order of the log; on several ranks those of this one."""
        return self.model.data if self.rows is None else self.model.data.take(self.rows.argsort())

    @property
    def stored_data(self) -> Transitions:
        """The transitions in the order of the nodes."""
        return self.model.data

    @property
    def initial_states(self) -> torch.Tensor:
        """Raw states that the task starts in, those of all ranks, shape (n₀, d_s)."""
        return self.model.data.schema.decode(self.space.ranks.gather(self.initial.features).double())

    @property
    def metric(self) -> GaussianKernel:
        """The kernel on states."""
        return self.model.bandwidths.state_kernel

    @property
    def description(self) -> str:
        """The model and its equation in one sentence."""
        return (
            f"the paper's model (Nadaraya-Watson) with up to {self.model.node_queries.pattern.row_length} "
            f"candidates for each of {self.model.num_nodes} samples"
        )

    def estimator(self, solver: Solver | None = None) -> GradientEstimator:
        """Return the paper's estimator of the policy gradient."""
        from nopg.bellman._nopg import NOPG

        return NOPG(self, solver=solver)

    def solve(self, policy: Policy, *, seed: int = 0, solver: Solver | None = None) -> BellmanSolution:
        """Return the solution under a policy, certified in float64 on the CPU.

        It depends on the policy alone: what solver and model remember of earlier ones is forgotten.
        """
        how = solver or Auto()
        how.forget()
        self.load_state_dict({})
        exact = self.to(torch.float64, "cpu")
        return exact.equation(policy, generator(seed, "actions")).solve(how)

    def restore(self, policy: Policy, arrays: Mapping[str, torch.Tensor], *, seed: int) -> BellmanSolution:
        """Return the solution of saved q and μ, certified anew."""
        q, mu = arrays["q"], arrays["mu"]
        if not q.shape == mu.shape == (self.model.num_nodes,):
            raise ArgumentError(
                f"there are {self.model.num_nodes} nodes, but {len(q)} values and {len(mu)} visits"
            )
        solution = self.equation(policy, generator(seed, "actions")).certify(q, mu)
        if not solution.certificate.converged:
            raise ArgumentError("q and μ do not solve the equation of the saved data")
        return solution

    def settings(self) -> dict[str, Any]:
        """Return plain values from which the same problem is built on the same data."""
        return {
            "name": "paper",
            "unknown_value": self.unknown_value,
            "bandwidths": self.model.bandwidths.source,
            **self.model.settings(),
        }

    @property
    def space(self) -> VectorSpace:
        """How vectors over the nodes and over the initial states are reduced."""
        return self.model.space

    @cached_property
    def num_initial(self) -> int:
        """n₀, on all ranks."""
        return int(self.space.ranks.total(len(self.initial.features)))

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> PaperProblem:
        """Return the same problem in another precision, or on another device; what is not given stays."""
        model = self.model.to(dtype, device)
        return self if model is self.model else replace(self, model=model, initial=self.initial.to(model))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return what the last bits of the next equation depend on beside the policy."""
        return nested(nodes=self.model.node_queries.state_dict(), starts=self.initial.state_dict())

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on as the problem whose state this is would; with an empty one as if new."""
        self.model.node_queries.load_state_dict(part_of("nodes", state))
        self.initial.load_state_dict(part_of("starts", state))

    def equation(
        self, policy: Policy, rng: torch.Generator, *, instead_of: BellmanEquation | None = None
    ) -> BellmanEquation:
        """Return the equation of this policy; its action noise is drawn from the generator.

        Args:
            policy: π, in the precision of the model and on its device.
            rng: Where its noise comes from; drawn where it is, so that every device has the same numbers.
            instead_of: An earlier equation of this problem whose memory may be overwritten.
        """
        if policy.num_actions != self.model.num_actions:
            raise ArgumentError(
                f"the policy has {policy.num_actions} actions, the data have {self.model.num_actions}"
            )
        nodes, initial = self.model.node_queries, self.initial
        old = instead_of
        node_noise = shared_noise(policy, len(nodes.features), rng, self.space.ranks)
        initial_noise = shared_noise(policy, len(initial.features), rng, self.space.ranks)
        at_nodes = ActionTape(policy, nodes.features, node_noise.to(nodes.features))
        at_starts = ActionTape(policy, initial.features, initial_noise.to(initial.features))
        return BellmanEquation(
            problem=self,
            policy=policy,
            at_nodes=at_nodes,
            at_starts=at_starts,
            node_backup=nodes.backup(at_nodes.actions, instead_of=old.node_backup if old else None),
            initial_backup=initial.backup(at_starts.actions, instead_of=old.initial_backup if old else None),
        )


@dataclass(frozen=True)
class BellmanSystem:
    """Λq = b and Λᵀμ = ε₀ with Λ = I − γP for given answers of the model.

    Attributes:
        problem: What does not depend on the actions.
        node_backup: Answers at the states that the nodes lead to.
        initial_backup: Answers at the initial states.
    """

    problem: PaperProblem
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
        return self.problem.space.sum(self.initial_backup.unknown) / self.problem.num_initial

    @property
    def initial_reward(self) -> float:
        """Expected first reward that is not already in the values of the nodes."""
        return self.problem.space.sum(self.initial_backup.reward) / self.problem.num_initial

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
class BellmanEquation(BellmanSystem):
    """The system of one policy.

    Attributes:
        policy: π.
        at_nodes: Its actions at the states that the nodes lead to.
        at_starts: Its actions at the initial states.
    """

    policy: Policy
    at_nodes: ActionTape
    at_starts: ActionTape

    def solve(
        self,
        solver: Solver | None = None,
        *,
        tolerance: float = 1e-10,
        start: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> BellmanSolution:
        """Solve for q and μ; see `solve_both`."""
        return BellmanSolution(self, *self.solve_both(solver, tolerance=tolerance, start=start))

    def certify(self, q: torch.Tensor, mu: torch.Tensor, *, tolerance: float = 1e-10) -> BellmanSolution:
        """Return the solution that q and μ, found elsewhere, are; what they are off by is computed anew."""
        Lambda = Resolvent(self.operator, self.discount)
        return BellmanSolution(
            self,
            Lambda.certify(q, self.targets, num_steps=0, tolerance=tolerance),
            Lambda.T.certify(mu, self.initial_responsibilities, num_steps=0, tolerance=tolerance),
        )
