"""The training of a policy on a problem."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nopg.baselines import Regulator
from nopg.bellman import ControlProblem, MultistepProblem
from nopg.bellman._sampled import SampledGradient
from nopg.evaluation._interval import is_preferable, resolution
from nopg.evaluation._model_paths import ModelPaths
from nopg.policies import Policy, QuantizedPolicy
from nopg.training._ascent import ascend
from nopg.training._candidates import improve_by_candidates
from nopg.training._checkpoint import Checkpoints, ResumeState
from nopg.training._config import TrainingConfig
from nopg.training._constraint import Constraint, ConstraintResult
from nopg.training._constraints import solve_constrained
from nopg.training._linear_law import PARTS, followed, regulators
from nopg.training._portfolio import AS_IT_WAS, best_start, choose_horizon
from nopg.training._reports import Plateau, Update

__all__ = ["Training", "train"]


@dataclass(frozen=True, slots=True)
class Training:
    """What a training ends with, beside the policy that it has changed.

    Attributes:
        problem: The equation that the policy was trained in.
        history: Every update.
        start: Where the ascent began.
        regulators: What `regulators` gave to begin with, if the start was not given.
        constraints: What came of each limit.
    """

    problem: ControlProblem
    history: tuple[Update, ...]
    start: str
    regulators: tuple[tuple[str, Regulator], ...] = ()
    constraints: tuple[ConstraintResult, ...] = ()


def train(
    problem: ControlProblem,
    policy: Policy,
    config: TrainingConfig | None = None,
    *,
    constraints: Sequence[Constraint] = (),
    checkpoints: Checkpoints | None = None,
    note: Callable[[str], None] | None = None,
) -> Training:
    """Improve a policy in place.

    With rollouts the ascent begins at the best of a portfolio of starts, its horizon follows from the model,
    and its stochastic gradients are of paths through all rows and halves of the log. Of start and end, the
    end is kept where it is better beyond doubt or has the higher lower end. Another problem is an ascent from
    the policy as it is.

    Args:
        problem: The equation.
        policy: Changed in place.
        config: Settings; `start='given'` begins with the policy as it is.
        constraints: Limits to keep.
        checkpoints: Where to go on, and where to leave checkpoints.
        note: Receives lines about what is done.
    """
    config = config or TrainingConfig()
    config = replace(config, updates=config.updates or problem.default_updates)
    first = problem.multistep
    if first is None:
        stop = config.stop or Plateau()
        history = ascend(problem.estimator(), policy, replace(config, stop=stop), checkpoints=checkpoints)
        return Training(problem, history, AS_IT_WAS)

    laws = () if config.start == "given" else tuple(regulators(first))
    begun, paths = _begin(first, policy, config, laws, checkpoints=checkpoints, note=note)
    start = copy.deepcopy(policy.state_dict())
    within = choose_horizon(first, policy, paths)
    within = within.replace(num_parts=min(PARTS, first.model.num_parts))
    if note:
        note(f"start: {begun}; {within.description}")

    def climb(problem: MultistepProblem, config: TrainingConfig) -> tuple[Update, ...]:
        estimator = SampledGradient(problem, paths.visited)
        saves = checkpoints if problem is within else None
        return ascend(estimator, policy, config, checkpoints=saves, annealed=True)

    expected = float(paths.returns[0].mean())
    hopeless = first.best_value - expected < resolution(expected)
    history = climb(within, replace(config, updates=1) if hopeless else config)
    if not is_preferable(followed(first, policy), paths):
        policy.load_state_dict(start)
        if note:
            note("the ascent adds nothing: the start is kept")
    if isinstance(policy, QuantizedPolicy):
        rounds, _ = improve_by_candidates(policy, first, within)
        if note:
            note(f"rounds of policy iteration over the levels of the actions that gained: {rounds}")
    if not constraints:
        return Training(within, history, begun, laws)

    def improve(priced: MultistepProblem, share: float) -> tuple[Update, ...]:
        return climb(priced, replace(config, learning_rate=share * config.learning_rate))

    kept, history = solve_constrained(constraints, policy, problem=within, history=history, improve=improve)
    return Training(within, history, begun, laws, kept)


def _begin(
    problem: MultistepProblem,
    policy: Policy,
    config: TrainingConfig,
    laws: Sequence[tuple[str, Regulator]],
    *,
    checkpoints: Checkpoints | None,
    note: Callable[[str], None] | None,
) -> tuple[str, ModelPaths]:
    """Put the policy to its start; return how that was found, which a checkpoint knows, and its paths."""
    if checkpoints and checkpoints.last and checkpoints.resume_state.start:
        name, parameters = checkpoints.resume_state.start
        policy.load_state_dict(dict(parameters))
        return name, followed(problem, policy)
    if config.start == "given":
        if checkpoints:
            checkpoints.resume_state = ResumeState(None, (AS_IT_WAS, copy.deepcopy(policy.state_dict())))
        return AS_IT_WAS, followed(problem, policy)
    if note:
        note("comparing starts on the model")
    best = best_start(policy, problem, laws, seed=config.seed)
    if checkpoints:
        checkpoints.resume_state = ResumeState(None, (best.name, best.parameters))
    return best.name, best.paths
