"""The update as one would write it first: n × n matrices, a dense solve, autograd through all of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg import Bandwidths, Transitions
from nopg.policies import Policy

__all__ = ["DenseUpdate"]


@dataclass(frozen=True)
class DenseUpdate:
    """What does not depend on the policy, computed once.

    Attributes:
        next_features: s′, shape (n, d_f).
        start_features: Initial states, shape (n₀, d_f).
        actions: a, shape (n, d_a).
        rewards: r, shape (n,).
        continues: 0 where the task ended and 1 elsewhere, shape (n,).
        psi: ψ(s′ᵢ, sⱼ), shape (n, n).
        start_psi: ψ of the initial states, shape (n₀, n).
        action_widths: h_φ, shape (d_a,).
        discount: γ.
        prior_mass: β.
        unknown_value: v.
    """

    next_features: torch.Tensor
    start_features: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    continues: torch.Tensor
    psi: torch.Tensor
    start_psi: torch.Tensor
    action_widths: torch.Tensor
    discount: float
    prior_mass: float
    unknown_value: float

    @classmethod
    def from_data(
        cls,
        data: Transitions,
        bandwidths: Bandwidths,
        *,
        discount: float,
        prior_mass: float,
        unknown_value: float,
        dtype: torch.dtype,
    ) -> DenseUpdate:
        """Return the update for these transitions, all in one dtype."""
        s, s_next, s_0 = data.features, data.next_features, data.schema.encode(data.starts)
        h = bandwidths.states
        return cls(
            next_features=s_next.to(dtype),
            start_features=s_0.to(dtype),
            actions=data.actions.to(dtype),
            rewards=data.rewards.to(dtype),
            continues=(~data.terminated).to(dtype),
            psi=_kernel((s_next / h).to(dtype), (s / h).to(dtype)),
            start_psi=_kernel((s_0 / h).to(dtype), (s / h).to(dtype)),
            action_widths=bandwidths.actions.to(dtype),
            discount=discount,
            prior_mass=prior_mass,
            unknown_value=unknown_value,
        )

    def direction(self, policy: Policy) -> tuple[torch.Tensor, ...]:
        """Return ∂Ĵ/∂θ of a deterministic policy whose parameters have the same dtype."""
        return torch.autograd.grad(self.expected_return(policy), list(policy.parameters()))

    def expected_return(self, policy: Policy) -> torch.Tensor:
        """Return Ĵ = ε₀ᵀq + m₀v, Λq = r + γmv, with its tape."""
        P, m = self._responsibilities(policy.mode(self.next_features), self.psi)
        P, m = self.continues[:, None] * P, self.continues * m
        eps_0, m_0 = self._responsibilities(policy.mode(self.start_features), self.start_psi)

        Lambda = torch.eye(len(P), dtype=P.dtype) - self.discount * P
        q = torch.linalg.solve(Lambda, self.rewards + self.discount * m * self.unknown_value)
        J: torch.Tensor = (eps_0 @ q + m_0 * self.unknown_value).mean()
        return J

    def _responsibilities(
        self, actions: torch.Tensor, psi: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ε (m, n) and the unknown mass (m,) for one action per query."""
        h = self.action_widths
        kernel = psi * _kernel(actions / h, self.actions / h)
        total = self.prior_mass + kernel.sum(dim=1, keepdim=True)
        return kernel / total, (self.prior_mass / total)[:, 0]


def _kernel(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return exp(−½‖x − y‖²) of all pairs of points (m, d) and (n, d)."""
    squared = sum(((a[:, None] - b).square() for a, b in zip(x.T, y.T, strict=True)), torch.zeros(()))
    return torch.exp(-0.5 * squared)
