"""The samples near each query state: found once before training, because ψ does not depend on the policy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg._ranks import Ranks
from nopg.errors import ArgumentError
from nopg.kernels import GaussianKernel
from nopg.neighbors._samples import SampleIndex

__all__ = ["CandidateGraph", "CandidateSearch", "tied_with_the_next"]

# A sample with ψ below this share of the row's largest is not a candidate: 10⁻³ suffices for q, 10⁻⁴ for the
# gradient, whose error is 10 to 90 times that of q.
_NEGLIGIBLE = 1e-4
_CUTOFF = 2.0 * math.log(1.0 / _NEGLIGIBLE)
_Q_CUTOFF = 2.0 * math.log(1e3)

# Up to this many queries the longest row sets K; above, K* does (see `CandidateSearch`).
_EXACT_UP_TO = 5_000
_ROWS_SAMPLED = 5_000
_TIE = 1e-9
_SMALLEST_ROW = 8
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class CandidateGraph:
    """For m queries their K candidates among n samples; short rows are padded with ψ = 0.

    Attributes:
        indices: Sample indices, ascending in each row, shape (m, K), int32.
        log_psi: log ψ of query and candidate, −∞ for padding, shape (m, K).
        dropped: Bound on the dropped ψ-mass of each row, relative to the kept mass, shape (m,).
        num_samples: n.
    """

    indices: Tensor
    log_psi: Tensor
    dropped: Tensor
    num_samples: int

    @property
    def num_candidates(self) -> int:
        """K, the length of the rows."""
        return self.indices.shape[1]

    @property
    def present(self) -> Tensor:
        """Whether an entry is a candidate or padding, shape (m, K)."""
        return ~self.log_psi.isinf()

    def __repr__(self) -> str:
        m, K = self.indices.shape
        return (
            f"CandidateGraph({m} queries × {K} of {self.num_samples} samples, "
            f"dropped mass ≤ {float(self.dropped.max()):.1e})"
        )


@dataclass(frozen=True, slots=True)
class CandidateSearch:
    """Finds candidates: all samples with ψ ≥ 10⁻⁴ of the row's largest, nearest first.

    For up to 5 000 queries the longest row sets K. Above, a few dense regions must not set the memory of all
    rows: K is at most 1.5 K*, K* being the 95th percentile over the rows of the number of samples with
    ψ > 10⁻³ of the largest.

    Attributes:
        most_candidates: Largest K, by the memory budget; see `Footprint`.
        num_candidates: K, if it is set by hand.
    """

    most_candidates: int | None = None
    num_candidates: int | None = None

    def __post_init__(self) -> None:
        for name in ("most_candidates", "num_candidates"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ArgumentError(f"{name} is {number}; give at least 1, or None for the rule")

    def find(
        self,
        samples: SampleIndex,
        kernel: GaussianKernel,
        features: Tensor,
        *,
        dtype: torch.dtype = torch.float64,
    ) -> CandidateGraph:
        """Return the candidates of query features (m, d_f); the index holds the samples in units of h."""
        queries, ranks = kernel.scale(features), samples.ranks
        _check_queries(queries, ranks)
        K, m = self._row_length(samples, queries), len(queries)
        indices = torch.empty(m, K, dtype=torch.int32)
        log_psi, dropped = torch.empty(m, K, dtype=dtype), torch.empty(m, dtype=torch.float64)
        for rows in _blocks(m, ranks):
            # One more than K, for the bound on the dropped mass.
            distances, found = samples.nearest(queries[rows], K + 1)
            indices[rows], log_psi[rows], dropped[rows] = self._keep(distances, found, K, samples.num_samples)
        return CandidateGraph(indices, log_psi, dropped, samples.num_samples)

    def _keep(
        self, distances: Tensor, indices: Tensor, K: int, num_samples: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return sorted candidates, their log ψ and the bound on the dropped mass, from the K + 1 nearest."""
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
        return _sorted_rows(indices[:, :K], log_psi, first_dropped, num_samples)

    def _row_length(self, samples: SampleIndex, queries: Tensor) -> int:
        """Return K; the same on all ranks."""
        ranks, n = samples.ranks, samples.num_samples
        if self.num_candidates is not None:
            return min(self.num_candidates, n)

        # Evenly spaced rows, if there are many.
        counts = ranks.gather(torch.tensor([len(queries)]))
        m, before = int(counts.sum()), int(counts[: ranks.number].sum())
        step = max(1, m // _ROWS_SAMPLED)
        rows = torch.arange(-before % step, len(queries), step)
        nearest = samples.nearest(queries[rows], 1)[0][:, 0].square()
        within = samples.count_within(queries[rows], (nearest + _CUTOFF).sqrt())
        longest = int(ranks.gather(within).max())
        if m > _EXACT_UP_TO:
            needed = ranks.gather(samples.count_within(queries[rows], (nearest + _Q_CUTOFF).sqrt()))
            longest = min(longest, math.ceil(1.5 * float(torch.quantile(needed.double(), 0.95))))

        return min(n, self.most_candidates or n, max(longest, _SMALLEST_ROW))


def _blocks(count: int, ranks: Ranks) -> Iterator[slice]:
    """Yield blocks of rows, the same number on every rank, because ranks search together."""
    most = int(ranks.max(torch.tensor(count)))
    for start in range(0, most, _ROWS_AT_ONCE):
        yield slice(min(start, count), min(start + _ROWS_AT_ONCE, count))


def _check_queries(queries: Tensor, ranks: Ranks) -> None:
    if ranks.total(len(queries)) == 0:
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


def _sorted_rows(
    indices: Tensor, log_psi: Tensor, first_dropped: Tensor, num_samples: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows sorted by sample index, with the bound on the dropped mass."""
    padding = log_psi.isinf()
    kept = (~padding).sum(dim=1)
    num_dropped = (num_samples - kept).clamp(min=0)
    dropped = (num_dropped.double().log() - 0.5 * first_dropped - torch.logsumexp(log_psi, dim=1)).exp()

    # Padding has the index of the nearest sample, with weight 0.
    indices = torch.where(padding, indices[:, :1], indices)
    indices, order = indices.sort(dim=1, stable=True)
    return indices, log_psi.gather(1, order), torch.where(num_dropped > 0, dropped, 0.0)
