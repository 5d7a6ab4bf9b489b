"""What the samples that are no candidates change: 500 random sets with narrow action bandwidths.

`python -m studies.cut` compares Ĵ and its gradient with those of all samples as candidates. Policies act
partly beyond the logged actions. Seeds are 0 to 499; the distributions were fixed before the first run.
With `--cost` it measures what the control of the cut costs an update.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from nopg._seeding import generator
from nopg.bellman import NOPG, PaperProblem, solution_gradient
from nopg.data import Schema, Transitions
from nopg.kernels import Bandwidths, select_bandwidths
from nopg.models import PaperModel, _candidates
from nopg.models._candidates import CandidateSearch
from nopg.models._paper_queries import PaperBackup
from nopg.models._prior_mass import DEFAULT_PRIOR_MASS
from nopg.models._row_order import next_state_order
from nopg.policies import GaussianPolicy, LinearPolicy, MLPPolicy, Policy
from studies.cut_gradient import gradient_error_bound
from studies.paper._tasks import TASKS, Task
from studies.printing import say

__all__ = ["Compared", "RandomSet", "compare", "cost"]


@dataclass(frozen=True, slots=True)
class RandomSet:
    """Transitions, bandwidths and a policy, all drawn from one seed."""

    data: Transitions
    bandwidths: Bandwidths
    policy: Policy
    discount: float
    prior_mass: float

    @classmethod
    def draw(cls, seed: int) -> RandomSet:
        """Return the set of a seed."""
        rng = generator(seed, "cut")

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=rng, dtype=torch.float64)

        def one_of(*values: float) -> float:
            return values[int(torch.randint(len(values), (1,), generator=rng))]

        n, d_s, d_a = int(one_of(60, 150, 300, 600)), int(one_of(1, 2, 3)), int(one_of(1, 2))
        states = normal(n, d_s)
        actions = 2.0 * torch.rand(n, d_a, generator=rng, dtype=torch.float64) - 1.0
        moved = 0.9 * states + 0.5 * actions @ normal(d_a, d_s) + 0.05 * normal(n, d_s)
        rewards = -states.square().sum(dim=1) - 0.1 * actions.square().sum(dim=1)
        schema = Schema(tuple(f"s{i}" for i in range(d_s)), tuple(f"a{i}" for i in range(d_a)))
        ends = torch.zeros(n, dtype=torch.bool)
        data = Transitions(states, actions, rewards, moved, ends, ends, schema, initial_states=states[:3])
        h = Bandwidths.from_values(
            [one_of(0.1, 0.2, 0.4)] * d_s, [one_of(0.03, 0.1, 0.3)] * d_a, source="the study"
        )
        mean = LinearPolicy(normal(d_a, d_s))  # beyond ±1 for a good part of the states
        policy = mean if one_of(0, 1) else GaussianPolicy(mean, 0.2, num_action_samples=4)
        return cls(data, h, policy, one_of(0.9, 0.97, 0.99), one_of(0.0, 1e-6, 1e-3))

    def solved(self, search: CandidateSearch, seed: int) -> tuple[float, torch.Tensor, float, float]:
        """Return Ĵ, its gradient, and the bounds on what the cut changes in them."""
        model = PaperModel(self.data, self.bandwidths, prior_mass=self.prior_mass, search=search)
        problem = PaperProblem.build(model, self.data.starts, discount=self.discount)
        solution = problem.equation(self.policy, generator(seed, "actions")).solve(tolerance=1e-12)
        bound = gradient_error_bound(solution)
        gradient = torch.cat([part.flatten() for part in solution_gradient(solution)])
        return solution.expected_return, gradient, solution.certificate.return_error, bound


@dataclass(frozen=True, slots=True)
class Compared:
    """The controlled cut against all samples on one set.

    Attributes:
        return_error: |Ĵ − Ĵ of all samples|.
        return_bound: What the certificate says.
        gradient_error: ‖∂Ĵ − ∂Ĵ of all samples‖.
        gradient_bound: What `gradient_error_bound` says.
        gradient_norm: ‖∂Ĵ‖ of all samples.
    """

    return_error: float
    return_bound: float
    gradient_error: float
    gradient_bound: float
    gradient_norm: float


def compare(seed: int) -> Compared:
    """Return the comparison on the set of a seed."""
    drawn = RandomSet.draw(seed)
    J, g, bound, g_bound = drawn.solved(CandidateSearch(), seed)
    all_J, all_g, rest, _ = drawn.solved(CandidateSearch(num_candidates=len(drawn.data)), seed)
    return Compared(
        return_error=abs(J - all_J),
        return_bound=bound + rest,
        gradient_error=float((g - all_g).norm()),
        gradient_bound=g_bound,
        gradient_norm=float(all_g.norm()),
    )


def cost(rows: int = 10_000, updates: int = 30) -> tuple[float, int]:
    """Return the CPU time of updates on the pendulum relative to those with the cut of ψ at 10⁻⁴ alone.

    The second number is that of the rows that were searched again in the last update. The two kinds of update
    alternate, on one thread.
    """
    torch.set_num_threads(1)
    task = TASKS["pendulum-random"]
    data = task.data(rows, 0)
    h = select_bandwidths(data)
    data = data.take(next_state_order(data, h.state_kernel))
    runs = [_Updates(task, data, h, controlled=controlled) for controlled in (True, False)]
    for number in range(updates + 3):
        for run in runs:
            run.update(counted=number >= 3)
    backup = runs[0].problem.equation(runs[0].policy, generator(0)).node_backup
    assert isinstance(backup, PaperBackup)
    return runs[0].seconds / runs[1].seconds, len(backup.where)


class _Updates:
    """Updates of one policy, with or without control of the cut."""

    def __init__(self, task: Task, data: Transitions, h: Bandwidths, *, controlled: bool) -> None:
        self.seconds = 0.0
        with _uncontrolled(not controlled):
            model = PaperModel(data, h, prior_mass=DEFAULT_PRIOR_MASS)
        starts = data.schema.encode(data.starts)
        self.problem = PaperProblem.build(model, starts, discount=task.discount)
        self.policy = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))
        self._controlled, self._estimator, self._rng = controlled, NOPG(self.problem), generator(0)
        self._adam = torch.optim.Adam(self.policy.parameters(), lr=0.01)

    def update(self, *, counted: bool) -> None:
        """Make one update."""
        began = time.process_time()
        with _uncontrolled(not self._controlled):
            estimate = self._estimator.estimate(self.policy, rng=self._rng)
        self.seconds += (time.process_time() - began) * counted
        for parameter, part in zip(self.policy.parameters(), estimate.direction, strict=True):
            parameter.grad = -part
        self._adam.step()


@contextlib.contextmanager
def _uncontrolled(active: bool) -> Iterator[None]:
    """Cut by ψ at 10⁻⁴ and K at 1.5 K*, and search no row again, as before the cut was controlled."""
    names = ("_CUTOFF", "_ROOM", "_MOST_LOST")
    kept = [getattr(_candidates, name) for name in names]
    try:
        for name, value in zip(names, (2.0 * math.log(1e4), 1.5, math.inf) if active else kept, strict=True):
            setattr(_candidates, name, value)
        yield
    finally:
        for name, value in zip(names, kept, strict=True):
            setattr(_candidates, name, value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the comparison over all seeds."""
    parser = argparse.ArgumentParser(prog="python -m studies.cut", description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=500, help="number of random sets")
    parser.add_argument("--cost", action="store_true", help="measure the cost of an update instead")
    given = parser.parse_args(arguments)
    if given.cost:
        ratio, again = cost()
        say(f"10 000 rows of the pendulum: {ratio:.2f} times the update; {again} rows searched again")
        return 0
    sets = [compare(seed) for seed in range(given.sets)]
    # Both gradients come from solves with residuals of 1e-12, which count where nothing is cut.
    beyond = [s.gradient_error > s.gradient_bound + 1e-9 * s.gradient_norm for s in sets]
    relative = [s.gradient_error / s.gradient_norm for s in sets]
    bounds = [s.gradient_bound / s.gradient_norm for s in sets]
    small = [error for error, bound in zip(relative, bounds, strict=True) if bound < 0.01]
    say(f"{len(sets)} sets")
    say(f"return beyond its bound: {sum(s.return_error > s.return_bound for s in sets)}")
    say(f"gradient beyond its bound: {sum(beyond)}")
    say(f"gradient error over 10 %: {sum(error > 0.1 for error in relative)}; largest {max(relative):.2g}")
    say(f"gradient bound below 1 %: {len(small)}; the largest error of these {max(small, default=0.0):.2g}")
    say(f"median bound of the gradient {sorted(bounds)[len(bounds) // 2]:.2g}")
    say(f"largest bound of the return {max(s.return_bound for s in sets):.2g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
