"""The training of a policy on a problem, and what its user will see of the result."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from nopg.bellman import ControlProblem, MultistepProblem
from nopg.evaluation import OfflineEvaluation, OfflineEvaluator
from nopg.evaluation._interval import DEVIATIONS, lower_return, resolution
from nopg.evaluation._model_paths import ModelPaths
from nopg.inspect import Grade
from nopg.inspect._describe import quick_findings
from nopg.linalg import Solver
from nopg.policies import Policy
from nopg.training._ascent import ascend
from nopg.training._backtracking import Backtracking
from nopg.training._checkpoint import Checkpoints, ResumeState
from nopg.training._constraints import Constraint, solve_constrained
from nopg.training._controller import Controller
from nopg.training._portfolio import AS_IT_WAS, PARTS, best_start, choose_horizon, followed
from nopg.training._regulator import LinearQuadraticFit
from nopg.training._reports import Callback, Plateau, Update
from nopg.training._result import ConstraintAnswer

__all__ = ["Training", "judge", "train"]

# An ascent ends after so many updates that gained less than this share of what an interval can tell apart.
_PATIENCE, _VISIBLE = 15, 0.1
# A controller that is less likely than this to be better than the log is doubted.
_LIKELY = 0.75


@dataclass(frozen=True, slots=True)
class Training:
    """What a training ends with, beside the policy that it has changed.

    Attributes:
        problem: The equation that the policy was trained in.
        history: Every update.
        start: Where the ascent began.
        constraints: What came of each limit.
    """

    problem: ControlProblem
    history: tuple[Update, ...]
    start: str
    constraints: tuple[ConstraintAnswer, ...] = ()


def train(
    problem: ControlProblem,
    policy: Policy,
    *,
    portfolio: bool,
    constraints: Sequence[Constraint] = (),
    updates: int,
    learning_rate: float,
    seed: int,
    solver: Solver | None = None,
    callbacks: Sequence[Callback] = (),
    stop: Callback | None = None,
    checkpoints: Checkpoints | None = None,
    note: Callable[[str], None] | None = None,
) -> Training:
    """Improve a policy in place.

    A problem with rollouts is trained on the lower end of the interval that its user will see: the ascent
    begins at the best of a portfolio of starts, its horizon follows from the model, and of start and end the
    one with the higher lower end is kept. Another problem is an ascent from the policy as it is.

    Args:
        problem: The equation.
        policy: Changed in place.
        portfolio: Whether to look for a start, where the problem allows it.
        constraints: Limits to keep.
        updates: Most updates of an ascent.
        learning_rate: Adam's.
        seed: Random seed.
        solver: Of the linear systems, where the problem needs one.
        callbacks: Called after every update.
        stop: The stop rule, instead of ending on a plateau.
        checkpoints: Where to go on, and where to leave checkpoints.
        note: Hears what is done.
    """

    def climb(
        within: ControlProblem,
        share: float,
        plateau: Plateau,
        saves: Checkpoints | None = None,
        most: int = updates,
    ) -> tuple[Update, ...]:
        return ascend(
            within.estimator(solver),
            policy,
            updates=most,
            learning_rate=share * learning_rate,
            seed=seed,
            callbacks=callbacks,
            stop=stop or plateau,
            checkpoints=saves,
            backtracking=Backtracking(_range(within)) if within.has_rollouts else None,
        )

    if not problem.has_rollouts:
        return Training(problem, climb(problem, 1.0, Plateau(), checkpoints), AS_IT_WAS)
    first = cast(MultistepProblem, problem)
    begun, paths = _begin(first, policy, portfolio=portfolio, seed=seed, checkpoints=checkpoints, note=note)
    start = copy.deepcopy(policy.state_dict())
    parts = min(PARTS, first.model.num_parts)
    within = choose_horizon(first, policy, paths)
    within = within.replace(num_parts=parts, deviations=DEVIATIONS if parts > 1 else 0.0)
    if note:
        note(f"start: {begun}; {within.description}")
    expected = float(paths.returns[0].mean())
    plateau = Plateau(_PATIENCE, least=_VISIBLE * resolution(expected))
    hopeless = _best_value(first) - expected < resolution(expected)
    history = climb(within, 1.0, plateau, checkpoints, 1 if hopeless else updates)
    if lower_return(followed(first, policy)) <= lower_return(paths):
        policy.load_state_dict(start)
        if note:
            note("the ascent adds nothing: the start is kept")
    if not constraints:
        return Training(within, history, begun)
    answers, history = solve_constrained(
        constraints,
        policy,
        problem=within,
        history=history,
        improve=lambda priced, share: climb(priced, share, plateau),
    )
    return Training(within, history, begun, answers)


def judge(problem: ControlProblem, controller: Controller) -> tuple[OfflineEvaluation | None, list[str]]:
    """Return what the model of a problem says of a controller, and every reason to doubt it."""
    if not problem.has_rollouts:
        return None, []
    within = cast(MultistepProblem, problem)
    evaluator = OfflineEvaluator(
        within.data, within.discount, model=within.model, unknown_value=within.unknown_value
    )
    found, logged = evaluator.evaluate(controller), evaluator.logged()
    doubts = [
        f"the data should be corrected before training, {finding.topic}: {finding.what}. {finding.advice}"
        for finding in quick_findings(within.data)
        if finding.grade is Grade.STOP
    ]
    if found.verdict != "ok":
        doubts.append(f"the verdict on this controller is {found.verdict!r}: {'; '.join(found.reasons)}")
    gain = evaluator.difference(found, logged)
    unlikely = gain.probability_better < _LIKELY and within.data.episodes is not None  # else nobody acted
    if unlikely or found.interval[0] <= logged.expected_return:
        doubts.append(
            "the controller is not better than what was logged beyond doubt: its return is predicted within "
            f"[{found.interval[0]:.5g}, {found.interval[1]:.5g}], that of the log as "
            f"{logged.expected_return:.5g}; it is better with probability {gain.probability_better:.2f}"
        )
    doubts += _rival(evaluator, found)
    return found, doubts


def _rival(evaluator: OfflineEvaluator, found: OfflineEvaluation) -> list[str]:
    """Return that least squares and LQR may do better, where the model expects it."""
    fit = LinearQuadraticFit.of(evaluator.data)
    regulator = fit.regulator(evaluator.discount) if fit else None
    if regulator is None:
        return []
    rival, mine = evaluator.evaluate(regulator), found.expected_return
    if rival.expected_return - mine <= resolution(mine):
        return []
    return [
        f"least squares and LQR may do better: its return is predicted as {rival.expected_return:.5g} within "
        f"[{rival.interval[0]:.5g}, {rival.interval[1]:.5g}], that of the controller as {mine:.5g}; it was "
        f"not chosen because its lower end is lower, {rival.unknown_mass:.1%} of it being unknown to the data"
    ]


def _begin(
    problem: MultistepProblem,
    policy: Policy,
    *,
    portfolio: bool,
    seed: int,
    checkpoints: Checkpoints | None,
    note: Callable[[str], None] | None,
) -> tuple[str, ModelPaths]:
    """Put the policy to its start and return how that was found, which a checkpoint knows, and its paths."""
    if checkpoints and checkpoints.last and checkpoints.resume_state.start:
        name, parameters = checkpoints.resume_state.start
        policy.load_state_dict(dict(parameters))
        return name, followed(problem, policy)
    if not portfolio:
        return AS_IT_WAS, followed(problem, policy)
    if note:
        note("comparing starts on the model")
    best = best_start(policy, problem, seed=seed)
    if checkpoints:
        checkpoints.resume_state = ResumeState(None, (best.name, best.parameters))
    return best.name, best.paths


def _best_value(problem: MultistepProblem) -> float:
    """Return the best logged reward for ever; 0 if the end of the task is better."""
    best = problem.model.reward_high / (1.0 - problem.discount)
    return max(best, 0.0) if problem.model.may_end else best


def _range(problem: ControlProblem) -> float:
    """Return how far the values of a problem may differ, prices of costs included."""
    within = cast(MultistepProblem, problem)
    return max(_best_value(within) - within.unknown_value, 0.0)
