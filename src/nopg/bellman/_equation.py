"""The nonparametric Bellman equation of one policy (`definition:npbe`, `theorem:fixedpoint`)."""

from __future__ import annotations

import torch

from nopg.bellman._paper_terms import PaperTerms
from nopg.bellman._solution import BellmanSolution
from nopg.bellman._system import PolicySystem
from nopg.errors import ArgumentError
from nopg.linalg import Resolvent, Solver
from nopg.policies import Policy
from nopg.policies._policy import ActionTape


class BellmanEquation(PolicySystem):
    """The system of one policy, to be solved for q and μ: the body of the loop in Algorithm 1.

    `of` computes ε and ε₀; `operator` is P with rows of terminals at 0; `solve` gives q and μ.
    """

    @classmethod
    def of(
        cls, problem: PaperTerms, policy: Policy, rng: torch.Generator, *, out: BellmanEquation | None = None
    ) -> BellmanEquation:
        """Return the equation of a policy; its action noise is drawn from the generator.

        Args:
            problem: All but the policy.
            policy: π, in the precision of the model and on its device.
            rng: Of its noise; drawn on the CPU, so that every device has the same numbers.
            out: An earlier equation of this problem whose memory may be overwritten.
        """
        model, initial = problem.model, problem.initial
        if policy.num_actions != model.num_actions:
            raise ArgumentError(
                f"the policy has {policy.num_actions} actions, the data have {model.num_actions}"
            )
        nodes = model.node_queries
        node_noise = policy.noise(len(nodes.features), rng)
        initial_noise = policy.noise(len(initial.features), rng)
        at_nodes = ActionTape(policy, nodes.features, node_noise.to(nodes.features))
        at_starts = ActionTape(policy, initial.features, initial_noise.to(initial.features))
        return cls(
            problem=problem,
            policy=policy,
            at_nodes=at_nodes,
            at_starts=at_starts,
            node_backup=nodes.backup(at_nodes.actions, out=out.node_backup if out else None),
            initial_backup=initial.backup(at_starts.actions, out=out.initial_backup if out else None),
        )

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
        """Return the solution of given q and μ; their residuals are computed here."""
        Lambda = Resolvent(self.operator, self.discount)
        return BellmanSolution(
            self,
            Lambda.certify(q, self.targets, num_steps=0, tolerance=tolerance),
            Lambda.T.certify(mu, self.initial_responsibilities, num_steps=0, tolerance=tolerance),
        )
