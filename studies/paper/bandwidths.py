"""The bandwidths of the authors' released code: a density bandwidth of each column, times a factor."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nopg import Bandwidths
from nopg.data import Transitions
from nopg.errors import DataError

# Folds, candidates, and the widest of them in widths by Silverman's rule.
_FOLDS, _CANDIDATES, _WIDEST_CANDIDATE = 5, 29, 1.5


def released_bandwidths(data: Transitions, *, action_factor: float = 1.0) -> Bandwidths:
    """Return what specifies the supplement's cross-validation, for reproduction only.

    Each column gets, of 29 widths up to 1.5 times Silverman's, the one that makes five
    folds of consecutive rows likeliest (github.com/jacarvalho/nopg). A value that stands in several folds is
    its own neighbour there, so on grids the narrowest width wins, a 29th of the widest. The factor 50 on
    actions makes up for that, the factor 1 on states does not.

    Example:
        >>> from nopg.envs import Pendulum
        >>> from nopg.envs import collect_grid
        >>> h = released_bandwidths(collect_grid(Pendulum(), (20, 20, 2)), action_factor=50.0)
        >>> [round(float(width), 2) for width in h.states], round(float(h.actions[0]), 2)
        ([0.3, 0.29, 0.07], 1.44)
    """
    h = []
    for names, columns in ((data.schema.features, data.features), (data.schema.actions, data.actions)):
        for name, column in zip(names, columns.T, strict=True):
            if bool((column == column[0]).all()):
                raise DataError(
                    f"column {name!r} holds one value only and has no density bandwidth; leave it out"
                )
        h.append(torch.stack([folded_bandwidth(column) for column in columns.T]))
    return Bandwidths.from_values(h[0], action_factor * h[1], source="the authors' released code")


def folded_bandwidth(column: Tensor) -> Tensor:
    """Return the candidate under which each fold is likeliest, given the others."""
    n = len(column)
    silverman = float(column.std()) * (0.75 * n) ** -0.2
    candidates = torch.arange(1, _CANDIDATES + 1) * (_WIDEST_CANDIDATE * silverman / _CANDIDATES)
    likelihood = torch.zeros(_CANDIDATES, dtype=torch.float64)
    for held_out in torch.arange(n).tensor_split(_FOLDS):
        kept = torch.ones(n, dtype=torch.bool)
        kept[held_out] = False
        values, counts = torch.unique(column[kept], return_counts=True)
        places, times = torch.unique(column[held_out], return_counts=True)
        squared = (places[:, None] - values).square()
        for k, h in enumerate(candidates.tolist()):
            density = torch.logsumexp(counts.log() - 0.5 * squared / h**2, dim=1) - math.log(h)
            likelihood[k] += (times * density).sum()
    best: Tensor = candidates[likelihood.argmax()]
    return best.double()
