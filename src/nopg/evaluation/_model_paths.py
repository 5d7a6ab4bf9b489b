"""Rollouts of a controller from the starts of a task, with the equation's value as their tail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from nopg._seeding import generator
from nopg._typing import FloatArray
from nopg.bellman import MultistepProblem
from nopg.bellman._multistep_solution import MultistepSolution
from nopg.bellman._nodes import Nodes
from nopg.evaluation._held_out import HeldOutErrors, held_out_errors
from nopg.models._rollout import Rollout, rollout
from nopg.policies import Policy
from nopg.policies._deterministic import Mode

__all__ = ["ModelPaths", "follow"]

# Share of the return's weight left to the equation's value, and the longest rollout.
_TAIL, _LONGEST = 0.05, 300
_NUM_NODES = 100
# Number of paths to which the starts are repeated where the plant is noisy.
_FEWEST_PATHS = 40


@dataclass(frozen=True)
class ModelPaths:
    """Paths of one controller through all parts of a model. Part 0 is all rows, the others are halves.

    Attributes:
        returns: Discounted, of every part and path, shape (P, m).
        pessimistic: The same with the unknown value where a path leaves the data, shape (P, m).
        unknown: The discounted share of each path that leaves the data, shape (P, m).
        states: Raw states of all paths, part after part, shape (T, P·m, d_s).
        actions: Shape (T, P·m, d_a).
        rewards: Shape (T, P·m).
        end_rewards: Discounted size of the reward of the step that ends the task, 0 if none, shape (P, m).
        costs: Discounted sums of the further columns that the model predicts, shape (k, P, m).
        left: The share of a path that has neither left the data nor ended before, shape (T, P·m).
        going: The share that has not ended before, whatever the data know, shape (T, P·m).
        stays: The share that has not left the data, whether or not it has ended, shape (T + 1, P·m).
        last: Raw states that the last step led to, shape (P·m, d_s).
        goes_on: The share that has not ended after the last step, shape (P·m,).
        num_parts: P.
        repeats: How often every start is repeated.
        solution: Of the equation whose values are the tails.
    """

    returns: torch.Tensor
    pessimistic: torch.Tensor
    unknown: torch.Tensor
    states: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    end_rewards: torch.Tensor
    costs: torch.Tensor
    left: torch.Tensor
    going: torch.Tensor
    stays: torch.Tensor
    last: torch.Tensor
    goes_on: torch.Tensor
    num_parts: int
    repeats: int
    solution: MultistepSolution

    @property
    def visited(self) -> torch.Tensor:
        """Raw states of the paths through the model of all rows, step after step, shape (T·m, d_s)."""
        return self.states[:, : self.returns.shape[1]].flatten(end_dim=1)

    @cached_property
    def held_out(self) -> HeldOutErrors:
        """What errors of the model on held-out rows would change in the return.

        They are those along the paths of part 0. After these paths, the errors along them continue.
        """
        problem, T, m = self.solution.problem, len(self.states), self.returns.shape[1]
        weights = problem.discount ** torch.arange(T)[:, None] * self.going[:, :m]
        later = problem.discount**T / (1.0 - problem.discount) * self.goes_on[:m].sum()
        weights = weights * (1.0 + later / weights.sum().clamp(min=1e-300)) / m
        actions = self.actions[:, :m].flatten(end_dim=1)
        return held_out_errors(problem.model, self.solution, self.visited, actions, weights.reshape(-1))


def follow(
    problem: MultistepProblem,
    law: Policy,
    *,
    num_parts: int,
    steps: int | None = None,
    fewest: int | None = None,
) -> ModelPaths:
    """Return the paths of a controller from the starts of a problem.

    Args:
        problem: Model, starts, discount, value of the unknown, H.
        law: The controller; a stochastic one acts by its mode.
        num_parts: Number of parts of the model.
        steps: Length of the paths; by default until the equation's value has a twentieth of the return's
            weight, at most 300.
        fewest: Number of paths to which the starts are repeated where the plant is noisy; 40 by default.
    """
    model, gamma = problem.model, problem.discount
    T = steps or min(max(math.ceil(math.log(_TAIL) / math.log(gamma)) if gamma > 0 else 1, 1), _LONGEST)
    repeats = max(-(-(fewest or _FEWEST_PATHS) // len(problem.starts)), 2) if problem.noisy else 1
    starts = problem.starts.repeat(repeats, 1)
    m = len(starts)
    noise = _noise(problem, (T, m, 2 * model.num_states), num_parts) if problem.noisy else None
    part = np.arange(num_parts).repeat(m)
    path = rollout(
        model, lambda features, _: law.mode(features), starts.repeat(num_parts, 1), T, part=part, noise=noise
    )

    visited = torch.as_tensor(path.states[:, :m].reshape(-1, model.num_states))
    nodes = Nodes.covering(model, _NUM_NODES, visited)
    solution = problem.replace(nodes=nodes, num_parts=num_parts).solve(Mode(law))
    bold = solution.without_leaving()
    between = nodes.interpolate(torch.as_tensor(path.states[-1]))
    rows = torch.as_tensor(part)[:, None]
    tails = [between.values(one.values[rows, between.near]).numpy() for one in (solution, bold)]
    lost_later = between.values(solution.unknown_values[rows, between.near]).numpy()

    G, alive, lost = path.value(gamma, problem.unknown_value, tails[0])
    expected, _, _ = path.staying().value(gamma, problem.unknown_value, tails[1])
    lost = lost + gamma ** len(path) * alive[-1] * lost_later
    shape = (num_parts, m)
    return ModelPaths(
        returns=torch.as_tensor(expected[0].reshape(shape)),
        pessimistic=torch.as_tensor(G[0].reshape(shape)),
        unknown=torch.as_tensor(lost.reshape(shape)),
        states=torch.as_tensor(path.states[:-1]),
        actions=torch.as_tensor(path.actions),
        rewards=torch.as_tensor(path.rewards),
        end_rewards=torch.as_tensor(_end_rewards(path, gamma).reshape(shape)),
        costs=torch.as_tensor(_discounted_costs(path, gamma).reshape(-1, *shape)),
        left=torch.as_tensor(alive[:-1]),
        going=torch.as_tensor(path.going[:-1]),
        stays=torch.as_tensor(path.stays(gamma)),
        last=torch.as_tensor(path.states[-1]),
        goes_on=torch.as_tensor(path.going[-1]),
        num_parts=num_parts,
        repeats=repeats,
        solution=solution,
    )


def _noise(problem: MultistepProblem, shape: tuple[int, int, int], num_parts: int) -> FloatArray:
    """Return standard normal noise, the same for every part, so that parts differ by fits alone."""
    rng = generator(problem.seed, "noise of the rollouts")
    return torch.randn(shape, generator=rng, dtype=torch.float64).repeat(1, num_parts, 1).numpy()


def _end_rewards(path: Rollout, discount: float) -> FloatArray:
    """Return Σ γᵗ|rₜ| (m,) over the steps that end the task, at most one on a path."""
    ends = (path.going[:-1] - path.going[1:]) * np.abs(path.rewards)
    found: FloatArray = discount ** np.arange(len(path)) @ ends
    return found


def _discounted_costs(path: Rollout, discount: float) -> FloatArray:
    """Return Σ γᵗcₜ (k, m) along paths; after them the mean of their last fifth continues."""
    T = len(path)
    spent = path.costs * path.going[:-1]
    sums = np.einsum("t,ktm->km", discount ** np.arange(T), spent)
    ahead = discount**T / (1.0 - discount) * path.going[-1]
    total: FloatArray = sums + ahead * path.costs[:, -max(T // 5, 1) :].mean(axis=1)
    return total
