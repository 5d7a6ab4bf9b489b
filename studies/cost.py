"""What a training costs: `python -m studies.cost` measures CPU seconds and some ratios on one thread.

With `--baselines`, what each baseline of `nopg.compare` costs.
Development plants. Ratios are of two things measured in one run; the larger of three repetitions is left out.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable

import torch

import nopg
from nopg.baselines import BASELINES, baseline
from nopg.bellman import MultistepProblem
from nopg.envs import Pendulum, collect_uniform
from nopg.evaluation import OfflineEvaluator
from nopg.models import LocalModel
from nopg.policies import MLPPolicy
from studies.printing import say
from studies.rivals import RIVALS

__all__ = ["main"]


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _median(work: Callable[[], object], times: int = 3) -> float:
    return statistics.median(_cpu(work) for _ in range(times))


def smooth_log(rows: int, seed: int = 0) -> nopg.Transitions:
    """Return a log of a smooth plant with three states and two actions in episodes of 50 steps."""
    rng = torch.Generator().manual_seed(seed)
    s = 2 * torch.rand(rows, 3, generator=rng, dtype=torch.float64) - 1
    a = 2 * torch.rand(rows, 2, generator=rng, dtype=torch.float64) - 1
    turn = torch.stack([s[:, 1], -s[:, 0].sin(), 0.5 * s[:, 0] * s[:, 1] - 0.3 * s[:, 2]], dim=1)
    push = torch.stack([0.0 * a[:, 0], a[:, 0], a[:, 1]], dim=1)
    after = s + 0.1 * (turn + push)
    rewards = -s.square().sum(dim=1) - 0.01 * a.square().sum(dim=1)
    return nopg.Transitions.from_arrays(
        s, a, rewards, after, episodes=torch.arange(rows) // 50, initial_states=s[:20]
    )


def training_seconds(data: nopg.Transitions, discount: float) -> float:
    """Return the CPU seconds from data to result with nothing set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _cpu(lambda: nopg.optimize(data, discount, config=nopg.TrainingConfig(progress=False)))


def rival_ratio(rows: int = 5_000) -> float:
    """Return the time of a training over that of 10 000 updates of d3rlpy's TD3+BC on the same rows."""
    data = smooth_log(rows)
    return training_seconds(data, 0.97) / _cpu(lambda: RIVALS["td3bc"](data, 0.97, 0))


def update_ratio(few: int, many: int) -> float:
    """Return the time of one update on a log of many rows over that on one of few, of the same plant."""
    seconds = []
    for rows in (few, many):
        data = collect_uniform(Pendulum(), rows, seed=0)
        problem = MultistepProblem.build(LocalModel(data), data.starts[:20], 0.97)
        policy = MLPPolicy.from_data(data.features, data.actions, rng=torch.Generator().manual_seed(0))
        gradient, rng = problem.estimator(), torch.Generator()
        seconds.append(_median(lambda g=gradient, q=policy, r=rng: g.estimate(q, rng=r), 21))  # type: ignore[misc]
    return seconds[1] / seconds[0]


def discount_ratio() -> float:
    """Return the time of an evaluation at γ = .9999 over that at γ = .99, the model given."""
    data = smooth_log(1_000)
    model = LocalModel(data)

    def still(states: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(states), 2, dtype=torch.float64)

    near, nearer = (OfflineEvaluator(data, gamma, model=model) for gamma in (0.99, 0.9999))
    return _median(lambda: nearer.assess(still)) / _median(lambda: near.assess(still))


def baselines() -> None:
    """Print the CPU seconds of every baseline on 1 000 rows; `simc` has other data and costs as `lqr`."""
    data = smooth_log(1_000)
    for name in BASELINES:
        if name != "simc":
            say(f"{name}: {_cpu(lambda name=name: baseline(name, data, 0.97)):.2f} CPU s")  # type: ignore[misc]


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    if "--baselines" in sys.argv[1:]:
        baselines()
        return
    grid = collect_uniform(Pendulum(), 500, seed=0).starting_at([[3.14159, 0.0]])
    say(f"500 rows, pendulum, γ = .97: {training_seconds(grid, 0.97):.1f} CPU s")
    for rows in (5_000, 50_000):
        say(f"{rows} rows, 3 states, 2 actions: {training_seconds(smooth_log(rows), 0.97):.1f} CPU s")
    say(f"update at 10⁵ rows over update at 10³ rows: {update_ratio(1_000, 100_000):.2f}")
    say(f"5000 rows, 3 states, 2 actions, over TD3+BC with 10 000 updates: {rival_ratio():.2f}")
    say(f"evaluation at γ = .9999 over γ = .99: {discount_ratio():.2f}")


if __name__ == "__main__":
    main()
