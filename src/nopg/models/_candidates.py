"""The samples near each query state: found once before training, because ψ does not depend on the policy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.errors import ArgumentError
from nopg.kernels import GaussianKernel
from nopg.neighbors import NeighborSearch

# A sample with ψ below this share of the row's largest is not a candidate: 10⁻³ suffices for q, 10⁻⁴ for the
# gradient, whose error is 10 to 90 times that of q, and 10⁻⁵ for a bound that few rows exceed.
_NEGLIGIBLE = 1e-5
_CUTOFF = 2.0 * math.log(1.0 / _NEGLIGIBLE)
_Q_CUTOFF = 2.0 * math.log(1e3)

# Up to this many queries the longest row sets K; above, K* does (see `CandidateSearch`), with some room.
_EXACT_UP_TO = 5_000
_ROWS_SAMPLED = 5_000
_TIE = 1e-9
_SMALLEST_ROW = 8
_ROOM = 2.2
_ROWS_AT_ONCE = 1 << 16
# A row that loses more than this share of its weights under the actions of a policy is searched again among
# samples near in state and action, for all but the second share.
_MOST_LOST, _AIM = 1e-3, 1e-5
# Of this many times the kept entries per action the largest mean weights are chosen.
_CHOICE = 4
# Samples are counted in shells up to these squared distances from the first one left out.
_SHELLS = (2.0, 5.0, 9.0, 14.0, 22.0)


@dataclass(frozen=True, slots=True)
class CandidateGraph:
    """For m queries their K candidates among n samples; short rows are padded with ψ = 0.

    Attributes:
        indices: Sample indices, ascending in each row, shape (m, K), int32.
        log_psi: log ψ of query and candidate, −∞ for padding, shape (m, K).
        log_dropped: Log of a bound on the mass Σψ that each row leaves out, shape (m,); of Σψφ, and of shape
            (L, m), where the candidates were found for L actions.
        num_samples: n.
    """

    indices: Tensor
    log_psi: Tensor
    log_dropped: Tensor
    num_samples: int

    @property
    def num_candidates(self) -> int:
        """K, the length of the rows."""
        return self.indices.shape[1]

    @property
    def present(self) -> Tensor:
        """Whether an entry is a candidate or padding, shape (m, K)."""
        return ~self.log_psi.isinf()

    @property
    def dropped(self) -> Tensor:
        """Bound on the mass that each row leaves out, relative to the mass Σψ it keeps, shape (m,)."""
        return (self.log_dropped - torch.logsumexp(self.log_psi.double(), dim=1)).exp()

    def __repr__(self) -> str:
        m, K = self.indices.shape
        return (
            f"CandidateGraph({m} queries × {K} of {self.num_samples} samples, "
            f"dropped mass ≤ {float(self.dropped.max()):.1e})"
        )


@dataclass(frozen=True, slots=True)
class CandidateSearch:
    """Finds candidates: all samples with ψ ≥ 10⁻⁵ of the row's largest, nearest first.

    For up to 5 000 queries the longest row sets K. Above, a few dense regions must not set the memory of all
    rows: K is at most 2.2 K*, K* being the 95th percentile over the rows of the number of samples with
    ψ > 10⁻³ of the largest.

    A row that loses too much of its weights under the actions of a policy gets other candidates, near in
    state and action (`find_for_actions`), unless K is set by hand.

    Attributes:
        most_candidates: Largest K, by the memory budget; see `Footprint`.
        num_candidates: K, if it is set by hand.
        num_kept: Entries that each row of P keeps, as in the paper: those with the largest ε under the
            policy. Initial states keep all samples then.
    """

    most_candidates: int | None = None
    num_candidates: int | None = None
    num_kept: int | None = None

    def __post_init__(self) -> None:
        for name in ("most_candidates", "num_candidates", "num_kept"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ArgumentError(f"{name} is {number}; give at least 1, or None for the rule")

    def find(
        self,
        samples: NeighborSearch,
        kernel: GaussianKernel,
        features: Tensor,
        *,
        dtype: torch.dtype = torch.float64,
    ) -> CandidateGraph:
        """Return the candidates of query features (m, d_f); the search is among the samples in units of h."""
        queries = kernel.scale(features)
        _check_queries(queries)
        K, m = self._row_length(samples, queries), len(queries)
        indices = torch.empty(m, K, dtype=torch.int32)
        log_psi, dropped = torch.empty(m, K, dtype=dtype), torch.empty(m, dtype=torch.float64)
        for start in range(0, m, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            # One more than K: the first sample that is left out.
            distances, found = samples.nearest(queries[rows], K + 1)
            indices[rows], kept, first = self._keep(distances, found, K)
            log_psi[rows] = kept
            dropped[rows] = _log_mass_beyond(samples, queries[rows], first, kept.isfinite().sum(dim=1))
        return CandidateGraph(indices, log_psi, dropped, samples.num_points)

    def rows_to_search(self, lost: Tensor) -> Tensor:
        """Return the rows that need other candidates, by the share (m,) that they lose."""
        if self.num_kept is not None:
            return torch.arange(len(lost))
        if self.num_candidates is not None:
            return torch.arange(0)
        return (lost > _MOST_LOST).nonzero()[:, 0]

    def find_for_actions(
        self, samples: NeighborSearch, queries: Tensor, *, most_entries: int
    ) -> CandidateGraph:
        """Return candidates of r rows by ψφ under L actions each, their log ψ not yet known: 0.

        Args:
            samples: States and actions of the samples in units of h.
            queries: States and actions, shape (L, r, d).
            most_entries: Of all rows together; a row has at least 8 per action.
        """
        (L, r, d), n = queries.shape, samples.num_points
        flat = queries.reshape(L * r, d)
        if self.num_kept is not None:
            k, reach = min(n, _CHOICE * self.num_kept), torch.full((L * r,), math.inf, dtype=torch.float64)
        else:
            reach = samples.nearest(flat, 1)[0][:, 0].square() + 2.0 * math.log(n / _AIM)
            needed = int(samples.count_within(flat, reach.sqrt()).max())
            k = min(n, needed, max(most_entries // (L * r), _SMALLEST_ROW))
        distances, found = samples.nearest(flat, k + 1)
        squared = torch.nn.functional.pad(distances.square(), (0, max(k + 1 - n, 0)), value=math.inf)
        left_out = squared[:, :k] > reach[:, None]
        edge = torch.where(left_out, squared[:, :k], squared[:, k:]).amin(dim=1)
        log_dropped = (n - (~left_out).sum(dim=1)).double().log() - 0.5 * edge

        # The rows of the L actions side by side; a sample that occurs twice is left out if it is in both.
        key = (2 * found[:, :k].long() + left_out).view(L, r, k).transpose(0, 1).reshape(r, L * k)
        key = key.sort(dim=1).values
        indices, padding = (key // 2).int(), key % 2 == 1
        padding[:, 1:] |= indices[:, 1:] == indices[:, :-1]
        log_psi = torch.zeros(indices.shape, dtype=torch.float64).masked_fill_(padding, -math.inf)
        return CandidateGraph(indices, log_psi, log_dropped.view(L, r), n)

    def _keep(self, distances: Tensor, indices: Tensor, K: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return sorted candidates, their log ψ and the first squared distance left out."""
        squared = distances.square()
        kept = squared[:, :K] <= squared[:, :1] + _CUTOFF
        if self.num_candidates is not None:
            kept = torch.ones_like(kept)
        if squared.shape[1] > K:
            kept &= ~tied_with_the_next(squared)

        first_dropped = torch.where(kept, math.inf, squared[:, :K]).amin(dim=1)
        if squared.shape[1] > K:
            first_dropped = torch.minimum(first_dropped, squared[:, K])
        log_psi = torch.where(kept, -0.5 * squared[:, :K], -math.inf)
        return *sorted_rows(indices[:, :K], log_psi), first_dropped

    def _row_length(self, samples: NeighborSearch, queries: Tensor) -> int:
        """Return K."""
        n, m = samples.num_points, len(queries)
        if self.num_candidates is not None:
            return min(self.num_candidates, n)

        # Evenly spaced rows, if there are many.
        queries = queries[:: max(1, m // _ROWS_SAMPLED)]
        nearest = samples.nearest(queries, 1)[0][:, 0].square()
        longest = int(samples.count_within(queries, (nearest + _CUTOFF).sqrt()).max())
        if m > _EXACT_UP_TO:
            needed = samples.count_within(queries, (nearest + _Q_CUTOFF).sqrt())
            longest = min(longest, math.ceil(_ROOM * float(torch.quantile(needed.double(), 0.95))))

        return min(n, self.most_candidates or n, max(longest, _SMALLEST_ROW))


def _check_queries(queries: Tensor) -> None:
    if len(queries) == 0:
        raise ArgumentError("there are no query states; give at least one")
    wrong = ~queries.square().sum(dim=1).isfinite()
    if bool(wrong.any()):
        raise ArgumentError(
            f"{int(wrong.sum())} of {len(queries)} query states are NaN, infinite or over 1e150 bandwidths "
            f"from the origin (first: row {int(wrong.nonzero()[0, 0])}); check the states and the bandwidths"
        )


def tied_with_the_next(squared: Tensor) -> Tensor:
    """Return which of the first K samples have the distance of the K+1st.

    On a grid a fixed K would keep some of several equally distant samples, depending on the order of the
    rows. They are dropped together, unless that empties half of the row.
    """
    edge = squared[:, -1:]
    tied = squared[:, :-1] >= edge - _TIE * (1.0 + edge)
    return tied & (tied.sum(dim=1, keepdim=True) <= tied.shape[1] // 2)


def sorted_rows(indices: Tensor, log_psi: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows sorted by sample index; padding gets the index of the first entry, with weight 0."""
    indices = torch.where(log_psi.isinf(), indices[:, :1], indices)
    indices, order = indices.sort(dim=1, stable=True)
    return indices, log_psi.gather(1, order)


def _log_mass_beyond(samples: NeighborSearch, queries: Tensor, first: Tensor, kept: Tensor) -> Tensor:
    """Return the log of a bound on Σψ (m,) over the samples that are not kept.

    The samples of each shell around a query are counted, and weigh no more than at its inner radius.

    Args:
        samples: All samples.
        queries: In units of h, shape (m, d).
        first: Squared distance of the first sample left out, ∞ if none is, shape (m,).
        kept: Number of samples kept, shape (m,).
    """
    left = samples.num_points - kept
    terms, inner, within = [], first, torch.zeros_like(kept)
    for width in _SHELLS:
        outer = first + width
        counted = (samples.count_within(queries, outer.nan_to_num(posinf=0.0).sqrt()) - kept).clamp(min=0)
        counted = torch.minimum(torch.maximum(counted, within), left)
        terms.append((counted - within).double().log() - 0.5 * inner)
        inner, within = outer, counted
    terms.append((left - within).double().log() - 0.5 * inner)
    bound = torch.logsumexp(torch.stack(terms), dim=0)
    return torch.where(left > 0, bound, -math.inf)
