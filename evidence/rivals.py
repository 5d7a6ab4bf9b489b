"""What other estimators of the gradient do on the regulator, where the truth is known."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import torch

from evidence.figure import Figure
from nopg._seeding import generator
from nopg.envs import LQR
from nopg.policies import LinearPolicy
from paper.regulator_data import GAMMA, cosine, logged_episodes, own_data, papers_data, pwis_policy
from studies.baselines import DPG, PWIS, ExactLQR, Weights

__all__ = ["rivals"]

_COMMAND = "python -m evidence --only rivals"
_SECTION = "Other estimators of the gradient, on the LQR"


def rivals() -> Iterator[Figure]:
    """Yield the figures of DPG and PWIS."""
    yield from _semi_gradient()
    yield from _importance_sampling()


def _semi_gradient() -> Iterator[Figure]:
    gains = [(-1.5, -1.0), (-3.0, -2.0), (-5.0, -3.0)]
    for told, required, on_policy in (("own data", "≥ .9", True), ("the supplement's data", "lower", False)):
        cosines = []
        for gain in gains:
            exact = LQR().gradient(gain, horizon=30)
            found = []
            for seed in range(5):
                data = own_data(gain, 0.1, seed) if on_policy else papers_data(seed)
                estimator = DPG(data, GAMMA, critic_steps=1_000)
                (direction,) = estimator.estimate(LinearPolicy(gain), rng=torch.Generator()).direction
                found.append(cosine(direction, exact))
            cosines.append(statistics.fmean(found))
        measured = ", ".join(f"{c:.2f} at {g}" for c, g in zip(cosines, gains, strict=True))
        kept = min(cosines) >= 0.9 if on_policy else max(cosines) < 0.9
        yield Figure(
            _SECTION, f"DPG's cosine with the exact gradient, {told}", required, measured, kept, _COMMAND
        )


def _importance_sampling() -> Iterator[Figure]:
    target, steps = pwis_policy((0.45, -0.45)), 3
    exact = ExactLQR(LQR(), horizon=steps).estimate(target, rng=torch.Generator()).direction[0]
    for weights in ("plain", "per-decision"):
        found = torch.stack([_pwis(50, steps, seed, weights) for seed in range(2_000)])
        error = found.std(dim=0) / len(found) ** 0.5
        away = float(((found.mean(dim=0) - exact).abs() / error).max())
        yield Figure(
            _SECTION,
            f"PWIS, {weights}: mean over 2 000 datasets from the exact gradient, in standard errors",
            "≤ 3",
            f"{away:.2f}",
            away <= 3,
            _COMMAND,
        )
    variances = {T: _variance(T) for T in (2, 4, 8)}
    yield Figure(
        _SECTION,
        "PWIS, per-decision: variance of the direction at 2, 4 and 8 steps",
        "grows",
        ", ".join(f"{variance:.3g}" for variance in variances.values()),
        variances[2] < variances[4] < variances[8],
        _COMMAND,
    )


def _pwis(episodes: int, steps: int, seed: int, weights: Weights, gain: float = 0.45) -> torch.Tensor:
    estimator = PWIS(logged_episodes(episodes, steps, seed), GAMMA, weights=weights)
    return estimator.estimate(pwis_policy((gain, -gain)), rng=generator(0, "none")).direction[0]


def _variance(steps: int) -> float:
    directions = [_pwis(10, steps, seed, "per-decision", 0.6) for seed in range(300)]
    return float(torch.stack(directions).var(dim=0).sum())
