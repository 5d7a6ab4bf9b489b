"""How the prediction depends on the discount."""

from __future__ import annotations

from dataclasses import dataclass

from nopg.evaluation import Assessment, Gain, OfflineEvaluator, Verdict
from nopg.training import TrainingResult

# Factors of 1 − γ: twice and half the horizon.
_FACTORS = (0.5, 2.0)


@dataclass(frozen=True, slots=True)
class Variation:
    """The prediction with one discount.

    Attributes:
        discount: γ.
        expected_return: Predicted.
        interval: 95 %, of the expected return.
        gain: Over the logged behaviour, with the same discount.
        probability_better: That the gain is positive.
        unknown_mass: The discounted probability of leaving the data.
        verdict: `ok`, `weak` or `not identifiable`.
    """

    discount: float
    expected_return: float
    interval: tuple[float, float]
    gain: float
    probability_better: float
    unknown_mass: float
    verdict: Verdict

    @classmethod
    def of(cls, discount: float, one: Assessment, gain: Gain) -> Variation:
        """Return the variation that an evaluation and its gain describe."""
        return cls(
            discount,
            one.expected_return,
            one.interval,
            gain.mean,
            gain.probability_better,
            one.unknown_mass,
            one.verdict,
        )


def vary_discount(result: TrainingResult) -> tuple[Variation, ...]:
    """Return the prediction on the same model with twice and with half the horizon 1/(1 − γ)."""
    base, found = result.evaluator, []
    for factor in _FACTORS:
        gamma = max(1.0 - factor * (1.0 - result.discount), 0.0)
        evaluator = OfflineEvaluator(base.data, gamma, model=base.model)
        policy, logged = evaluator.assess(result.policy), evaluator.logged()
        found.append(Variation.of(gamma, policy, policy.gain_over(logged)))
    return tuple(found)
