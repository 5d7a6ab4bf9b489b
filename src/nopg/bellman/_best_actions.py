"""The best action at every state of the data: policy iteration on the nodes, without a policy's form."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch

from nopg.bellman._equation import BellmanSystem, ControlProblem
from nopg.errors import ArgumentError
from nopg.graph import Queries
from nopg.solvers import Auto, Solver

__all__ = ["BestActions", "action_candidates", "best_actions"]

_log = logging.getLogger(__name__)

# Candidates of a grid; with more actions than that allows, points that fill the box evenly.
_MOST_CANDIDATES, _MOST_LEVELS = 32, 5
# Policy iteration has come to rest when fewer states than this share change their action.
_AT_REST, _MOST_ROUNDS = 1e-3, 30
_TOLERANCE = 1e-4
# A candidate must be better by this share of the values' range: ties do not turn round and round.
_BETTER = 1e-9


@dataclass(frozen=True, slots=True)
class BestActions:
    """What policy iteration found.

    Attributes:
        features: The states that the nodes lead to, shape (m, d_f); on several ranks those of this one.
        actions: The best candidate at each of them, shape (m, d_a).
        visits: Discounted visits of each of them from the initial states, shape (m,).
        expected_return: Ĵ of these actions: no policy that keeps to the candidates does better in the model.
        rounds: Of policy iteration.
    """

    features: torch.Tensor
    actions: torch.Tensor
    visits: torch.Tensor
    expected_return: float
    rounds: int


def action_candidates(actions: torch.Tensor) -> torch.Tensor:
    """Return candidates (c, d_a) in the box of these actions (n, d_a): a grid, or an even filling."""
    low, high = actions.amin(dim=0), actions.amax(dim=0)
    d = actions.shape[1]
    levels = next((k for k in range(_MOST_LEVELS, 1, -1) if k**d <= _MOST_CANDIDATES), None)
    if levels is None:
        unit = torch.quasirandom.SobolEngine(d).draw(_MOST_CANDIDATES).to(actions)
    else:
        axis = torch.linspace(0, 1, levels).to(actions)
        unit = torch.cartesian_prod(*[axis] * d).reshape(-1, d)
    return low + (high - low) * unit


def best_actions(
    problem: ControlProblem, candidates: torch.Tensor, *, solver: Solver | None = None
) -> BestActions:
    """Return the best of the candidates (c, d_a) at every state that a node leads to.

    Policy iteration: solve the equation of the present actions, take at every state the candidate with the
    best value, and again until hardly an action changes. It ends in the model's optimum, where following a
    gradient may end in a swing too many.
    """
    solve = solver or Auto()
    nodes, initial, ranks = problem.model.node_queries, problem.initial, problem.space.ranks
    if candidates.ndim != 2 or candidates.shape[1] != problem.model.num_actions:
        raise ArgumentError(
            f"candidates have shape {tuple(candidates.shape)}; give (c, {problem.model.num_actions})"
        )
    candidates = candidates.to(nodes.features)
    num_states = int(ranks.total(len(nodes.features)))
    q = nodes.features.new_zeros(problem.model.num_nodes)
    start, chosen, rounds = None, None, 0
    while True:
        rounds += 1
        better = _greedy(problem, nodes, candidates, q, chosen)
        changed = num_states if chosen is None else int(ranks.sum((better != chosen).sum()))
        chosen, at_starts = better, _greedy(problem, initial, candidates, q, None)
        system = BellmanSystem(
            problem,
            nodes.backup(candidates[chosen][None]),
            initial.backup(candidates[at_starts][None]),
        )
        solution, visits = system.solve_both(solve, tolerance=_TOLERANCE, start=start)
        q, start = solution.value, (solution.value, visits.value)
        _log.debug("policy iteration %d: %d of %d actions changed", rounds, changed, num_states)
        if changed <= _AT_REST * num_states or rounds == _MOST_ROUNDS:
            break
    values = system.initial_backup.values(q, problem.unknown_value)
    return BestActions(
        features=nodes.features,
        actions=candidates[chosen],
        visits=visits.value.clamp(min=0).repeat_interleave(problem.model.group_size),
        expected_return=problem.space.sum(values) / problem.num_initial,
        rounds=rounds,
    )


def _greedy(
    problem: ControlProblem,
    queries: Queries,
    candidates: torch.Tensor,
    q: torch.Tensor,
    chosen: torch.Tensor | None,
) -> torch.Tensor:
    """Return the number of the best candidate at each query, shape (m,); a tie stays as it was chosen."""
    m, v = len(queries.features), problem.unknown_value
    values, backup = q.new_empty(len(candidates), m), None
    for number, action in enumerate(candidates):
        backup = queries.backup(action.expand(1, m, -1).contiguous(), instead_of=backup)
        values[number] = backup.values(q, v)
    best = values.argmax(dim=0)
    if chosen is None:
        return best
    slack = _BETTER * (values.max() - values.min())
    kept = values.gather(0, chosen[None])[0] >= values.gather(0, best[None])[0] - slack
    return torch.where(kept, chosen, best)
