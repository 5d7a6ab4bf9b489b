"""The training of a policy on a problem."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from nopg.baselines import Regulator
from nopg.bellman import ControlProblem, MultistepProblem
from nopg.bellman._held_actions import action_candidates
from nopg.bellman._sampled import SampledGradient
from nopg.evaluation import Assessment, OfflineEvaluator, choose
from nopg.policies import Policy, QuantizedPolicy
from nopg.policies._imitation import imitate
from nopg.training._ascent import ascend
from nopg.training._checkpoint import Checkpoint
from nopg.training._config import TrainingConfig
from nopg.training._constraints import Constraint, ConstraintResult, solve_constrained
from nopg.training._judge import PARTS, regulators
from nopg.training._portfolio import AS_IT_WAS, best_start, choose_horizon
from nopg.training._reports import Plateau, Update

# Of policy iteration over candidates of actions: rounds, steps of imitation, and states that are visited.
_ROUNDS, _STEPS, _MOST_STATES = 2, 200, 1_000


@dataclass(frozen=True, slots=True)
class Training:
    """What a training ends with, beside the policy that it has changed.

    Attributes:
        problem: The equation that the policy was trained in.
        history: Every update.
        start: Where the ascent began.
        regulators: What `regulators` gave to begin with, if the start was not given.
        constraints: What came of each limit.
        evaluator: What judged it, if the model has rollouts.
    """

    problem: ControlProblem
    history: tuple[Update, ...]
    start: str
    regulators: tuple[tuple[str, Regulator], ...] = ()
    constraints: tuple[ConstraintResult, ...] = ()
    evaluator: OfflineEvaluator | None = None


def train(
    problem: ControlProblem,
    policy: Policy,
    config: TrainingConfig | None = None,
    *,
    constraints: Sequence[Constraint] = (),
    checkpoint: Checkpoint | None = None,
    note: Callable[[str], None] | None = None,
) -> Training:
    """Improve a policy in place.

    With rollouts the ascent begins at the best of a portfolio of starts, its horizon follows from the model,
    and its stochastic gradients are of paths through all rows and halves of the log. Of start and end,
    `choose` keeps one. Another problem is an ascent from the policy as it is.

    Args:
        problem: The equation.
        policy: Changed in place.
        config: Settings; `start='given'` begins with the policy as it is.
        constraints: Limits to keep.
        checkpoint: Where to go on, and where to leave checkpoints.
        note: Receives lines about what is done.
    """
    config = config or TrainingConfig()
    config = replace(config, updates=config.updates or problem.default_updates)
    first = problem.multistep
    if first is not problem:
        stop = config.stop or Plateau()
        history = ascend(problem.estimator(), policy, replace(config, stop=stop), checkpoint=checkpoint)
        return Training(problem, history, AS_IT_WAS)

    evaluator = OfflineEvaluator.of(first)
    if note:
        for doubt in evaluator.doubts:
            note(f"no verdict will be ok: {doubt}")
    laws = () if config.start == "given" else tuple(regulators(evaluator))
    begun, before = _begin(evaluator, policy, config, laws, checkpoint=checkpoint, note=note)
    start, paths = copy.deepcopy(policy.state_dict()), before.paths
    within = choose_horizon(first, policy, paths)
    within = within.replace(num_parts=min(PARTS, first.model.num_parts))
    if note:
        note(f"start: {begun}; {within.description}")

    def climb(problem: MultistepProblem, config: TrainingConfig) -> tuple[Update, ...]:
        estimator = SampledGradient(problem, paths.visited)
        kept = checkpoint if problem is within else None
        return ascend(estimator, policy, config, checkpoint=kept, annealed=True)

    history = climb(within, config)
    if choose([before, evaluator.assess(policy, parts=PARTS)]) == 0:
        policy.load_state_dict(start)
        if note:
            note("the ascent adds nothing: the start is kept")
    if isinstance(policy, QuantizedPolicy):
        rounds = improve_by_candidates(policy, evaluator, within)
        if note:
            note(f"rounds of policy iteration over the levels of the actions that gained: {rounds}")
    if not constraints:
        return Training(within, history, begun, laws, evaluator=evaluator)

    def improve(priced: MultistepProblem, share: float) -> tuple[Update, ...]:
        return climb(priced, replace(config, learning_rate=share * config.learning_rate))

    kept, history = solve_constrained(constraints, policy, problem=within, history=history, improve=improve)
    return Training(within, history, begun, laws, kept, evaluator)


def _begin(
    evaluator: OfflineEvaluator,
    policy: Policy,
    config: TrainingConfig,
    laws: Sequence[tuple[str, Regulator]],
    *,
    checkpoint: Checkpoint | None,
    note: Callable[[str], None] | None,
) -> tuple[str, Assessment]:
    """Put the policy to its start; return how it was found, which a checkpoint knows, and its assessment."""
    if checkpoint and checkpoint.resumes and checkpoint.start:
        name, parameters = checkpoint.start
        policy.load_state_dict(dict(parameters))
        return name, evaluator.assess(policy, parts=PARTS)
    if config.start == "given":
        name, assessment = AS_IT_WAS, evaluator.assess(policy, parts=PARTS)
    else:
        if note:
            note("comparing starts on the model")
        best = best_start(policy, evaluator, laws, seed=config.seed)
        name, assessment = best.name, best.assessment
    if checkpoint:
        checkpoint.start = (name, copy.deepcopy(policy.state_dict()))
    return name, assessment


def improve_by_candidates(
    policy: QuantizedPolicy, evaluator: OfflineEvaluator, within: MultistepProblem
) -> int:
    """Improve a policy in place where a gradient through a rounding cannot; return the rounds that gained.

    In a round every candidate is tried for one step at the nodes and the visited states, and the best ones
    are imitated. A round that `choose` does not prefer is undone and is the last.

    Args:
        policy: Changed in place.
        evaluator: Compares policies.
        within: The problem of the ascent.
    """
    last = evaluator.assess(policy, parts=PARTS)
    for number in range(_ROUNDS):
        before = copy.deepcopy(policy.state_dict())
        visited = last.paths.visited
        even = torch.linspace(0, len(visited) - 1, min(len(visited), _MOST_STATES)).long()
        states = torch.cat([within.nodes.states, visited[even]])
        features, actions = within.data.schema.encode(states), best_candidates(policy, within, states)
        imitate(policy.policy, features, actions, torch.ones(len(states)).double(), steps=_STEPS)
        found = evaluator.assess(policy, parts=PARTS)
        if choose([last, found]) == 0:
            policy.load_state_dict(before)
            return number
        last = found
    return _ROUNDS


def best_candidates(policy: QuantizedPolicy, problem: MultistepProblem, states: torch.Tensor) -> torch.Tensor:
    """Return the candidates (m, d_a) that are best for one step before the policy, at raw states (m, d_s)."""
    solution = problem.replace(num_parts=1).solve(policy)
    candidates = action_candidates(problem.data.actions, problem.data.schema)
    worth = [solution.value_after(states, one.expand(len(states), -1)) for one in candidates]
    return candidates[torch.stack(worth).argmax(dim=0)]
