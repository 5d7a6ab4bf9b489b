"""One given policy on ten logs of the stochastic pendulum: `python -m studies.given_policy` prints it.

Development plant. The policy is trained once on a log of its own; then ten other logs each predict its
return, and the plant says what it is.
"""

from __future__ import annotations

import warnings

import torch

import nopg
from nopg.evaluation import OfflineEvaluator
from studies.plants import BENCHMARKS
from studies.printing import say

__all__ = ["main"]

_BENCHMARK, _ROWS, _OWN_LOG, _LOGS = "stochastic-pendulum", 3_000, 100, range(10)


def main() -> None:
    """Train, predict from every log, run, and print the relative errors."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    benchmark = BENCHMARKS[_BENCHMARK]
    config = nopg.TrainingConfig(progress=False)
    policy = nopg.optimize(benchmark.data(_ROWS, _OWN_LOG), benchmark.discount, config=config).policy
    returns = [benchmark.run(policy, seed).discounted for seed in _LOGS]
    truth = sum(returns) / len(returns)
    say(f"true discounted return {truth:.2f}")
    worst, inside = 0.0, 0
    for seed in _LOGS:
        found = OfflineEvaluator(benchmark.data(_ROWS, seed), benchmark.discount).assess(policy)
        error, (low, high) = found.expected_return / truth - 1.0, found.interval
        worst, inside = max(worst, abs(error)), inside + (low <= truth <= high)
        say(f"log {seed}: {found.expected_return:.2f} in [{low:.2f}, {high:.2f}], {error:+.1%}")
    say(f"largest error {worst:.1%}; {inside} of {len(_LOGS)} intervals contain the truth")


if __name__ == "__main__":
    main()
