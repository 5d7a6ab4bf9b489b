"""What a user will see of a controller: what the model says of it, a simpler rival, and every doubt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nopg.baselines import LinearQuadraticFit, Regulator
from nopg.evaluation import OfflineEvaluation, OfflineEvaluator
from nopg.evaluation._interval import is_surely_better, resolution
from nopg.policies import DeviationPolicy, Policy
from nopg.training._controller import Controller
from nopg.training._linear_law import LQR, linear_law
from nopg.training._rates import rate_limited

__all__ = ["Judged", "doubts_of"]

# A controller that is less likely than this to be better than the log is doubted.
_LIKELY = 0.75


class Judged:
    """A controller and least squares + LQR, each evaluated once, on one model.

    Args:
        evaluator: Of that model.
        controller: What was trained.

    Attributes:
        controller: What was trained, or a regulator that took its place.
        evaluation: What the model says of it.
        kept: Name of that regulator; None where there is none.
    """

    def __init__(self, evaluator: OfflineEvaluator, controller: Controller) -> None:
        self.evaluator, self.controller = evaluator, controller
        self.evaluation = evaluator.evaluate(controller)
        self.kept: str | None = None
        self._rival: OfflineEvaluation | None = None

    def prefer_simple(self, regulators: Iterable[tuple[str, Regulator]], rates: Mapping[str, float]) -> None:
        """Put a regulator in the place of a network that is not better beyond doubt.

        Args:
            regulators: By name; the first one unless a later one is better beyond doubt.
            rates: Limits that it has to keep.
        """
        data, best = self.evaluator.data, None
        for name, regulator in regulators:
            law: Policy | None = linear_law(regulator, data)
            if law is None:
                return
            law = rate_limited(law, data, rates) if rates else law
            controller = Controller(law, data.schema)
            found = self.evaluator.evaluate(controller)
            if name == LQR:
                self._rival = found
            if best is None or is_surely_better(found.paths, best[2].paths):
                best = name, controller, found
        if best and not is_surely_better(self.evaluation.paths, best[2].paths):
            self.kept, self.controller, self.evaluation = best

    @property
    def doubts(self) -> list[str]:
        """Every reason to doubt the controller."""
        found = doubts_of(self.evaluation, self.evaluator)
        if isinstance(self.controller.policy, DeviationPolicy):  # a regulator keeps no limit of a deviation
            return found
        rival, mine = self._least_squares(), self.evaluation
        if rival is None or rival.expected_return - mine.expected_return <= resolution(mine.expected_return):
            return found
        reason = (
            f"it was not chosen because its lower end is lower, {rival.unknown_mass:.1%} of it being unknown"
        )
        if rival.interval[0] > mine.interval[0]:
            reason = "its lower end is higher too"
        low, high = rival.interval
        return [
            *found,
            f"least squares and LQR may do better: its return is predicted as {rival.expected_return:.5g} "
            f"within [{low:.5g}, {high:.5g}], that of the controller as {mine.expected_return:.5g}; {reason}",
        ]

    def _least_squares(self) -> OfflineEvaluation | None:
        """Return what the model says of least squares and LQR, if the log has one."""
        if self._rival is None:
            fit = LinearQuadraticFit.of(self.evaluator.data)
            regulator = fit.regulator(self.evaluator.discount) if fit else None
            self._rival = self.evaluator.evaluate(regulator) if regulator else None
        return self._rival


def doubts_of(found: OfflineEvaluation, evaluator: OfflineEvaluator) -> list[str]:
    """Return what the verdict says, and that a controller may not be better than the log."""
    logged, doubts = evaluator.logged(), []
    if found.verdict != "ok":
        doubts.append(f"the verdict on this controller is {found.verdict!r}: {'; '.join(found.reasons)}")
    gain = evaluator.difference(found, logged)
    acted = evaluator.data.episodes is not None
    if (acted and gain.probability_better < _LIKELY) or found.interval[0] <= logged.expected_return:
        doubts.append(
            "the controller is not better than what was logged beyond doubt: its return is predicted within "
            f"[{found.interval[0]:.5g}, {found.interval[1]:.5g}], that of the log as "
            f"{logged.expected_return:.5g}; it is better with probability {gain.probability_better:.2f}"
        )
    return doubts
