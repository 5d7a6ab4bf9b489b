"""Rollouts of a controller from the starts of a task, with the equation's value as their tail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from nopg._seeding import generator
from nopg._typing import FloatArray
from nopg.bellman import MultistepProblem
from nopg.bellman._multistep_solution import MultistepSolution
from nopg.bellman._nodes import Nodes
from nopg.data._start_set import StartSet
from nopg.evaluation._behavior import LoggedBehavior
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._held_out import HeldOutErrors, held_out_errors
from nopg.models._rollout import Rollout, rollout
from nopg.policies import Policy
from nopg.policies._deterministic import Mode

# Share of the return's weight left to the equation's value, and the longest rollout.
_TAIL, _LONGEST = 0.05, 300
_NUM_NODES = 100
# Number of paths to which the starts are repeated where the plant is noisy.
_FEWEST_PATHS = 40
# Starts that are followed through all rows; those of the equation are followed through halves too.
_MOST_STARTS = 200


@dataclass(frozen=True)
class StartReturns:
    """What the model of all rows predicts from each start: all of them, or a draw of k."""

    starts: StartSet
    returns: torch.Tensor  # discounted, (k,)
    pessimistic: torch.Tensor  # the same with the unknown value where a path leaves the data, (k,)
    unknown: torch.Tensor  # discounted share of the paths that leaves the data, (k,)
    lost: torch.Tensor  # share that has left the data at the end of the paths, not discounted, (k,)

    @property
    def worst(self) -> torch.Tensor:
        """The returns where leaving the data has the least value, unless that is higher, shape (k,)."""
        return torch.minimum(self.returns, self.pessimistic)


@dataclass(frozen=True)
class Paths:
    """Paths of one controller through all parts of a model. Part 0 is all rows, the others are halves.

    There are P parts, and m paths of T steps through each.
    """

    by_start: StartReturns  # by part 0: from all starts, or from more of them than the paths begin in
    starts: StartSet  # those that the paths begin in
    returns: torch.Tensor  # discounted, (P, m)
    pessimistic: torch.Tensor  # the same with the unknown value where a path leaves the data, (P, m)
    states: torch.Tensor  # raw, part after part, (T, P·m, d_s)
    actions: torch.Tensor  # (T, P·m, d_a)
    rewards: torch.Tensor  # (T, P·m)
    end_rewards: torch.Tensor  # discounted |r| of the step that ends the task, 0 if none, (P, m)
    costs: torch.Tensor  # discounted sums of the further columns that the model predicts, (k, P, m)
    going: torch.Tensor  # share that has not ended before, whatever the data know, (T, P·m)
    stays: torch.Tensor  # share that has not left the data, whether or not it has ended, (T + 1, P·m)
    last: torch.Tensor  # raw states that the last step led to, (P·m, d_s)
    goes_on: torch.Tensor  # share that has not ended after the last step, (P·m,)
    repeats: int  # of every start
    solution: MultistepSolution  # whose values are the tails

    @property
    def weights(self) -> torch.Tensor:
        """Share of each path, shape (m,), sum 1."""
        return self.starts.weights.repeat(self.repeats) / self.repeats

    @property
    def visited(self) -> torch.Tensor:
        """Raw states of the paths through the model of all rows, step after step, shape (T·m, d_s)."""
        return self.states[:, : len(self.weights)].flatten(end_dim=1)

    @property
    def row_weights(self) -> torch.Tensor:
        """Discounted weight of each of these states, shape (T·m,); after the paths their weights continue."""
        T, m, gamma = len(self.states), len(self.weights), self.solution.problem.discount
        weights = gamma ** torch.arange(T)[:, None] * self.going[:, :m] * self.weights
        later = gamma**T / (1.0 - gamma) * (self.weights @ self.goes_on[:m])
        return (weights * (1.0 + later / weights.sum().clamp(min=1e-300))).reshape(-1)

    @cached_property
    def held_out(self) -> HeldOutErrors:
        """What errors of the model on held-out rows would change in the return, along the paths of part 0."""
        actions = self.actions[:, : len(self.weights)].flatten(end_dim=1)
        return held_out_errors(self.solution, self.visited, actions, self.row_weights)


def follow(
    problem: MultistepProblem,
    law: PolicyLaw | LoggedBehavior,
    *,
    num_parts: int,
    steps: int | None = None,
    fewest: int | None = None,
    all_starts: bool = True,
) -> Paths:
    """Return the paths of a controller, or of the logged behaviour, from the starts of a problem.

    They have `steps`, by default until the equation's value has a twentieth of the return's weight, at most
    300. Where plant or law are random the starts are repeated to `fewest` paths, 40 by default. Part 0 is
    followed from all starts, or only from those of the equation.
    """
    model, gamma, few = problem.model, problem.discount, problem.few_starts
    T = steps or min(max(math.ceil(math.log(_TAIL) / math.log(gamma)) if gamma > 0 else 1, 1), _LONGEST)
    repeats = max(-(-(fewest or _FEWEST_PATHS) // len(few)), 2) if problem.noisy or law.draws else 1
    starts = few.states.repeat(repeats, 1)
    m = len(starts)
    part = np.arange(num_parts).repeat(m)
    path = rollouts(problem, law, starts, T, num_parts=num_parts)

    visited = torch.as_tensor(path.states[:, :m].reshape(-1, model.num_states))
    nodes = Nodes.covering(model, _NUM_NODES, visited)
    solution = problem.replace(nodes=nodes, num_parts=num_parts).solve(Mode(law))
    returns, pessimistic, unknown = _valued(path, solution, part)
    shape = (num_parts, m)
    own = path.take(np.arange(m))
    by_start = _by_start(few, repeats, [one[:m] for one in (returns, pessimistic, unknown)], own, gamma)
    if all_starts and few.drawn:
        more = problem.start_set.few(_MOST_STARTS, purpose="starts that are followed")
        extra = rollouts(problem, law, more.states, T, num_parts=1)
        by_start = _by_start(more, 1, _valued(extra, solution, np.zeros(len(more), int)), extra, gamma)
    return Paths(
        by_start=by_start,
        starts=few,
        returns=torch.as_tensor(returns.reshape(shape)),
        pessimistic=torch.as_tensor(pessimistic.reshape(shape)),
        states=torch.as_tensor(path.states[:-1]),
        actions=torch.as_tensor(path.actions),
        rewards=torch.as_tensor(path.rewards),
        end_rewards=torch.as_tensor(_end_rewards(path, gamma).reshape(shape)),
        costs=torch.as_tensor(_discounted_costs(path, gamma).reshape(-1, *shape)),
        going=torch.as_tensor(path.going[:-1]),
        stays=torch.as_tensor(path.stays(gamma)),
        last=torch.as_tensor(path.states[-1]),
        goes_on=torch.as_tensor(path.going[-1]),
        repeats=repeats,
        solution=solution,
    )


def rollouts(
    problem: MultistepProblem, law: Policy, starts: torch.Tensor, steps: int, *, num_parts: int
) -> Rollout:
    """Return rollouts through parts, with the same noise in each, so that parts differ by fits alone."""
    m, noise = len(starts), None
    if problem.noisy:
        rng = generator(0, "noise of the rollouts")
        shape = (steps, m, 2 * problem.model.num_states)
        noise = torch.randn(shape, generator=rng, dtype=torch.float64).repeat(1, num_parts, 1).numpy()
    states, part = starts.repeat(num_parts, 1), np.arange(num_parts).repeat(m)
    return rollout(
        problem.model, lambda features, _: law.mode(features), states, steps, part=part, noise=noise
    )


def _valued(path: Rollout, solution: MultistepSolution, part: np.ndarray) -> tuple[FloatArray, ...]:
    """Return expected and pessimistic returns and unknown masses, each (N,)."""
    problem, gamma = solution.problem, solution.problem.discount
    between = problem.nodes.interpolate(torch.as_tensor(path.states[-1]))
    rows = torch.as_tensor(part)[:, None]
    tails = [
        between.values(one.values[rows, between.near]).numpy() for one in (solution, solution.without_leaving)
    ]
    lost_later = between.values(solution.unknown_values[rows, between.near]).numpy()
    G, alive, lost = path.value(gamma, problem.unknown_value, tails[0])
    expected, _, _ = path.staying().value(gamma, problem.unknown_value, tails[1])
    return expected[0], G[0], lost + gamma ** len(path) * alive[-1] * lost_later


def _by_start(
    starts: StartSet, repeats: int, values: Sequence[FloatArray], path: Rollout, discount: float
) -> StartReturns:
    """Return what is predicted from each start, the mean of its repeats."""
    lost = 1.0 - path.stays(discount)[-1]
    each = [torch.as_tensor(one).view(repeats, -1).mean(dim=0) for one in (*values, lost)]
    return StartReturns(starts, *each)


def _end_rewards(path: Rollout, discount: float) -> FloatArray:
    """Return Σ γᵗ|rₜ| (m,) over the steps that end the task, at most one on a path."""
    ends = (path.going[:-1] - path.going[1:]) * np.abs(path.rewards)
    return np.asarray(discount ** np.arange(len(path)) @ ends)


def _discounted_costs(path: Rollout, discount: float) -> FloatArray:
    """Return Σ γᵗcₜ (k, m) along paths; after them the mean of their last fifth continues."""
    T = len(path)
    spent = path.costs * path.going[:-1]
    sums = np.einsum("t,ktm->km", discount ** np.arange(T), spent)
    ahead = discount**T / (1.0 - discount) * path.going[-1]
    return np.asarray(sums + ahead * path.costs[:, -max(T // 5, 1) :].mean(axis=1))
