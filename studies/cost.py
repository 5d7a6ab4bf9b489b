"""CPU seconds of nopg and of each baseline on 1 000 rows, one thread: `python -m studies.cost`."""

from __future__ import annotations

import time

import torch

import nopg
from nopg.baselines import BASELINES, baseline
from studies.study import say


def smooth_log(rows: int = 1_000) -> nopg.Transitions:
    """Return a log of a smooth plant with three states and two actions in episodes of 50 steps."""
    rng = torch.Generator().manual_seed(0)
    s = 2 * torch.rand(rows, 3, generator=rng, dtype=torch.float64) - 1
    a = 2 * torch.rand(rows, 2, generator=rng, dtype=torch.float64) - 1
    turn = torch.stack([s[:, 1], -s[:, 0].sin(), 0.5 * s[:, 0] * s[:, 1] - 0.3 * s[:, 2]], dim=1)
    push = torch.stack([0.0 * a[:, 0], a[:, 0], a[:, 1]], dim=1)
    rewards = -s.square().sum(dim=1) - 0.01 * a.square().sum(dim=1)
    return nopg.Transitions.from_arrays(
        s, a, rewards, s + 0.1 * (turn + push), episodes=torch.arange(rows) // 50, initial_states=s[:20]
    )


def main() -> None:
    """Measure and print; `simc` has other data and costs as `lqr`."""
    torch.set_num_threads(1)
    data = smooth_log()
    for name in ("nopg", *BASELINES):
        began = time.process_time()
        if name == "nopg":
            nopg.optimize(data, 0.97, config=nopg.TrainingConfig(progress=False))
        elif name != "simc":
            baseline(name, data, 0.97)
        say(f"{name}: {time.process_time() - began:.2f} CPU s")


if __name__ == "__main__":
    main()
