"""Where an ascent begins: at the best actions of the model, as far as the policy can show them."""

from __future__ import annotations

import torch

from nopg._seeding import generator
from nopg.bellman import BestActions, ControlProblem, best_actions
from nopg.policies import Policy, imitate
from nopg.solvers import Solver

__all__ = ["start_greedily"]

# Half of the examples are where the best actions lead to, half anywhere in the data.
_VISITED = 0.5
_MOST_EXAMPLES = 1_000_000


def start_greedily(
    policy: Policy, problem: ControlProblem, candidates: torch.Tensor, *, solver: Solver, seed: int
) -> BestActions:
    """Fit the policy, in place, to the best of the candidates (c, d_a) at every state; return these.

    Policy iteration finds the optimum of the model over all policies that choose among the candidates; the
    gradient then finds what this policy can do from there on.
    """
    best, ranks = best_actions(problem, candidates, solver=solver), problem.space.ranks
    total = int(ranks.total(len(best.actions)))
    visits = best.visits / problem.space.sum(best.visits)
    weights = _VISITED * visits + (1 - _VISITED) / total
    # Every rank fits the same policy to the examples of all.
    some = slice(None, None, -(-total // _MOST_EXAMPLES))
    features, actions, weights = (
        ranks.gather(part[some].contiguous()) for part in (best.features, best.actions, weights)
    )
    imitate(policy, features, actions, weights, rng=generator(seed, "imitation"))
    return best
