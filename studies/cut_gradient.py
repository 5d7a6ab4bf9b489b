"""What the samples that are left out of the sums of the paper's model may change in the policy gradient."""

from __future__ import annotations

import torch

from nopg.bellman._solution import BellmanSolution
from nopg.models._model import Backup, Queries
from nopg.models._paper_queries import PaperBackup, PaperQueries
from nopg.policies import Policy
from nopg.policies._policy import ActionTape

# States whose derivatives are held at a time.
_CHUNK = 512


def gradient_error_bound(solution: BellmanSolution) -> float:
    """Return a bound on the Euclidean norm of the change of ∂Ĵ/∂θ if all samples were candidates.

    With T = Σ ε (q − V)(aⱼ − a)/h at a query, A and S the sums of ε‖aⱼ − a‖/h over its candidates and over
    the samples left out, δ the share that is lost and s the spread of the values (`Cut`),
    |T̂ − T| ≤ s (2δA + S + 2Δ(A + S)) and |T| ≤ s (A + S). The visits differ by at most
    2(δ₀ + μ̂ᵀγδ)/(1 − γ) in sum. Each query moves the parameters by at most the norm of ∂a/∂θ.

    It takes the derivative of every action by itself: for a certificate, not for an update.
    """
    equation, cut = solution.equation, solution.cut
    problem, gamma = equation.problem, equation.discount
    model, starts = problem.model, problem.initial
    lost = float(solution.mu.clamp(min=0) @ (gamma * equation.lost))
    moved = 2.0 * (equation.initial_lost + lost) / (1.0 - gamma)

    changed, size = _bounds(model.node_queries, equation.at_nodes, equation.node_backup, cut.largest)
    at_starts, _ = _bounds(starts, equation.at_starts, equation.initial_backup, cut.largest)
    each = (model.continues / model.group_size).repeat_interleave(model.group_size)
    visits = solution.mu.abs().repeat_interleave(model.group_size)
    at_nodes = float(visits @ (each * changed)) + moved * model.group_size * float((each * size).max())
    return cut.spread * (gamma * at_nodes + float(at_starts.sum()) / problem.num_initial)


def _bounds(
    queries: Queries, tape: ActionTape, backup: Backup, largest: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return bounds (m,) on the change and on the size of ∂V/∂θ at each query, per unit of the spread."""
    assert isinstance(queries, PaperQueries)
    assert isinstance(backup, PaperBackup)
    near, far, lost = queries.action_distances(tape.actions, backup)
    width = float(queries.model.action_widths.min())
    weight = _jacobian_norms(tape.policy, tape.features, tape.noise) / (width * len(near))  # (L, m)
    error = 2.0 * lost * near + far + 2.0 * largest * (near + far)
    return (weight * error).sum(dim=0), (weight * (near + far)).sum(dim=0)


class _Actions(torch.nn.Module):
    """The actions of a policy at one state, as a module that can be called with other parameters."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Return actions (L, d_a) at features (d_f,) with noise (L, d_a)."""
        return self.policy.actions(features[None], noise[:, None])[:, 0]


def _jacobian_norms(policy: Policy, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return the Frobenius norm of ∂a/∂θ for every sample and state, shape (L, m)."""
    module = _Actions(policy)
    parameters = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}

    def of_one(values: dict[str, torch.Tensor], s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        actions: torch.Tensor = torch.func.functional_call(module, values, (s, z))
        return actions

    def norms(values: dict[str, torch.Tensor], s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        parts = torch.func.jacrev(of_one)(values, s, z).values()  # (L, d_a, …) each
        return (
            torch.stack([part.square().flatten(start_dim=1).sum(dim=1) for part in parts]).sum(dim=0).sqrt()
        )

    by_state: torch.Tensor = torch.func.vmap(norms, in_dims=(None, 0, 1), chunk_size=_CHUNK)(
        parameters, features, noise
    )
    return by_state.T
