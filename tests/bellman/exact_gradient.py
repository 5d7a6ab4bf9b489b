"""The exact gradient of a multi-step equation, from its values and visits."""

from __future__ import annotations

import torch

from nopg.bellman import MultistepProblem
from nopg.bellman._sampled import path_gradient
from nopg.policies import Policy


def exact_gradient(problem: MultistepProblem, policy: Policy) -> tuple[torch.Tensor, ...]:
    """Return the derivative of the objective by the policy's trainable parameters.

    With values and visits held fixed, ∂J = Σ_z μ_z ∂(backup of z) + the starts' backups: exact, because
    Λ and Λᵀ are solved.
    """
    solution, path = problem.solve(policy), problem.paths(policy, slopes=True)
    P, L, m, n_0 = problem.num_parts, problem.num_paths, len(problem.nodes), len(problem.starts)
    at_starts = problem.few_starts.weights.expand(P, n_0) / P
    shares = torch.cat([solution.visits, at_starts], dim=1) / L
    part = torch.arange(P).repeat_interleave(L * (m + n_0))
    ends = problem.nodes.interpolate(torch.as_tensor(path.states[-1]))
    return path_gradient(
        problem,
        policy,
        path,
        ends=ends,
        values=solution.values[part[:, None], ends.near],
        weights=shares[:, None].expand(P, L, m + n_0).reshape(-1),
        noise=problem.action_noise(policy),
    )
