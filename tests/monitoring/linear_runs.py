"""One controller of a noisy linear plant, and runs of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

import nopg
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import LQR, collect_uniform
from nopg.policies import LinearPolicy
from nopg.training import TrainingResult

NOISE = 0.02


def trained() -> TrainingResult:
    """Return a controller from 400 rows with noise of .02 on the next states."""
    data = collect_uniform(LQR(state_bound=1.5, action_bound=5.0), 400, seed=0)
    noise = NOISE * torch.randn(data.states.shape, generator=generator(0, "noise"), dtype=torch.float64)
    data = replace(data, next_states=data.next_states + noise)
    gain = LinearPolicy(torch.diag(torch.tensor([-6.0, -3.0], dtype=torch.float64)))
    return nopg.optimize(
        data, 0.9, policy=gain, config=nopg.TrainingConfig(updates=1, start="given", progress=False)
    )


def run_lqr(
    policy: Callable[[torch.Tensor], torch.Tensor],
    *,
    rows: int,
    seed: int,
    gain: float = 1.0,
    sensor: float = 0.0,
    push: float = 0.0,
    spread: float = 1.4,
    noise: float = NOISE,
) -> Transitions:
    """Return rows of a run in episodes of 20 steps, with a fault in the first coordinate."""
    plant, rng, steps = LQR(), generator(seed, "run"), 20
    first = torch.tensor([1.0, 0.0], dtype=torch.float64)
    count = -(-rows // steps)
    states = spread * (2 * torch.rand(count, 2, dtype=torch.float64, generator=rng) - 1)
    columns = []
    for _ in range(steps):
        seen = states + sensor * first
        asked = policy(seen)
        weaker = asked * torch.tensor([gain, 1.0], dtype=torch.float64)
        draws = noise * torch.randn(count, 2, dtype=torch.float64, generator=rng)
        states = plant.step(states, weaker) + push * first + draws
        after = states + sensor * first
        columns.append((seen, asked, plant.reward(seen, asked, after), after))
    s, a, r, after = (torch.stack(one, dim=1).flatten(0, 1) for one in zip(*columns, strict=True))
    return Transitions.from_arrays(
        s,
        a,
        r,
        after,
        episodes=torch.arange(count).repeat_interleave(steps),
        state_names=plant.state_names,
        action_names=plant.action_names,
    ).take(torch.arange(rows))
