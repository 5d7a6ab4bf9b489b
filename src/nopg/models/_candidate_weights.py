"""The weights of candidate samples under actions, and what the samples left out would weigh."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from nopg.errors import ArgumentError
from nopg.linalg._rows import RowPattern
from nopg.models._prior_mass import known_and_unknown

# A block of this size stays in the cache.
_ENTRIES_AT_ONCE = 1 << 16
# Up to this size the actions of candidates are stored, which saves a third of the time.
_MAX_STORED_ACTIONS = 1 << 24


class CandidateWeights:
    """Candidates of m queries, to be weighted by wⱼ ψ(s, sⱼ) φ(a, aⱼ).

    Args:
        pattern: The candidates of each query.
        log_psi: log wψ of the candidates, −∞ for padding, shape (m, K).
        log_dropped: Log of a bound on the mass of all other samples: Σwψ (m,), or Σwψφ (L, m) of L actions.
        actions: Actions of the samples in bandwidths, shape (n, d_a).
        prior_mass: β.
    """

    def __init__(
        self, pattern: RowPattern, log_psi: Tensor, log_dropped: Tensor, actions: Tensor, prior_mass: float
    ) -> None:
        self.pattern, self.log_psi, self.log_dropped = pattern, log_psi, log_dropped
        self.prior_mass = prior_mass
        self._sample_actions = actions.T.contiguous()  # (d_a, n)
        self._stored: list[Tensor] | None = None  # d_a × (m, K)
        if len(self._sample_actions) * log_psi.numel() <= _MAX_STORED_ACTIONS:
            self._stored = list(self._columns(slice(None)))

    def mean(self, actions: Tensor, *, out: Tensor) -> tuple[Tensor, Tensor]:
        """Write ε (m, K), the mean of the ratios over actions (L, m, d_a) in bandwidths, to `out`.

        Returns:
            The unknown mass and the bound on the share that is lost, both of shape (m,).
        """
        # The authors' code has the ratio of the means, another estimator.
        L = len(actions)
        unknown, lost = self.shares(actions[0], out=out)
        if L > 1:
            part = torch.empty_like(out)
            for sample in range(1, L):
                its_unknown, its_lost = self.shares(actions[sample], out=part, sample=sample)
                out += part
                unknown += its_unknown
                lost += its_lost
            out /= L
            unknown /= L
            lost /= L
        return unknown, lost

    def shares(self, actions: Tensor, *, out: Tensor, sample: int = 0) -> tuple[Tensor, Tensor]:
        """Write ε (m, K) for one action per query (m, d_a), the given sample of L, to `out`; see `mean`."""
        log_mass = self._softmax(actions, out=out)
        if wrong := int((~log_mass.isfinite()).sum()):
            raise ArgumentError(
                f"{wrong} of {len(actions)} actions are NaN, infinite or over 1e150 bandwidths away from the "
                "data; check the parameters of the policy"
            )
        known, unknown = known_and_unknown(log_mass, self.prior_mass)
        total = log_mass
        if self.prior_mass > 0:
            for rows in self._blocks():
                out[rows].mul_(known[rows, None])
            total = torch.logaddexp(log_mass, torch.full_like(log_mass, math.log(self.prior_mass)))
        return unknown, torch.sigmoid(self.dropped(sample) - total)

    def dropped(self, sample: int) -> Tensor:
        """Return the log of the bound on the mass of all other samples for one of L actions, shape (m,)."""
        return self.log_dropped if self.log_dropped.ndim == 1 else self.log_dropped[sample]

    def restricted(self, actions: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return the positions (m, k) of the largest mean weights, and log Σwψφ (L, m) without them."""
        values = torch.empty_like(self.log_psi)
        self.mean(actions, out=values)
        kept = values.topk(min(count, values.shape[1]), dim=1, sorted=False).indices
        log_dropped = self.log_dropped.clone()
        for sample, action in enumerate(actions):
            log_mass = self._softmax(action, out=values)
            others = values.scatter_(1, kept, 0.0).sum(dim=1)
            log_dropped[sample] = torch.logaddexp(log_dropped[sample], log_mass + others.log())
        return kept, log_dropped

    def _softmax(self, actions: Tensor, *, out: Tensor) -> Tensor:
        """Write the weights (m, K), normalised to 1, to `out`, and return log Σwψφ (m,)."""
        log_mass = actions.new_empty(len(actions))
        buffer = self.log_psi.new_empty(next(self._blocks()).stop, self.log_psi.shape[1])
        for rows in self._blocks():
            weights, offset = out[rows], buffer[: rows.stop - rows.start]
            logits = self.log_psi[rows]
            for k, at_candidates in enumerate(self._columns(rows)):
                torch.sub(at_candidates, actions[rows, k, None], out=offset)
                torch.addcmul(logits, offset, offset, value=-0.5, out=weights)
                logits = weights
            # The largest weight is e⁰/Σ, which gives the sum.
            highest = weights.amax(dim=1)
            torch.softmax(weights, dim=1, out=weights)
            torch.sub(highest, weights.amax(dim=1).log_(), out=log_mass[rows])
        return log_mass

    def _columns(self, rows: slice) -> Iterator[Tensor]:
        """Yield each action column of the candidates of some rows."""
        for k, column in enumerate(self._sample_actions):
            if self._stored is not None:
                yield self._stored[k][rows]
            else:
                indices = self.pattern.indices[rows]
                yield column.index_select(0, indices.reshape(-1)).view_as(indices)

    def _blocks(self) -> Iterator[slice]:
        m, K = self.log_psi.shape
        step = max(_ENTRIES_AT_ONCE // K, 1)
        for start in range(0, m, step):
            yield slice(start, min(start + step, m))


def log_kernel(indices: Tensor, samples: Tensor, places: Tensor, dtype: torch.dtype) -> Tensor:
    """Return log ψ (m, K) of candidates (m, K) among samples (n, d) at places (m, d), both in units of h."""
    log_psi = torch.empty(indices.shape, dtype=dtype)
    step = max(_ENTRIES_AT_ONCE // indices.shape[1], 1)
    for rows in (slice(start, start + step) for start in range(0, len(places), step)):
        offsets = places[rows, None] - samples[indices[rows].long()]
        log_psi[rows] = (-0.5 * offsets.square().sum(dim=2)).to(dtype)
    return log_psi
