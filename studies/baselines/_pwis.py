"""Path-wise importance sampling with G(PO)MDP (`eq:pwis`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from nopg.bellman import GradientEstimate
from nopg.data import Transitions
from nopg.data._episodes import contiguous_runs
from nopg.errors import ArgumentError, DataError, SolverError
from nopg.policies import GaussianMLPPolicy, GaussianPolicy, Policy
from nopg.policies._policy import trainable
from studies.paper_data import log_normal


@dataclass(frozen=True, slots=True, eq=False)
class LoggedEpisodes:
    """Whole episodes, in order, each row with the density of its action under the behaviour.

    Build it with `from_transitions`, which refuses data that importance sampling cannot use.
    """

    data: Transitions  # The transitions, episode after episode.
    episode: torch.Tensor  # The number of the episode of each row, from 0, shape (n,).
    time: torch.Tensor  # The number of the step of each row in its episode, from 0, shape (n,).
    log_behavior: torch.Tensor  # log π_β(a | s) of each row, shape (n,).

    @classmethod
    def from_transitions(
        cls, data: Transitions, log_density: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    ) -> LoggedEpisodes:
        """Bind the density of the behaviour to episodes."""
        if data.episodes is None:
            raise DataError(
                "importance sampling weighs whole trajectories, and these transitions belong to none; "
                "give episodes, or use NOPG, which needs no trajectories"
            )
        runs, count = contiguous_runs(data), len(set(data.episodes.tolist()))
        if len(runs) != count:
            raise DataError(
                f"the {count} episodes fall into {len(runs)} unbroken stretches; importance sampling cannot "
                "bridge a gap"
            )
        log_behavior = log_density(data.states, data.actions)
        if impossible := int((~log_behavior.isfinite()).sum()):
            raise DataError(
                f"{impossible} of {len(data)} logged actions have density 0, infinite or NaN under the "
                "behaviour; a deterministic behaviour has no density, or this is not the one that acted"
            )
        lengths = torch.tensor([run.stop - run.start for run in runs])
        episode = torch.repeat_interleave(torch.arange(len(runs)), lengths)
        first = torch.tensor([run.start for run in runs])
        return cls(data, episode, torch.arange(len(data)) - first[episode], log_behavior)

    def grid(self, values: torch.Tensor) -> torch.Tensor:
        """Return one number per row (n,) as one per episode and time (N, T), 0 where there is none."""
        table = values.new_zeros(int(self.episode[-1]) + 1, int(self.time.max()) + 1)
        return table.index_put((self.episode, self.time), values)


class PWIS:
    """The gradient of the return of logged episodes, re-weighted as if the policy had acted in them.

    With ρₜ = Πₛ≤ₜ π(aₛ|sₛ)/π_β(aₛ|sₛ), the product over the steps of an episode so far, the return is
    estimated, and differentiated, as the mean over episodes of Σₜ γᵗρₜrₜ, which is G(PO)MDP: no reward is
    weighed by what came after it. It is unbiased, for the horizon of the data.

    Args:
        episodes: Whole episodes with the density of the behaviour.
        discount: γ.
        low: The lower corner (d_a,) of the box that applied actions were clipped to, if they were: then an
            action at a bound has the probability of all that lies beyond it, as for the behaviour.
        high: The upper corner.
    """

    def __init__(
        self,
        episodes: LoggedEpisodes,
        discount: float,
        *,
        low: torch.Tensor | None = None,
        high: torch.Tensor | None = None,
    ) -> None:
        self.episodes, self._low, self._high = episodes, low, high
        data = episodes.data
        self._log_behavior = episodes.grid(episodes.log_behavior)
        self._taken = episodes.grid(torch.ones(len(data), dtype=torch.float64)) > 0
        discounts = discount ** torch.arange(self._taken.shape[1], dtype=torch.float64)
        self._discounted = discounts * episodes.grid(data.rewards)

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        """Return the gradient at this policy; it is the same for every generator."""
        if not isinstance(policy, (GaussianPolicy, GaussianMLPPolicy)):
            raise ArgumentError(
                "importance sampling needs a stochastic policy: a deterministic one gives logged actions no "
                "density; use a Gaussian policy, or NOPG"
            )
        with torch.enable_grad():
            mean, std = policy.moments(self.episodes.data.features)
            actions = self.episodes.data.actions
            log_pi = log_normal(actions, mean, std, low=self._low, high=self._high).sum(dim=1)
            log_rho = (self.episodes.grid(log_pi) - self._log_behavior).cumsum(dim=1)
            rho = torch.where(self._taken, log_rho, -torch.inf).exp()
            expected_return = (rho * self._discounted).sum(dim=1).mean()
            direction = torch.autograd.grad(
                expected_return, trainable(policy), allow_unused=True, materialize_grads=True
            )
        if not all(bool(part.isfinite().all()) for part in (expected_return, *direction)):
            raise SolverError(
                f"the importance weights reach e^{float(log_rho.detach().max()):.0f}, beyond what numbers "
                "hold: the policy is too far from the behaviour; use shorter episodes, or NOPG"
            )
        whole = torch.softmax(log_rho.detach()[:, -1], dim=0)
        size = float(1 / whole.square().sum())
        return GradientEstimate(direction, expected_return.item(), {"effective_sample_size": size})
