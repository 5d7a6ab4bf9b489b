"""Logs of the regulator: the supplement's two, and covering ones of our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import LQR, collect, simulate
from nopg.policies import GaussianPolicy, LinearPolicy, Policy
from studies.lqr_analysis import optimal_gain
from studies.paper_data import log_normal

__all__ = ["EPISODES", "LOGS", "STEPS", "Log", "line", "rows_within"]

EPISODES, STEPS = 100, 30


@dataclass(frozen=True, slots=True)
class Log:
    """How 100 episodes of 30 steps are logged, and the settings that the supplement gives for them.

    Attributes:
        gains: Of the behaviour, and of the policy at the start of an ascent.
        std: Of a Gaussian behaviour and policy; None for gains that are disturbed once per episode.
        bandwidths: The supplement's, of states and of actions, "on average".
        start_width: Initial states are uniform within ± this; None for (1, 1), as printed.
        action_noise: Standard deviation of noise on the actions of disturbed gains.
    """

    gains: tuple[float, float] = (0.7, -0.7)
    std: float | None = None
    bandwidths: tuple[tuple[float, float], tuple[float, float]] = ((0.03, 0.05), (0.33, 0.27))
    start_width: float | None = None
    action_noise: float = 0.0

    def policy(self, gains: torch.Tensor, *, num_action_samples: int | None = None) -> Policy:
        """Return the policy with these gains (2,)."""
        mean = LinearPolicy(gains)
        if self.std is None:
            return mean
        return GaussianPolicy(mean, self.std, num_action_samples=num_action_samples)

    def start(self) -> torch.Tensor:
        """Return the gains (2,) of the behaviour."""
        return torch.tensor(self.gains, dtype=torch.float64)

    def data(self, seed: int) -> Transitions:
        """Return the 3 000 rows; the task starts at (1, 1)."""
        lqr = LQR()
        if self.std is not None:
            behavior = self.policy(self.start(), num_action_samples=15)
            return collect(lqr, behavior, episodes=EPISODES, steps=STEPS, seed=seed).starting_at(
                lqr.initial(1)
            )
        # Four draws per episode: one for all four gains, as it could be read, would tie u₁ − u₂ to the state.
        disturbance = torch.randn(EPISODES, 2, 2, generator=generator(seed, "gains"), dtype=torch.float64)
        gains, noise_rng = torch.diag(self.start()) + disturbance, generator(seed, "noise")
        initial = lqr.initial(EPISODES)
        if self.start_width is not None:
            uniform = torch.rand(EPISODES, 2, generator=generator(seed, "starts"), dtype=torch.float64)
            initial = self.start_width * (2 * uniform - 1)

        def act(x: torch.Tensor) -> torch.Tensor:
            noise = torch.randn(EPISODES, 2, generator=noise_rng, dtype=torch.float64)
            return torch.einsum("mij,mj->mi", gains, x) + self.action_noise * noise

        runs = simulate(lqr, act, steps=STEPS, initial_states=initial)
        return runs.transitions(lqr).starting_at(lqr.initial(1))

    def log_density(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the log density (n,) of the Gaussian behaviour."""
        mean = states * self.start()
        return log_normal(actions, mean, torch.full_like(mean, self.std or 0.0)).sum(dim=1)


LOGS: Mapping[str, Log] = MappingProxyType(
    {
        "printed": Log(),
        "starts": Log(start_width=1.5),
        "noise": Log(action_noise=3.0),
        "covering": Log(start_width=1.5, action_noise=3.0),
        "gaussian": Log((0.35, -0.35), 0.1, ((0.008, 0.003), (0.02, 0.02)), 10),
    }
)
"""As printed; initial states in ±1.5; noise of sd 3 on the actions; both; the supplement's stochastic log."""


def rows_within(data: Transitions, limit: float) -> Transitions:
    """Return the rows that stay within ± the limit; without control the states grow to 10⁶."""
    near = (data.states.abs().amax(dim=1) <= limit) & (data.next_states.abs().amax(dim=1) <= limit)
    return data.take(near).starting_at(LQR().initial(1))


def line(start: torch.Tensor, shares: list[float]) -> list[torch.Tensor]:
    """Return gains (2,) on the straight line from the behaviour (0) to the optimum (1).

    The line favours no estimator and no optimiser.
    """
    best = optimal_gain(LQR()).diagonal()
    return [torch.lerp(start, best, share) for share in shares]
