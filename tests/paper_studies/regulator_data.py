"""Data of the regulator, for tests and for the figures held to the same limits."""

from __future__ import annotations

import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import LQR, collect, simulate
from nopg.policies import GaussianPolicy, LinearPolicy
from studies.baselines import LoggedEpisodes
from studies.paper_data import log_normal

GAMMA, SIGMA = 0.9, 0.5
BEHAVIOR = (0.35, -0.35)


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a * b).sum() / (a.norm() * b.norm()))


def own_data(gain: tuple[float, float], std: float, seed: int) -> Transitions:
    """Return episodes of the policy itself, with noise on its actions."""
    return collect(LQR(), GaussianPolicy(LinearPolicy(gain), std), episodes=100, steps=30, seed=seed)


def papers_data(seed: int) -> Transitions:
    """Return the supplement's deterministic data: a gain of (.7, −.7) and one disturbance per episode."""
    disturbance = torch.randn(100, 1, 1, generator=generator(seed, "gains"), dtype=torch.float64)
    gains = torch.diag(torch.tensor([0.7, -0.7], dtype=torch.float64)) + disturbance
    runs = simulate(
        LQR(), lambda x: torch.einsum("mij,mj->mi", gains, x), steps=30, initial_states=LQR().initial(100)
    )
    return runs.transitions(LQR())


def pwis_policy(gain: tuple[float, float] = BEHAVIOR) -> GaussianPolicy:
    return GaussianPolicy(LinearPolicy(gain), SIGMA)


def log_behavior(states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    mean = states * torch.tensor(BEHAVIOR, dtype=torch.float64)
    return log_normal(actions, mean, torch.full_like(mean, SIGMA)).sum(dim=1)


def logged_episodes(count: int, steps: int, seed: int) -> LoggedEpisodes:
    """Return episodes of the behaviour with its density."""
    return LoggedEpisodes.from_transitions(
        collect(LQR(), pwis_policy(), episodes=count, steps=steps, seed=seed), log_behavior
    )
