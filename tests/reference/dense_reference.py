"""The Bellman equation of the paper a second time: dense, in loops, straight from the formulas."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from nopg.policies import Policy

__all__ = [
    "DenseProblem",
    "DenseSolution",
    "encode",
    "responsibilities",
    "solve_dense",
    "truncated_return",
]

Array = npt.NDArray[np.float64]


def encode(states: Array, columns: Sequence[str], angles: Mapping[str, float]) -> Array:
    """Replace every angle θ of period T by (cos 2πθ/T, sin 2πθ/T); states have shape (m, d_s)."""
    rows = []
    for state in states:
        row: list[float] = []
        for name, x in zip(columns, state, strict=True):
            if name in angles:
                row += [math.cos(2 * math.pi * x / angles[name]), math.sin(2 * math.pi * x / angles[name])]
            else:
                row.append(float(x))
        rows.append(row)
    return np.array(rows)


@dataclass(frozen=True, slots=True)
class DenseProblem:
    """All that does not depend on the policy; states are features already.

    Attributes:
        states: s, shape (n, d_f).
        actions: a, shape (n, d_a).
        rewards: r, shape (n,).
        terminated: t, shape (n,).
        next_points: Where the next-state kernel of each row is evaluated, shape (n, g, d_f).
        starts: Initial states, shape (n₀, d_f).
        h_psi: Of ψ, shape (d_f,).
        h_varphi: Of φ, shape (d_a,).
        beta: β.
        gamma: γ.
        v: Value of the unknown state.
    """

    states: Array
    actions: Array
    rewards: Array
    terminated: npt.NDArray[np.bool_]
    next_points: Array
    starts: Array
    h_psi: Array
    h_varphi: Array
    beta: float
    gamma: float
    v: float


@dataclass(frozen=True, slots=True)
class DenseSolution:
    """Λq = b, Λᵀμ = ε₀ and what follows: Ĵ = ε₀ᵀq + m₀v, U = m₀ + γμᵀm."""

    P: Array
    b: Array
    m: Array
    eps_0: Array
    m_0: float
    q: Array
    mu: Array
    J: float
    U: float


def responsibilities(problem: DenseProblem, query: Array, action: Array) -> tuple[Array, float]:
    """εⱼ = exp ℓⱼ / (β + Σ exp ℓ) and m = β / (β + Σ exp ℓ), at one state and one action."""
    kernel = np.zeros(len(problem.states))
    for j in range(len(problem.states)):
        psi = math.exp(-0.5 * np.sum(((query - problem.states[j]) / problem.h_psi) ** 2))
        varphi = math.exp(-0.5 * np.sum(((action - problem.actions[j]) / problem.h_varphi) ** 2))
        kernel[j] = psi * varphi
    total = problem.beta + kernel.sum()
    return kernel / total, problem.beta / total


def mean_of_ratios(problem: DenseProblem, query: Array, actions: Array) -> tuple[Array, float]:
    """Average ε and m over the sampled actions (L, d_a) of a stochastic policy."""
    eps, m = np.zeros(len(problem.states)), 0.0
    for action in actions:
        eps_l, m_l = responsibilities(problem, query, action)
        eps, m = eps + eps_l / len(actions), m + m_l / len(actions)
    return eps, m


def solve_dense(problem: DenseProblem, node_actions: Array, initial_actions: Array) -> DenseSolution:
    """Write the equation down and solve it.

    Args:
        problem: The data and the settings.
        node_actions: Actions at the next points, shape (L, n·g, d_a), the g points of a row together.
        initial_actions: Actions at the initial states, shape (L, n₀, d_a).
    """
    n, g = problem.next_points.shape[:2]
    P, m = np.zeros((n, n)), np.zeros(n)
    for i in range(n):
        if problem.terminated[i]:
            continue
        for k in range(g):
            eps, unknown = mean_of_ratios(problem, problem.next_points[i, k], node_actions[:, i * g + k])
            P[i] += eps / g
            m[i] += unknown / g

    n_0 = len(problem.starts)
    eps_0, m_0 = np.zeros(n), 0.0
    for k in range(n_0):
        eps, unknown = mean_of_ratios(problem, problem.starts[k], initial_actions[:, k])
        eps_0, m_0 = eps_0 + eps / n_0, m_0 + unknown / n_0

    Lambda = np.eye(n) - problem.gamma * P
    b = problem.rewards + problem.gamma * m * problem.v
    q: Array = np.asarray(np.linalg.solve(Lambda, b), dtype=np.float64)
    mu: Array = np.asarray(np.linalg.solve(Lambda.T, eps_0), dtype=np.float64)
    return DenseSolution(
        P=P,
        b=b,
        m=m,
        eps_0=eps_0,
        m_0=m_0,
        q=q,
        mu=mu,
        J=float(eps_0 @ q + m_0 * problem.v),
        U=float(m_0 + problem.gamma * mu @ m),
    )


def truncated_return(
    problem: DenseProblem,
    policy: Policy,
    *,
    node_noise: torch.Tensor,
    initial_noise: torch.Tensor,
    node_mask: torch.Tensor,
    initial_mask: torch.Tensor,
) -> torch.Tensor:
    """Return Ĵ(θ) with a tape through policy, responsibilities and the dense solve.

    Args:
        problem: The data and the settings.
        policy: Whose parameters Ĵ depends on.
        node_noise: Noise of the actions at the next points, shape (L, n·g, d_a).
        initial_noise: Noise of the actions at the initial states, shape (L, n₀, d_a).
        node_mask: Which samples each next point may use, shape (n·g, n).
        initial_mask: Which samples each initial state may use, shape (n₀, n).
    """
    n, g = problem.next_points.shape[:2]
    queries = torch.as_tensor(problem.next_points.reshape(n * g, -1))
    eps, unknown = _taped_responsibilities(problem, queries, policy.actions(queries, node_noise), node_mask)
    goes_on = torch.as_tensor(~problem.terminated).double()
    P = goes_on[:, None] * eps.reshape(n, g, n).mean(dim=1)
    m = goes_on * unknown.reshape(n, g).mean(dim=1)

    starts = torch.as_tensor(problem.starts)
    eps, unknown = _taped_responsibilities(
        problem, starts, policy.actions(starts, initial_noise), initial_mask
    )
    Lambda = torch.eye(n, dtype=torch.float64) - problem.gamma * P
    q = torch.linalg.solve(Lambda, torch.as_tensor(problem.rewards) + problem.gamma * m * problem.v)
    J: torch.Tensor = eps.mean(dim=0) @ q + unknown.mean() * problem.v
    return J


def _taped_responsibilities(
    problem: DenseProblem, queries: torch.Tensor, actions: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ε (m, n) and m (m,), means over the L actions (L, m, d_a), on the masked samples."""
    s, a = torch.as_tensor(problem.states), torch.as_tensor(problem.actions)
    h_s, h_a = torch.as_tensor(problem.h_psi), torch.as_tensor(problem.h_varphi)
    of_states = ((queries[:, None] - s) / h_s).square().sum(dim=-1)  # (m, n)
    of_actions = ((actions[:, :, None] - a) / h_a).square().sum(dim=-1)  # (L, m, n)
    kernel = (-0.5 * (of_states + of_actions)).exp() * mask
    total = problem.beta + kernel.sum(dim=-1, keepdim=True)
    return (kernel / total).mean(dim=0), (problem.beta / total)[..., 0].mean(dim=0)
