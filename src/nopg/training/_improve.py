"""How a policy is improved: an ascent of the equation, rounds over levels of actions, prices of limits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch

from nopg.bellman import ControlProblem, MultistepProblem, Solution
from nopg.bellman._held_actions import action_candidates
from nopg.bellman._multistep import LONGEST_HORIZON
from nopg.bellman._nodes import Nodes
from nopg.bellman._sampled import SampledGradient
from nopg.evaluation import Assessment, OfflineEvaluator
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._paths import Paths, follow
from nopg.policies import Policy, QuantizedPolicy
from nopg.policies._deterministic import Mode
from nopg.policies._imitation import imitate
from nopg.training._ascent import ascend
from nopg.training._checkpoint import Checkpoint
from nopg.training._config import TrainingConfig
from nopg.training._constraints import Constraint, ConstraintResult, DualAscent
from nopg.training._proposals import PARTS
from nopg.training._reports import Update

_NUM_NODES = 100
# Of what returns are possible: by how much an equation may miss the rollouts of its own model.
_TOLERANCE = 0.01
# Of policy iteration over candidates of actions: rounds, steps of imitation, and states that are visited.
_ROUNDS, _STEPS, _MOST_STATES = 2, 200, 1_000


def improve(
    policy: Policy,
    evaluator: OfflineEvaluator,
    start: Assessment,
    config: TrainingConfig,
    *,
    constraints: Sequence[Constraint],
    checkpoint: Checkpoint | None,
    note: Callable[[str], None],
) -> tuple[tuple[Update, ...], tuple[ConstraintResult, ...]]:
    """Improve a policy in place; return its updates, and what came of each limit.

    Of the start, as assessed, and the end one is chosen. Gradients are stochastic, of paths through all rows
    and halves. `note` receives lines about what is done.
    """
    parameters, paths = copy.deepcopy(policy.state_dict()), start.paths
    problem = choose_horizon(evaluator.problem, policy, paths)
    problem = problem.replace(num_parts=min(PARTS, problem.model.num_parts))
    note(problem.description)
    gradient = SampledGradient(problem, paths.visited)
    history = ascend(gradient, policy, config, checkpoint=checkpoint, annealed=True)
    if evaluator.choose([start, evaluator.assess(policy, parts=PARTS)], parts=PARTS) == 0:
        policy.load_state_dict(parameters)
        note("the ascent adds nothing: the start is kept")
    if isinstance(policy, QuantizedPolicy):
        rounds = improve_by_candidates(policy, evaluator, problem)
        note(f"rounds of policy iteration over the levels of the actions that gained: {rounds}")
    if not constraints:
        return history, ()
    return DualAscent(constraints, gradient, evaluator).solve(policy, config, history)


def choose_horizon(problem: MultistepProblem, policy: Policy, paths: Paths) -> MultistepProblem:
    """Return the problem with nodes where the policy goes, and H by the model alone.

    H is doubled while the equation misses the return along the model's own rollouts.
    """
    model, gamma = problem.model, problem.discount
    problem = problem.replace(nodes=Nodes.covering(model, _NUM_NODES, paths.visited))
    tolerance = _TOLERANCE * model.return_range(gamma)
    rolled_out = float(paths.pessimistic[0] @ paths.weights)
    while problem.horizon < LONGEST_HORIZON:
        if abs(float(problem.solve(Mode(policy)).returns[0]) - rolled_out) <= tolerance:
            break
        problem = problem.replace(horizon=min(2 * problem.horizon, LONGEST_HORIZON))
    return problem


def solution_under(
    problem: ControlProblem, policy: Policy, *, seed: int = 0, paths: Paths | None = None
) -> Solution:
    """Return the solution under a policy; that of the local model has its nodes where the policy goes."""
    if isinstance(problem, MultistepProblem):
        law = PolicyLaw.of(policy, problem.data.schema)
        paths = paths or follow(problem, law, num_parts=1, all_starts=False)
        problem = choose_horizon(problem, policy, paths)
    return problem.solve(policy, seed=seed)


def improve_by_candidates(
    policy: QuantizedPolicy, evaluator: OfflineEvaluator, within: MultistepProblem
) -> int:
    """Improve a policy in place where a gradient through a rounding cannot; return the rounds that gained.

    In a round every candidate is tried for one step at the nodes of a problem and the visited states, and the
    best ones are imitated. A round that is not chosen is undone and is the last.
    """
    last = evaluator.assess(policy, parts=PARTS)
    for number in range(_ROUNDS):
        before = copy.deepcopy(policy.state_dict())
        visited = last.paths.visited
        even = torch.linspace(0, len(visited) - 1, min(len(visited), _MOST_STATES)).long()
        states = torch.cat([within.nodes.states, visited[even]])
        features, actions = within.data.schema.encode(states), best_candidates(policy, within, states)
        imitate(policy.policy, features, actions, steps=_STEPS)
        found = evaluator.assess(policy, parts=PARTS)
        if evaluator.choose([last, found], parts=PARTS) == 0:
            policy.load_state_dict(before)
            return number
        last = found
    return _ROUNDS


def best_candidates(policy: QuantizedPolicy, problem: MultistepProblem, states: torch.Tensor) -> torch.Tensor:
    """Return the candidates (m, d_a) that are best for one step before the policy, at raw states (m, d_s)."""
    solution = problem.replace(num_parts=1).solve(policy)
    candidates = action_candidates(problem.model)
    worth = [solution.value_after(states, one.expand(len(states), -1)) for one in candidates]
    return candidates[torch.stack(worth).argmax(dim=0)]
