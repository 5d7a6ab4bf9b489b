"""Where an ascent begins: several starts, fitted into the policy, judged by what their user would see."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from nopg._seeding import generator
from nopg.baselines import Regulator
from nopg.bellman import MultistepProblem
from nopg.bellman._held_actions import best_held_actions
from nopg.bellman._multistep import LONGEST_HORIZON
from nopg.bellman._nodes import Nodes
from nopg.evaluation import Assessment, OfflineEvaluator, choose
from nopg.evaluation._paths import Paths
from nopg.models._rollout import rollout
from nopg.policies import DeviationPolicy, FormulaPolicy, Policy, QuantizedPolicy
from nopg.policies._deterministic import Mode
from nopg.policies._imitation import imitate
from nopg.training._judge import PARTS

AS_IT_WAS = "the policy as it was"

_NODES_OF_HELD_ACTIONS, _NODES_OF_THE_ASCENT = 600, 100
# Nodes do not cover more coordinates than these; best actions by them would be arbitrary, and take minutes.
_MOST_COORDINATES = 8
# Rounds of imitation; after each the states that the imitator visits are labelled too (DAgger).
_ROUNDS, _STEPS, _MOST_EXAMPLES = 3, 100, 600
# Of the range of actions: what is imitated keeps away from its ends, where a bounded policy has no gradient.
_INSET = 0.02
# Length of rollouts in effective horizons, and in steps at most.
_VISITED, _LONGEST_VISIT = 2.0, 150
# In node spacings: how far a path moves while an action is held.
_HELD_OVER, _LONGEST_HOLD = (1.5, 4.5), 50
# Of what returns are possible: by how much an equation may miss the rollouts of its own model.
_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Start:
    """A policy to begin with.

    Attributes:
        name: How it was found.
        parameters: Of the policy.
        assessment: Of the policy with these parameters.
    """

    name: str
    parameters: dict[str, torch.Tensor]
    assessment: Assessment


def best_start(
    policy: Policy, evaluator: OfflineEvaluator, laws: Sequence[tuple[str, Regulator]], *, seed: int
) -> Start:
    """Return the start that `choose` prefers; the policy is put there.

    Args:
        policy: Changed in place.
        evaluator: Of the problem.
        laws: Regulators to imitate, by name.
        seed: Of what is random.
    """
    found = [
        Start(name, copy.deepcopy(policy.state_dict()), evaluator.assess(policy, parts=PARTS))
        for name in _fitted(policy, evaluator.problem, laws, seed)
    ]
    best = found[choose([start.assessment for start in found])]
    policy.load_state_dict(best.parameters)
    return best


def choose_horizon(problem: MultistepProblem, policy: Policy, paths: Paths) -> MultistepProblem:
    """Return the problem of the ascent: nodes where the policy goes, and H by the model alone.

    H is doubled while the equation misses the return along the model's own rollouts.
    """
    model, gamma = problem.model, problem.discount
    problem = problem.replace(nodes=Nodes.covering(model, _NODES_OF_THE_ASCENT, paths.visited))
    tolerance = _TOLERANCE * model.return_range(gamma)
    rolled_out = float(paths.pessimistic[0] @ paths.weights)
    while problem.horizon < LONGEST_HORIZON:
        if abs(float(problem.solve(Mode(policy)).returns[0]) - rolled_out) <= tolerance:
            break
        problem = problem.replace(horizon=min(2 * problem.horizon, LONGEST_HORIZON))
    return problem


def _fitted(
    policy: Policy, problem: MultistepProblem, laws: Sequence[tuple[str, Regulator]], seed: int
) -> Iterator[str]:
    """Put the policy, in place, to one start after the other."""
    model, data = problem.model, problem.model.data
    given = copy.deepcopy(policy.state_dict())
    yield AS_IT_WAS
    rows = model.rows.first[model.rows.sample[:_MOST_EXAMPLES]]
    logged, done = data.states[rows], data.actions[rows]

    def reset() -> None:
        policy.load_state_dict(given)

    reset()
    _imitate(policy, problem, logged, done, label=None, seed=seed)
    yield "what was logged"
    for name, regulator in laws:
        reset()
        _imitate(policy, problem, logged, regulator(logged), label=regulator, seed=seed)
        yield name
    if len(model.coordinates.space.units) > _MOST_COORDINATES:
        return
    spacing = problem.nodes.spacing
    holds = [int(min(max(model.steps_to_move(k * spacing), 1), _LONGEST_HOLD)) for k in _HELD_OVER]
    for hold in dict.fromkeys(holds):
        held = best_held_actions(problem, hold, num_nodes=_NODES_OF_HELD_ACTIONS, seed=seed)
        reset()
        _imitate(policy, problem, held.problem.nodes.states, held.actions, label=held.best, seed=seed)
        yield f"best actions, each held for {hold} steps" if hold > 1 else "best actions"


def _imitate(
    policy: Policy,
    problem: MultistepProblem,
    states: torch.Tensor,
    actions: torch.Tensor,
    *,
    label: Callable[[torch.Tensor], torch.Tensor] | None,
    seed: int,
) -> None:
    """Fit the policy to actions at states and, with a label, at the states that it then visits."""
    schema, rng = problem.model.data.schema, generator(seed, "imitation")
    logged = problem.model.data.actions
    low, high = logged.amin(dim=0), logged.amax(dim=0)
    fitted = policy.policy if isinstance(policy, (DeviationPolicy, QuantizedPolicy)) else policy
    inset = 0.0 if isinstance(fitted, FormulaPolicy) else _INSET * (high - low)
    for round_ in range(_ROUNDS if label else 1):
        weights = torch.ones(len(states), dtype=torch.float64)
        targets = actions.clamp(low + inset, high - inset)
        imitate(fitted, schema.encode(states), targets, weights, steps=_STEPS)
        if label is None or round_ == _ROUNDS - 1:
            return
        some = _visited(problem, policy, rng)
        states, actions = torch.cat([states, some]), torch.cat([actions, label(some)])


def _visited(problem: MultistepProblem, policy: Policy, rng: torch.Generator) -> torch.Tensor:
    """Return some states (v, d_s) that the policy visits from the starts."""
    steps = min(math.ceil(_VISITED / (1.0 - problem.discount)), _LONGEST_VISIT)
    path = rollout(problem.model, lambda features, _: policy.mode(features), problem.starts, steps)
    visited = torch.as_tensor(path.states[:-1][path.going[:-1] > 0])
    return visited[torch.randperm(len(visited), generator=rng)[:_MOST_EXAMPLES]]
