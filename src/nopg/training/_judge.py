"""The choice between a trained controller and regulators, and every doubt about what was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nopg.baselines import Regulator
from nopg.evaluation import Assessment, OfflineEvaluator, choose
from nopg.policies import DeviationPolicy, Policy
from nopg.training._controller import Controller
from nopg.training._proposals import LQR, linear_law, regulators
from nopg.training._structured import rate_limited


@dataclass(frozen=True, slots=True)
class Judgement:
    """A controller that was chosen, with the log and least squares + LQR beside it.

    Attributes:
        controller: The one that was trained, or a regulator that took its place.
        assessment: What the model says of it.
        logged: What it says of the logged behaviour.
        kept: Name of that regulator; None where there is none.
        rival: What the model says of least squares + LQR, if the log has one.
    """

    controller: Controller
    assessment: Assessment
    logged: Assessment
    kept: str | None = None
    rival: Assessment | None = None


def judge(
    evaluator: OfflineEvaluator,
    trained: Controller,
    laws: Sequence[tuple[str, Regulator]],
    rates: Mapping[str, float] | None,
) -> Judgement:
    """Return the choice between a trained controller and regulators, all assessed on one model.

    Args:
        evaluator: Of that model.
        trained: The controller.
        laws: Regulators by name, the simplest first.
        rates: Limits that a regulator in its place has to keep; None where none may take it.
    """
    found, logged = evaluator.assess(trained), evaluator.logged()
    if rates is None and isinstance(trained.policy, DeviationPolicy):
        return Judgement(trained, found, logged)  # a regulator keeps no limit of a deviation
    laws = laws or tuple(regulators(evaluator))
    if rates is None:
        rival = next((evaluator.assess(law) for name, law in laws if name == LQR), None)
        return Judgement(trained, found, logged, rival=rival)
    simple = {name: _controller(law, evaluator, rates) for name, law in laws}
    controllers = {name: one for name, one in simple.items() if one is not None}
    every = {name: evaluator.assess(one) for name, one in controllers.items()}
    best = preferred(logged, [*every.values(), found])
    rival = every.get(LQR)
    if best == len(every):
        return Judgement(trained, found, logged, rival=rival)
    name = [*every][best]
    return Judgement(controllers[name], every[name], logged, name, rival)


def preferred(logged: Assessment, candidates: Sequence[Assessment]) -> int:
    """Return the place of the controller to take instead of the logged behaviour, the simplest first.

    What is surely worse than the log, whatever its verdict, does not stand in the way of what may be better,
    nor what is not better than the log in the way of what is.
    """
    every = range(len(candidates))
    places = [k for k in every if candidates[k].gain_over(logged).interval[1] > 0.0] or [*every]
    left = [candidates[k] for k in places]
    best = choose([logged, *left], [-1, *places]) - 1
    return places[best if best >= 0 else choose(left, places)]


def _controller(law: Regulator, evaluator: OfflineEvaluator, rates: Mapping[str, float]) -> Controller | None:
    """Return a regulator as a controller that keeps rates; None where an action has one logged value."""
    policy: Policy | None = linear_law(law, evaluator.data)
    if policy is None:
        return None
    policy = rate_limited(policy, evaluator.data, rates) if rates else policy
    return Controller(policy, evaluator.data.schema)


def doubts_of(judged: Judgement) -> list[str]:
    """Return every reason to doubt a controller: its verdict, the log and a simpler controller."""
    mine, found = judged.assessment, list[str]()
    gain = mine.gain_over(judged.logged)
    low, high = gain.interval
    if low <= 0.0:
        found.append(
            f"the controller is not better than what was logged beyond doubt: its gain is within [{low:.5g}, "
            f"{high:.5g}], and positive with probability {gain.probability_better:.2f}"
        )
    if mine.verdict != "ok":
        found.append(f"the verdict on this controller is {mine.verdict!r}: {'; '.join(mine.reasons)}")
    rival = judged.rival
    if rival is None or rival is mine or rival.expected_return <= mine.expected_return + mine.least_gain:
        return found
    low, high = rival.interval
    return [
        *found,
        f"least squares and LQR may do better: its return is predicted as {rival.expected_return:.5g} "
        f"within [{low:.5g}, {high:.5g}], that of the controller as {mine.expected_return:.5g}; its verdict "
        f"is {rival.verdict!r}, {rival.unknown_mass:.1%} of its return lies outside the data",
    ]
