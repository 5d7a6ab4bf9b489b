"""Which transition model to train on."""

from __future__ import annotations

from dataclasses import dataclass

from nopg._ranks import ALONE, Ranks
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.graph import IntegrationRule, ModelComparison, compare_models
from nopg.kernels import Bandwidths

__all__ = ["ModelChoice", "choose_model"]


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The transition model that an answer rests on.

    Attributes:
        name: 'local-linear' or 'nadaraya-watson'.
        reason: Why this one, in a sentence.
        comparison: The held-out errors of both, if they decided.
    """

    name: str
    reason: str
    comparison: ModelComparison | None = None


def choose_model(
    asked: str,
    data: Transitions,
    bandwidths: Bandwidths,
    integration: IntegrationRule | None,
    ranks: Ranks = ALONE,
) -> ModelChoice:
    """Return the model that was asked for; if 'auto', the one that predicts held-out rows better."""
    if ranks.several:
        if asked == "local-linear":
            raise ArgumentError(
                "the local-linear model runs in one process; under torchrun use model='nadaraya-watson'"
            )
        return ModelChoice("nadaraya-watson", "nadaraya-watson, the one that several ranks can share")
    if asked != "auto":
        return ModelChoice(asked, f"{asked}, as asked")
    if integration is not None:
        return ModelChoice("nadaraya-watson", "nadaraya-watson, the only one with an integration rule")
    comparison = compare_models(data, bandwidths)
    return ModelChoice(comparison.chosen, comparison.reason(), comparison)
