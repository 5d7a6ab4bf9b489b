"""The numbers that a training ends with, and where the large parts of a result come from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from nopg.bellman import Certificate, Solution
from nopg.errors import BundleError
from nopg.evaluation import OfflineEvaluation, Verdict
from nopg.models._state_support import CondensedSupport
from nopg.training._saving import data_identity

__all__ = ["LiveSource", "ResultSource", "Summary"]

# Share by which numbers may differ that another machine computes again.
_AGAIN = 1e-3


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers that a training ends with.

    Attributes:
        discount: γ that they hold for.
        expected_return: The discounted return to expect: along rollouts of the model, or Ĵ of the paper's
            equation.
        unknown_mass: The discounted probability of leaving the data.
        certificate: The proven numerical error of the equation.
        interval: Of the expected return; None with the paper's model.
        verdict: On the answer; None with the paper's model.
        reasons: Why the verdict is not `ok`.
    """

    discount: float
    expected_return: float
    unknown_mass: float
    certificate: Certificate
    interval: tuple[float, float] | None = None
    verdict: Verdict | None = None
    reasons: tuple[str, ...] = ()

    def check(self, again: Solution | OfflineEvaluation) -> None:
        """Refuse what was computed again if it is not what this summary says."""
        low, high = self.interval or (0.0, 0.0)
        width = high - low if math.isfinite(high - low) else 0.0
        near = _AGAIN * (abs(again.expected_return) + width) + self.certificate.return_error
        apart = abs(again.expected_return - self.expected_return)
        if not apart <= near or not abs(again.unknown_mass - self.unknown_mass) <= _AGAIN:
            raise BundleError(
                f"the saved expected return is {self.expected_return:.6g} with an unknown mass of "
                f"{self.unknown_mass:.4g}, but the saved controller has {again.expected_return:.6g} and "
                f"{again.unknown_mass:.4g} on the saved data; the numbers were changed. Train again"
            )
        if isinstance(again, OfflineEvaluation):
            self._check_interval(again, near)

    def _check_interval(self, again: OfflineEvaluation, near: float) -> None:
        ends = zip(self.interval or (), again.interval, strict=False)
        alike = all(saved == found or abs(saved - found) <= near for saved, found in ends)
        if not alike or self.verdict != again.verdict:
            raise BundleError(
                f"the saved verdict is {self.verdict!r} with the interval {self.interval}, but the saved "
                f"controller has {again.verdict!r} and {again.interval} on the saved data; the numbers were "
                "changed. Train again"
            )

    @classmethod
    def of(cls, solution: Solution, evaluation: OfflineEvaluation | None) -> Summary:
        """Return those of a solution and its evaluation."""
        gamma = solution.problem.discount
        if evaluation is None:
            return cls(gamma, solution.expected_return, solution.unknown_mass, solution.certificate)
        return cls(
            gamma,
            evaluation.expected_return,
            evaluation.unknown_mass,
            solution.certificate,
            evaluation.interval,
            evaluation.verdict,
            evaluation.reasons,
        )


class ResultSource(Protocol):
    """Where the large parts of a result come from: a training, or a file."""

    def solution(self) -> Solution:
        """Return the solution of the equation."""

    def evaluation(self) -> OfflineEvaluation | None:
        """Return the evaluation, if it is at hand."""

    def support(self) -> CondensedSupport:
        """Return what a controller carries along to know where it is."""

    def data_identity(self) -> Mapping[str, object]:
        """Return the number of rows of the data and a hash of them."""


@dataclass(frozen=True, slots=True)
class LiveSource:
    """The parts of a result that are at hand after a training."""

    solved: Solution
    judged: OfflineEvaluation | None

    def solution(self) -> Solution:
        """Return the solution of the equation."""
        return self.solved

    def evaluation(self) -> OfflineEvaluation | None:
        """Return the evaluation."""
        return self.judged

    def support(self) -> CondensedSupport:
        """Return what a controller carries along to know where it is."""
        return CondensedSupport.of(self.solved.problem.stored_data, self.solved.problem.metric)

    def data_identity(self) -> Mapping[str, object]:
        """Return the number of rows of the data and a hash of them."""
        return data_identity(self.solved.problem.stored_data)
