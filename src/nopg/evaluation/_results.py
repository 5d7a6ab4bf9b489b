"""What an offline evaluation and a comparison return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nopg.baselines import BASELINES
from nopg.evaluation._behavior import LoggedReturns
from nopg.evaluation._held_out import HeldOutErrors
from nopg.evaluation._interval import Verdict, is_surely_better
from nopg.evaluation._model_paths import ModelPaths
from nopg.inspect._wording import chance

__all__ = ["LOGGED", "Comparison", "Difference", "OfflineEvaluation"]

LOGGED = "logged"
"""Name of the logged behaviour in a comparison."""

# Those that are kept unless a later one is better beyond doubt.
_FIRST = (LOGGED, "lqr", "mpc", "cloning")


@dataclass(frozen=True)
class OfflineEvaluation:
    """What a policy is predicted to earn, from the data alone.

    Attributes:
        expected_return: The discounted return to expect from the starts of the task.
        interval: Where it lies in 95 of 100 datasets, if the verdict is `ok`. Its lower end counts leaving
            the data as worth the least; both stay within the returns that the logged rewards make possible.
        standard_error: Of the expected return: from halves of the episodes, the noise of the plant and errors
            on held-out episodes.
        unknown_mass: The discounted probability of leaving the data.
        pessimistic_return: The return if leaving the data is as bad as anything that was ever logged.
        verdict: `ok`, `weak` or `not identifiable`.
        reasons: Why it is not `ok`.
        paths: Predicted paths of the policy.
    """

    expected_return: float
    interval: tuple[float, float]
    standard_error: float
    unknown_mass: float
    pessimistic_return: float
    verdict: Verdict
    reasons: tuple[str, ...]
    paths: ModelPaths

    @property
    def held_out(self) -> HeldOutErrors:
        """What errors of the model on episodes that it has not seen would change in the return."""
        return self.paths.held_out

    def __repr__(self) -> str:
        low, high = self.interval
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return (
            f"OfflineEvaluation(return {self.expected_return:.6g} in [{low:.6g}, {high:.6g}], "
            f"unknown mass {self.unknown_mass:.2%}, {self.verdict}{why})"
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """How much one policy earns more than another, both on the same model.

    Attributes:
        mean: Of the difference.
        interval: 95 %.
        probability_better: That it is positive.
    """

    mean: float
    interval: tuple[float, float]
    probability_better: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several policies on the same data.

    Attributes:
        evaluations: By name; `logged` is the logged behaviour, imitated.
        gains: Over the logged behaviour, by name.
        seen: Returns of the logged episodes, where these are long enough.
    """

    evaluations: Mapping[str, OfflineEvaluation]
    gains: Mapping[str, Difference]
    seen: LoggedReturns | None

    @property
    def best(self) -> str:
        """The simplest that no other is better than beyond doubt, as `optimize` chooses.

        The logged behaviour is the simplest, then come least squares + LQR, linear MPC, behaviour cloning,
        and the rest in their order. Not identifiable ones come after all others: nothing has to be better
        than what is not known, and they are taken where they are better with the least value too.
        """
        every = self.evaluations

        def place(name: str) -> tuple[bool, int]:
            known = every[name].verdict != "not identifiable"
            return not known, _FIRST.index(name) if name in _FIRST else len(_FIRST)

        first, *others = sorted(every, key=place)
        for name in others:
            if is_surely_better(every[name].paths, every[first].paths):
                first = name
        return first

    @property
    def legend(self) -> str:
        """What the baselines among the policies are, in one line each; empty without any."""
        return "\n".join(
            f"{name}: {BASELINES[name].summary}" for name in self.evaluations if name in BASELINES
        )

    def __str__(self) -> str:
        rows = [("policy", "return", "95 %", "gain over logged", "P(better)", "unknown", "verdict")]
        for name, one in self.evaluations.items():
            gain = self.gains.get(name)
            rows.append(
                (
                    name,
                    f"{one.expected_return:.4g}",
                    "[{:.4g}, {:.4g}]".format(*one.interval),
                    f"{gain.mean:+.3g}" if gain else "",
                    chance(gain.probability_better) if gain else "",
                    f"{one.unknown_mass:.1%}",
                    one.verdict,
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
        return "\n".join(line.rstrip() for line in (*lines, self.legend)).rstrip()
