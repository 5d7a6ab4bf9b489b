"""Whether rows tell what comes next, by the errors of a model on held-out rows."""

from __future__ import annotations

import torch

from nopg.data import Transitions
from nopg.data._episodes import spaced_blocks
from nopg.inspect._findings import Finding, look, ok
from nopg.models import LocalModel
from nopg.models._memory import meanings

__all__ = ["memory_finding", "memory_model"]

_MOST_ROWS = 20_000


def memory_model(data: Transitions) -> LocalModel | None:
    """Return a model of the states of a log, or of blocks of a long one; None where no row follows another.

    The reward is not fitted: errors of the states are the same without it.
    """
    if not bool(data.continues.any()):
        return None
    log = data.take(spaced_blocks(len(data), _MOST_ROWS))
    return LocalModel(log, reward=lambda states, *_: torch.zeros(len(states), dtype=torch.float64))


def memory_finding(model: LocalModel | None) -> Finding | None:
    """Return the finding by the test of the verdict; None where too few rows follow each other."""
    if model is None or not model.memory:
        return None
    found = meanings(model.memory)
    if not found:
        return ok("memory", "nothing before a row predicts what a model leaves unexplained in it")
    whats, advice = zip(*found, strict=True)
    return look("memory", "; ".join(whats), ". ".join(advice))
