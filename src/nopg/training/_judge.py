"""The choice between a trained controller and regulators, and every doubt about what was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nopg.baselines import Regulator
from nopg.evaluation import Assessment, OfflineEvaluator
from nopg.policies import DeviationPolicy
from nopg.training._controller import Controller
from nopg.training._new_policy import rate_limited
from nopg.training._proposals import LQR, linear_law

# Of the width of its interval: by so much least squares and LQR have to be better to be named.
_VISIBLE = 0.01


@dataclass(frozen=True, slots=True)
class Judgement:
    """A controller that was chosen, with the log and least squares + LQR beside it."""

    controller: Controller  # the one that was trained, or a regulator that took its place
    assessment: Assessment
    logged: Assessment
    kept: str | None = None  # name of that regulator
    rival: Assessment | None = None  # of least squares + LQR, if the log has one
    lqr: Controller | Regulator | None = None

    def assessed_by(self, evaluator: OfflineEvaluator) -> Judgement:
        """Return the same choice with what another evaluator says of it, such as from other starts."""
        mine, rival = evaluator.assess(self.controller), None
        if self.lqr is not None:
            rival = mine if self.lqr is self.controller else evaluator.assess(self.lqr)
        return replace(self, assessment=mine, logged=evaluator.logged(), rival=rival)


def judge(
    evaluator: OfflineEvaluator,
    trained: Controller,
    laws: Sequence[tuple[str, Regulator]],
    rates: Mapping[str, float] | None,
) -> Judgement:
    """Return the choice between a trained controller and regulators by name, the simplest first.

    With `rates`, limits that it has to keep, a regulator may take the place of the controller.
    """
    found, logged, data = evaluator.assess(trained), evaluator.logged(), evaluator.data
    if rates is None and isinstance(trained.policy, DeviationPolicy):
        return Judgement(trained, found, logged)  # a regulator keeps no limit of a deviation
    if rates is None:
        lqr = dict(laws).get(LQR)
        rival = None if lqr is None else evaluator.assess(lqr)
        return Judgement(trained, found, logged, rival=rival, lqr=lqr)
    controllers, every = dict[str, Controller](), dict[str, Assessment]()
    for name, law in laws:
        if (linear := linear_law(law, data)) is not None:
            policy = rate_limited(linear, data, rates) if rates else linear
            controllers[name] = Controller(policy, data.schema)
            every[name] = evaluator.assess(controllers[name])
    best = evaluator.choose([*every.values(), found], order=range(len(every) + 1))
    if best == len(every):
        return Judgement(trained, found, logged, None, every.get(LQR), controllers.get(LQR))
    name = [*every][best]
    return Judgement(controllers[name], every[name], logged, name, every.get(LQR), controllers.get(LQR))


def doubts_of(judged: Judgement) -> list[str]:
    """Return every reason to doubt a controller: its verdict, the log and a simpler controller."""
    mine, found = judged.assessment, list[str]()
    gain = mine.gain_over(judged.logged)
    low, high = gain.interval
    if low <= 0.0:
        found.append(
            "the controller is not significantly better than what was logged: its gain is within "
            f"[{low:.5g}, {high:.5g}], and positive with probability {gain.probability_better:.2f}"
        )
    if mine.verdict != "ok":
        found.append(f"the verdict on this controller is {mine.verdict!r}: {'; '.join(mine.reasons)}")
    rival = judged.rival
    if rival is None or rival is mine:
        return found
    low, high = rival.interval
    visible = max(mine.least_gain, _VISIBLE * (high - low))
    if rival.expected_return <= mine.expected_return + visible:
        return found
    return [
        *found,
        f"least squares and LQR may do better: its return is predicted as {rival.expected_return:.5g} "
        f"within [{low:.5g}, {high:.5g}], that of the controller as {mine.expected_return:.5g}; its verdict "
        f"is {rival.verdict!r}, {rival.unknown_mass:.1%} of its return lies outside the data",
    ]
