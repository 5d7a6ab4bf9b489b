"""A double integrator under linear feedback: logs, controllers, and runs with random steps added."""

from __future__ import annotations

import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.evaluation import OfflineEvaluator
from nopg.policies import LinearPolicy
from nopg.training import Controller, TrainingResult

GAIN = torch.tensor([[-1.0, -1.5]], dtype=torch.float64)
_DRIFT = torch.tensor([[1.0, 0.1], [0.0, 1.0]], dtype=torch.float64)
_FORCE = torch.tensor([[0.005], [0.1]], dtype=torch.float64)
_NOISE = torch.tensor([0.002, 0.02], dtype=torch.float64)


def feedback_run(rows: int, *, seed: int, dither: float, gain: float = 1.0, bend: float = 0.0) -> Transitions:
    """Return episodes of 50 steps; the force is that of the feedback and a uniform step up to the dither."""
    rng, steps = generator(seed, "double integrator"), 50
    count = -(-rows // steps)
    s, columns = torch.randn(count, 2, generator=rng, dtype=torch.float64), []
    for _ in range(steps):
        a = s @ GAIN.T + dither * (2 * torch.rand(count, 1, generator=rng, dtype=torch.float64) - 1)
        noise = torch.randn(count, 2, generator=rng, dtype=torch.float64) * _NOISE
        after = s @ _DRIFT.T + gain * a @ _FORCE.T + noise
        after[:, 1] += bend * (2 * s[:, 0]).sin()
        columns.append((s, a, -s.square().sum(dim=1) - 0.1 * a[:, 0].square(), after))
        s = after
    s, a, r, after = (torch.stack(one, dim=1).flatten(0, 1) for one in zip(*columns, strict=True))
    numbers = torch.arange(count).repeat_interleave(steps)
    return Transitions.from_arrays(s, a, r, after, episodes=numbers).take(torch.arange(rows))


def fitted_to_feedback(dither: float, *, bend: float = 0.0) -> TrainingResult:
    """Return the feedback as a controller, with a model of 600 rows of it, without a training."""
    data = feedback_run(600, seed=1000, dither=dither, bend=bend)
    evaluator, policy = OfflineEvaluator(data, 0.9), Controller(LinearPolicy(GAIN.clone()), data.schema)
    result = object.__new__(TrainingResult)
    result.__dict__.update(policy=policy, evaluator=evaluator, evaluation=evaluator.assess(policy))
    return result
