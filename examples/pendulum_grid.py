"""Swing up a pendulum from a grid of single experiments: no simulator in training, nothing tuned.

Collects the paper's grid of transitions, trains a policy from them with `nopg.optimize`, which gets
the discount and nothing else, and only then lets the policy run on the real dynamics, 500 steps from
hanging.

    python examples/pendulum_grid.py --samples 450 --trials 5
"""

import argparse
import statistics
import time
from typing import Literal

import nopg
from nopg.envs import Pendulum, Trajectories, collect_grid, simulate

# The paper's grids (`tab:pendulum_uniform`): size → points per angle, velocity and torque.
GRIDS = {2 * n * n: (n, n, 2) for n in (10, 15, 20, 25, 30, 40)}
# Return of the best policy for a discount over 500 undiscounted steps, by value iteration on the true
# dynamics. A policy can do a little better by chance: it is not this return that it maximises.
LIMITS = {0.97: -369, 0.99: -304}


def run_trial(
    samples: int,
    *,
    discount: float,
    policy: Literal["deterministic", "gaussian"],
    model: Literal["local", "paper"] = "local",
    seed: int,
) -> tuple[Trajectories, nopg.TrainingResult]:
    """Train once on the grid; return 500 steps from hanging on the true dynamics, and the result."""
    environment = Pendulum()
    data = collect_grid(environment, GRIDS[samples])
    result = nopg.optimize(data, discount, policy=policy, model=model, config=nopg.TrainingConfig(seed=seed))
    return simulate(environment, result.policy, steps=500), result


def main() -> None:
    """Run the trials and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=450, choices=sorted(GRIDS), help="grid size")
    parser.add_argument("--trials", type=int, default=5, help="how many seeds, from 0")
    parser.add_argument("--discount", type=float, default=0.97)
    parser.add_argument("--policy", default="deterministic", choices=["deterministic", "gaussian"])
    parser.add_argument("--model", default="local", choices=["local", "paper"])
    options = parser.parse_args()

    returns = []
    for seed in range(options.trials):
        started = time.monotonic()
        run, result = run_trial(
            options.samples,
            discount=options.discount,
            policy=options.policy,
            model=options.model,
            seed=seed,
        )
        returns.append(float(run.returns[0]))
        discounted = float(run.discounted_returns(options.discount)[0])
        show(
            f"trial {seed}: return {returns[-1]:.1f}; discounted {discounted:.1f}, "
            f"predicted {result.expected_return:.1f}, unknown mass {result.unknown_mass:.2%}; "
            f"{len(result.history)} updates in {time.monotonic() - started:.0f} s"
        )

    limit = LIMITS.get(options.discount)
    gamma = f"{options.discount:g}".removeprefix("0")
    note = f" (limit {limit} for γ = {gamma})" if limit else ""
    show(f"median {statistics.median(returns):.1f} worst {min(returns):.1f}{note}")


def show(line: str) -> None:
    """Print a line at once, with real minus signs."""
    print(line.replace("-", "−"), flush=True)


if __name__ == "__main__":
    main()
