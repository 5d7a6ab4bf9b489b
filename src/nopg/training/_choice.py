"""Which transition model to train on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg._ranks import Ranks
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.graph import IntegrationRule, ModelComparison, compare_models
from nopg.kernels import Bandwidths

__all__ = ["ModelChoice", "check_choice", "choose_model"]


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


def check_choice(asked: str, ranks: Ranks, device: torch.device) -> None:
    """Refuse a model that cannot run on these ranks or on this device."""
    if asked != "local-linear":
        return
    if ranks.several:
        raise ArgumentError(
            "the local-linear model runs in one process; under torchrun use model='nadaraya-watson'"
        )
    if device.type != "cpu":
        raise ArgumentError(
            f"the local-linear model computes on the CPU, not on {str(device)!r}; leave device out, or use "
            "model='nadaraya-watson'"
        )


def choose_model(
    asked: str,
    data: Transitions,
    bandwidths: Bandwidths,
    integration: IntegrationRule | None,
    *,
    ranks: Ranks,
    device: torch.device,
) -> ModelChoice:
    """Return the model that was asked for; if 'auto', the one that predicts held-out rows better."""
    if ranks.several:
        return ModelChoice("nadaraya-watson", "nadaraya-watson, the one that several ranks can share")
    if asked != "auto":
        return ModelChoice(asked, f"{asked}, as asked")
    if device.type != "cpu":
        return ModelChoice("nadaraya-watson", f"nadaraya-watson, the one that computes on {device}")
    if integration is not None:
        return ModelChoice("nadaraya-watson", "nadaraya-watson, the only one with an integration rule")
    comparison = compare_models(data, bandwidths)
    return ModelChoice(comparison.chosen, comparison.reason(), comparison)
