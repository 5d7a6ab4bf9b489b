"""Policy iteration over the finite candidates of actions that are not continuous."""

from __future__ import annotations

import copy

import torch

from nopg.bellman import MultistepProblem
from nopg.bellman._held_actions import action_candidates
from nopg.evaluation._interval import cautious_return
from nopg.evaluation._model_paths import ModelPaths
from nopg.policies import QuantizedPolicy
from nopg.policies._imitation import imitate
from nopg.training._linear_law import followed

__all__ = ["best_candidates", "improve_by_candidates"]

_ROUNDS, _STEPS, _MOST_STATES = 2, 200, 1_000


def improve_by_candidates(
    policy: QuantizedPolicy, first: MultistepProblem, within: MultistepProblem
) -> tuple[int, ModelPaths]:
    """Improve a policy in place where a gradient through a rounding cannot; return rounds and paths.

    In a round every candidate is tried for one step at the nodes and the visited states, and the best ones
    are imitated. A round whose cautious return is not higher is undone and is the last.

    Args:
        policy: Changed in place.
        first: The problem that controllers are compared on.
        within: The problem of the ascent.
    """
    paths = followed(first, policy)
    for number in range(_ROUNDS):
        before = copy.deepcopy(policy.state_dict())
        visited = paths.visited
        even = torch.linspace(0, len(visited) - 1, min(len(visited), _MOST_STATES)).long()
        states = torch.cat([within.nodes.states, visited[even]])
        features, actions = within.data.schema.encode(states), best_candidates(policy, within, states)
        imitate(policy.policy, features, actions, torch.ones(len(states)).double(), steps=_STEPS)
        found = followed(first, policy)
        if cautious_return(found) <= cautious_return(paths):
            policy.load_state_dict(before)
            return number, paths
        paths = found
    return _ROUNDS, paths


def best_candidates(policy: QuantizedPolicy, problem: MultistepProblem, states: torch.Tensor) -> torch.Tensor:
    """Return the candidates (m, d_a) that are best for one step before the policy, at raw states (m, d_s)."""
    solution = problem.replace(num_parts=1).solve(policy)
    candidates = action_candidates(problem.data.actions, problem.data.schema)
    worth = [solution.value_after(states, one.expand(len(states), -1)) for one in candidates]
    return candidates[torch.stack(worth).argmax(dim=0)]
