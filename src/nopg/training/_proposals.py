"""Where an ascent begins: the log imitated, regulators, best held actions, each put into the policy."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence

import torch

from nopg._expressions import quoted
from nopg._seeding import generator
from nopg.baselines._regulator import LinearQuadraticFit, Regulator
from nopg.bellman import MultistepProblem
from nopg.bellman._held_actions import best_held_actions
from nopg.data import Transitions
from nopg.evaluation import Assessment, OfflineEvaluator
from nopg.models._rollout import rollout
from nopg.policies import DeviationPolicy, FormulaPolicy, Policy, QuantizedPolicy
from nopg.policies._formula import gain_name
from nopg.policies._imitation import imitate
from nopg.training._config import TrainingConfig

Label = Callable[[torch.Tensor], torch.Tensor]
Laws = Sequence[tuple[str, Regulator]]
"""Regulators by name, the simplest first."""

LQR = "least squares and LQR"
INITIAL_POLICY = "initial policy"
PARTS = 3
"""Parts of the model in the objective: all rows, and one half with its complement."""

# Prices of actions, and of departing from the log, that regulators are tried with.
_PRICES, _CAUTIONS = (0.0, 0.001, 0.01, 0.1), (0.01, 0.1, 1.0)
_NUM_NODES = 600
# Nodes do not cover more coordinates than these; best actions by them would be arbitrary, and take minutes.
_MOST_COORDINATES = 8
# Rounds of imitation; after each the states that the imitator visits are labelled too (DAgger).
_ROUNDS, _STEPS, _MOST_EXAMPLES, _MOST_VISITED = 3, 100, 600, 200
# Of the range of actions: what is imitated keeps away from its ends, where a bounded policy has no gradient.
_INSET = 0.02
# Length of rollouts in effective horizons, and in steps at most.
_VISITED, _LONGEST_VISIT = 2.0, 150
# In node spacings: how far a path moves while an action is held.
_HELD_OVER, _LONGEST_HOLD = (1.5, 4.5), 50


def propose(
    policy: Policy,
    evaluator: OfflineEvaluator,
    laws: Laws,
    config: TrainingConfig,
    stage: Callable[[str], None] = lambda _: None,
) -> tuple[str, Assessment]:
    """Put the policy, in place, to the start that is chosen; return its name and assessment.

    The first proposal is the policy as it is, and the only one of a training that starts as given; `stage`
    hears of each.
    """
    given = copy.deepcopy(policy.state_dict())
    names, parameters, found = [INITIAL_POLICY], [given], [evaluator.assess(policy, parts=PARTS)]
    examples = () if config.start == "given" else _examples(evaluator.problem, laws, config.seed)
    for name, states, actions, label in examples:
        stage(f"comparing starts on the model: {len(names)}, {name}")
        policy.load_state_dict(given)
        _imitate(policy, evaluator.problem, states, actions, label=label, seed=config.seed)
        names.append(name)
        parameters.append(copy.deepcopy(policy.state_dict()))
        found.append(evaluator.assess(policy, parts=PARTS))
    best = evaluator.choose(found, parts=PARTS) if len(found) > 1 else 0
    policy.load_state_dict(parameters[best])
    return names[best], found[best]


def _examples(
    problem: MultistepProblem, laws: Laws, seed: int
) -> Iterator[tuple[str, torch.Tensor, torch.Tensor, Label | None]]:
    """Yield states and actions to imitate by name, with what acts at further states, if it is known."""
    model, data = problem.model, problem.model.data
    rows = model.rows.first[model.rows.sample[:_MOST_EXAMPLES]]
    logged = data.states[rows]
    yield "what was logged", logged, data.actions[rows], None
    for name, regulator in laws:
        yield name, logged, regulator(logged), regulator
    if len(model.coordinates.space.units) > _MOST_COORDINATES:
        return
    spacing = problem.nodes.spacing
    holds = [int(min(max(model.steps_to_move(k * spacing), 1), _LONGEST_HOLD)) for k in _HELD_OVER]
    for hold in dict.fromkeys(holds):
        held = best_held_actions(problem, hold, num_nodes=_NUM_NODES, seed=seed)
        name = f"best actions, each held for {hold} steps" if hold > 1 else "best actions"
        yield name, held.problem.nodes.states, held.actions, held.best


def regulators(evaluator: OfflineEvaluator, stage: Callable[[str], None] = lambda _: None) -> Laws:
    """Return least squares and LQR, and what an engineer tunes it to, if that is to be preferred to it."""
    fit = LinearQuadraticFit.of(evaluator.data, evaluator.model.squares)
    if fit is None:
        return ()
    tuned = [(LQR if not p else f"LQR, actions priced {p:g}", {"price": p}) for p in _PRICES]
    tuned += [(f"cautious LQR, {c:g}", {"caution": c}) for c in _CAUTIONS]
    made = [(name, fit.regulator(evaluator.discount, **settings)) for name, settings in tuned]
    laws, found = [(name, law) for name, law in made if law is not None], []
    for name, law in laws:
        stage(f"comparing regulators on the model: {name}")
        found.append(evaluator.assess(law, parts=PARTS))
    if not laws:
        return ()
    best = laws[evaluator.choose(found, parts=PARTS)]
    return (*(law for law in laws[:1] if law[0] == LQR), *((best,) if best[0] != LQR else ()))


def linear_law(regulator: Regulator, data: Transitions) -> FormulaPolicy | None:
    """Return a regulator of the data as formulas; None where an action has only one logged value."""
    if not bool((regulator.low < regulator.high).all()):
        return None
    schema, formulas, gains = data.schema, dict[str, str](), dict[str, float]()
    rows = zip(schema.actions, regulator.offset.tolist(), regulator.gain.tolist(), strict=True)
    for action, offset, row in rows:
        terms = []
        for column, value in [("", offset), *zip(schema.states, row, strict=True)]:
            name = gain_name(f"k_{column}" if column else "offset", action, schema)
            while name in {*gains, *schema.states, *schema.actions}:
                name += "_"
            gains[name] = value
            terms.append(f"{name} * {quoted(column)}" if column else name)
        formulas[action] = " + ".join(terms)
    limits = torch.stack([regulator.low, regulator.high])
    return FormulaPolicy.from_data(schema, formulas, gains, features=data.features, actions=limits)


def _imitate(
    policy: Policy,
    problem: MultistepProblem,
    states: torch.Tensor,
    actions: torch.Tensor,
    *,
    label: Label | None,
    seed: int,
) -> None:
    """Fit the policy to actions at states and, with a label, at the states that it then visits."""
    schema, rng = problem.model.data.schema, generator(seed, "imitation")
    low, high = problem.model.action_limits
    fitted = policy.policy if isinstance(policy, (DeviationPolicy, QuantizedPolicy)) else policy
    inset = 0.0 if isinstance(fitted, FormulaPolicy) else _INSET * (high - low)
    for round_ in range(_ROUNDS if label else 1):
        weights = torch.ones(len(states), dtype=torch.float64)
        targets = actions.clamp(low + inset, high - inset)
        imitate(fitted, schema.encode(states), targets, weights, steps=_STEPS)
        if label is None or round_ == _ROUNDS - 1:
            return
        visited = _visited(problem, policy, rng)
        states, actions = torch.cat([states, visited]), torch.cat([actions, label(visited)])


def _visited(problem: MultistepProblem, policy: Policy, rng: torch.Generator) -> torch.Tensor:
    """Return some states (v, d_s) that the policy visits from the starts."""
    steps = min(math.ceil(_VISITED / (1.0 - problem.discount)), _LONGEST_VISIT)
    path = rollout(problem.model, lambda features, _: policy.mode(features), problem.starts, steps)
    visited = torch.as_tensor(path.states[:-1][path.going[:-1] > 0])
    return visited[torch.randperm(len(visited), generator=rng)[:_MOST_VISITED]]
