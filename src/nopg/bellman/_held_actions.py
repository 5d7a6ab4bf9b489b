"""The best of some actions at every state, each held for some steps: policy iteration over value nodes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch

from nopg._seeding import generator
from nopg.bellman._multistep import MultistepProblem
from nopg.bellman._nodes import Nodes
from nopg.models import LocalModel
from nopg.models._rollout import rollout
from nopg.policies._deterministic import nearest_levels, padded_levels

# Candidates of a grid; with more actions than that allows, points that fill the box evenly.
_MOST_CANDIDATES, _MOST_LEVELS = 32, 5
_MOST_ROUNDS = 50
# A candidate must be better by this share of the values' range: ties do not turn round and round.
_BETTER = 1e-9
# Paths of random held actions that show which states can be reached, and how long they are.
_RANDOM_PATHS, _RANDOM_DECISIONS = 200, 12
# Log-odds of the unknown beyond which a state that was reached does not count.
_KNOWN = -2.0


def action_candidates(model: LocalModel) -> torch.Tensor:
    """Return candidates (c, d_a) within the limits of actions: levels, a grid, or an even cover."""
    schema, limits = model.data.schema, model.action_limits
    box = _box_candidates(*limits)
    if not schema.levels:
        return box
    low, high = limits.tolist()
    axes = [
        [one for one in schema.levels[name] if low[k] <= one <= high[k]]
        if name in schema.levels
        else box[:, k].unique().tolist()
        for k, name in enumerate(schema.actions)
    ]
    if math.prod(map(len, axes)) <= _MOST_CANDIDATES:
        return torch.tensor([*itertools.product(*axes)], dtype=torch.float64)
    rounded: torch.Tensor = nearest_levels(box, padded_levels(schema.actions, schema.levels)).unique(dim=0)
    return rounded


def _box_candidates(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    d = len(low)
    levels = next((k for k in range(_MOST_LEVELS, 1, -1) if k**d <= _MOST_CANDIDATES), None)
    if levels is None:
        unit = torch.quasirandom.SobolEngine(d).draw(_MOST_CANDIDATES).to(low)
    else:
        axis = torch.linspace(0, 1, levels).to(low)
        unit = torch.cartesian_prod(*[axis] * d).reshape(-1, d)
    return low + (high - low) * unit


def reachable_states(model: LocalModel, starts: torch.Tensor, hold: int, *, seed: int) -> torch.Tensor:
    """Return states (v, d_s) that random held actions reach, within the data, from starts and log."""
    rng = generator(seed, "reachable states")
    logged = model.rows.first[model.rows.sample[:_RANDOM_PATHS]]
    states = torch.cat([starts, model.data.states[logged]])
    candidates = action_candidates(model)
    drawn = torch.randint(len(candidates), (_RANDOM_DECISIONS, len(states)), generator=rng)
    path = rollout(model, lambda _, t: candidates[drawn[t // hold]], states, hold * _RANDOM_DECISIONS)
    inside = (path.log_odds < _KNOWN) & (path.going[:-1] > 0)
    return torch.as_tensor(path.states[:-1][inside])


@dataclass(frozen=True)
class HeldActions:
    """The best of candidates (c, d_a) at the nodes of a problem (m, d_a), held for its horizon."""

    problem: MultistepProblem
    candidates: torch.Tensor
    values: torch.Tensor
    actions: torch.Tensor

    def best(self, states: torch.Tensor) -> torch.Tensor:
        """Return the best candidate (m, d_a) at any raw states (m, d_s)."""
        return self.candidates[_held(self.problem, self.candidates, states).worth(self.values).argmax(dim=0)]


@dataclass(frozen=True, slots=True)
class _Backups:
    """What c candidates earn while they are held at m states, and where that leads."""

    earned: torch.Tensor  # discounted rewards, (c, m)
    near: torch.Tensor  # numbers of the nodes around the last states, (c, m, k)
    weights: torch.Tensor  # their discounted weights, (c, m, k)

    def worth(self, values: torch.Tensor) -> torch.Tensor:
        """Return the value (c, m) of each candidate, given those of the nodes (n,)."""
        return self.earned + (self.weights * values[self.near]).sum(dim=2)


def _held(problem: MultistepProblem, candidates: torch.Tensor, states: torch.Tensor) -> _Backups:
    """Return the backups of candidates (c, d_a), each held for the horizon from raw states (m, d_s)."""
    c, m, gamma = len(candidates), len(states), problem.discount
    held = candidates.repeat_interleave(m, dim=0)
    path = rollout(problem.model, lambda _, t: held, states.repeat(c, 1), problem.horizon)
    path = problem.charged(path)
    G, alive, _ = path.value(gamma, problem.unknown_value)
    ends = problem.nodes.interpolate(torch.as_tensor(path.states[-1]))
    weights = gamma ** len(path) * torch.as_tensor(alive[-1])[:, None] * ends.weights
    return _Backups(torch.as_tensor(G[0]).view(c, m), ends.near.view(c, m, -1), weights.view(c, m, -1))


def best_held_actions(problem: MultistepProblem, hold: int, *, num_nodes: int, seed: int) -> HeldActions:
    """Return the optimum of the model over decisions that are `hold` steps apart.

    Nodes cover the logged states and those that random actions reach. Policy iteration finds the optimum over
    all policies that choose among the candidates, where a gradient may end in a local one.
    """
    model = problem.model
    visited = reachable_states(model, problem.starts, hold, seed=seed)
    nodes = Nodes.covering(model, num_nodes, visited)
    held = problem.replace(horizon=hold, nodes=nodes)
    candidates = action_candidates(model)
    backups, rows = _held(held, candidates, nodes.states), torch.arange(len(nodes))
    chosen, eye = backups.earned.argmax(dim=0), torch.eye(len(nodes), dtype=torch.float64)
    for _ in range(_MOST_ROUNDS):
        W = torch.zeros_like(eye).scatter_add_(1, backups.near[chosen, rows], backups.weights[chosen, rows])
        values = torch.linalg.solve(eye - W, backups.earned[chosen, rows])
        worth = backups.worth(values)
        best = worth.max(dim=0)
        better = best.values > worth[chosen, rows] + _BETTER * (worth.max() - worth.min())
        if not bool(better.any()):
            break
        chosen = torch.where(better, best.indices, chosen)
    return HeldActions(held, candidates, values, candidates[chosen])
