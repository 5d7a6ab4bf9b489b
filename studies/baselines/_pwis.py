"""Path-wise importance sampling with G(PO)MDP (`eq:pwis`)."""

from __future__ import annotations

from typing import Literal, Protocol, get_args, runtime_checkable

import torch

from nopg._checks import check_discount
from nopg._typing import ArrayLike, as_tensor
from nopg.bellman import GradientEstimate
from nopg.errors import ArgumentError, SolverError
from nopg.policies import Policy
from nopg.policies._policy import trainable
from studies.baselines._logged_episodes import LoggedEpisodes
from studies.paper_data import log_normal

__all__ = ["PWIS", "Gaussian", "Weights"]

Weights = Literal["plain", "per-decision", "self-normalised"]
"""How returns are weighed: by the whole path, by the path so far, or by that divided by its mean."""


@runtime_checkable
class Gaussian(Protocol):
    """A policy whose actions are drawn from a normal distribution around its mode."""

    def moments(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and standard deviation of each action, both (m, d_a)."""
        ...


class PWIS:
    """The gradient of the return of logged episodes, re-weighted as if the policy had acted in them.

    With ρₜ = Πₛ≤ₜ π(aₛ|sₛ)/π_β(aₛ|sₛ), the product over the steps of an episode so far, the return is
    estimated, and differentiated, as

    - plain: the mean over episodes of ρ_T Σₜ γᵗrₜ, every reward with the weight of the whole episode;
    - per-decision: the mean over episodes of Σₜ γᵗρₜrₜ, which is G(PO)MDP: no reward is weighed by what came
      after it. Both are unbiased, for the horizon of the data;
    - self-normalised: Σₜ γᵗ Σᵢρᵢₜrᵢₜ/Σᵢρᵢₜ, biased but bounded, over the episodes known at time t.

    An episode that terminated goes on with reward 0 and its last ρ; one that was cut off ends there.

    Args:
        episodes: Whole episodes with the density of the behaviour.
        discount: γ.
        weights: Which of the three.
        low: The lower corner (d_a,) of the box that applied actions were clipped to, if they were: then an
            action at a bound has the probability of all that lies beyond it, as for the behaviour.
        high: The upper corner.
    """

    def __init__(
        self,
        episodes: LoggedEpisodes,
        discount: float,
        *,
        weights: Weights = "per-decision",
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
    ) -> None:
        if weights not in get_args(Weights):
            raise ArgumentError(f"there are no weights {weights!r}; choose one of {list(get_args(Weights))}")
        if not isinstance(episodes, LoggedEpisodes):
            raise ArgumentError(
                f"PWIS needs LoggedEpisodes, got {type(episodes).__name__}: trajectories, and the density of "
                "the behaviour; see LoggedEpisodes.from_transitions"
            )
        self.episodes, self.weights, self.discount = episodes, weights, check_discount(discount)
        self._low = None if low is None else as_tensor(low)
        self._high = None if high is None else as_tensor(high)
        data = episodes.data
        self._features = data.features
        self._log_behavior = episodes.grid(episodes.log_behavior)
        self._rewards = episodes.grid(data.rewards)
        taken = episodes.grid(torch.ones(len(data), dtype=torch.float64)) > 0
        ended = episodes.grid(data.terminated.double()).any(dim=1)
        self._taken, self._known = taken, taken | ended[:, None]
        self._discounts = self.discount ** torch.arange(episodes.horizon, dtype=torch.float64)

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the gradient at this policy; it is the same for every generator."""
        del rng
        if not isinstance(policy, Gaussian):
            raise ArgumentError(
                "importance sampling needs a stochastic policy: a deterministic one gives logged actions no "
                "density; use a Gaussian policy, or NOPG"
            )
        parameters = trainable(policy)
        with torch.enable_grad():
            log_rho = self._log_weights(policy)
            expected_return = self._return(log_rho)
            direction = torch.autograd.grad(
                expected_return, parameters, allow_unused=True, materialize_grads=True
            )
        if not all(bool(part.isfinite().all()) for part in (expected_return, *direction)):
            raise SolverError(
                f"the importance weights reach e^{float(log_rho.detach().max()):.0f}, beyond what numbers "
                "hold: the policy is too far from the behaviour; use weights='self-normalised', shorter "
                "episodes, or NOPG"
            )
        whole = torch.softmax(log_rho.detach()[:, -1], dim=0)
        return GradientEstimate(
            direction=direction,
            expected_return=expected_return.item(),
            diagnostics={
                "effective_sample_size": float(1 / whole.square().sum()),
                "largest_weight": float(whole.max()),
            },
        )

    def _log_weights(self, policy: Gaussian) -> torch.Tensor:
        """Return log ρₜ of every episode and time (N, T); after the end of an episode its last."""
        episodes, (mean, std) = self.episodes, policy.moments(self._features)
        actions = episodes.data.actions
        log_pi = log_normal(actions, mean, std, low=self._low, high=self._high).sum(dim=1)
        return (episodes.grid(log_pi) - self._log_behavior).cumsum(dim=1)

    def _return(self, log_rho: torch.Tensor) -> torch.Tensor:
        discounted = self._discounts * self._rewards
        if self.weights == "plain":
            return (log_rho[:, -1].exp() * discounted.sum(dim=1)).mean()
        if self.weights == "per-decision":
            return (torch.where(self._taken, log_rho, -torch.inf).exp() * discounted).sum(dim=1).mean()
        share = torch.where(self._known, log_rho, -torch.inf).softmax(dim=0)
        return (share * discounted).sum()
