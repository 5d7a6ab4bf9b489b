"""A log of any length, as the local model takes it: a sample of its rows, and sums over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from nopg.data import Transitions
from nopg.errors import DataError
from nopg.models._charts import BlockSums
from nopg.models._excitation import Excitation
from nopg.models._sums import ChartSums, GlobalFit

# Bins of a column; a quantile is known to a thousandth of the range of the sample.
_BINS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class ColumnCounts:
    """Ranges of the states, actions and the reward, and counts of rows between fixed edges."""

    edges: Tensor  # in equal distances over what a sample has, (k, B + 1)
    counts: Tensor  # rows below the edges, between each two of them, and above, (k, B + 2)
    low: Tensor  # least values, (k,)
    high: Tensor  # largest ones

    @classmethod
    def between(cls, low: Tensor, high: Tensor) -> ColumnCounts:
        """Return the counts of no rows, with edges from low (k,) to high (k,)."""
        shares = torch.linspace(0.0, 1.0, _BINS + 1, dtype=torch.float64)
        edges = low[:, None] + (high - low)[:, None] * shares
        nothing = torch.zeros(len(low), _BINS + 2, dtype=torch.long)
        return cls(edges, nothing, torch.full_like(low, torch.inf), torch.full_like(high, -torch.inf))

    def with_rows(self, data: Transitions) -> ColumnCounts:
        """Return the counts with further rows."""
        values = torch.cat([data.states, data.actions, data.rewards[:, None]], dim=1).T.contiguous()
        places = torch.searchsorted(self.edges, values, right=True)
        places -= (values == self.edges[:, -1:]).long()  # the last edge is within
        counts = torch.stack([one.bincount(minlength=_BINS + 2) for one in places])
        return self + ColumnCounts(self.edges, counts, *values.aminmax(dim=1))

    def __add__(self, other: ColumnCounts) -> ColumnCounts:
        return ColumnCounts(
            self.edges,
            self.counts + other.counts,
            torch.minimum(self.low, other.low),
            torch.maximum(self.high, other.high),
        )

    @property
    def beyond(self) -> Tensor:
        """Number of rows outside the edges, shape (k,)."""
        return self.counts[:, 0] + self.counts[:, -1]

    def quantile(self, share: float) -> Tensor:
        """Return the value (k,) below which a share of the rows lies, to the distance of two edges.

        Example:
            >>> counts = ColumnCounts.between(torch.zeros(1).double(), torch.ones(1).double())
            >>> counts.counts[0, 1:501] += 1
            >>> counts.quantile(0.5)
            tensor([0.2500], dtype=torch.float64)
        """
        before = self.counts.cumsum(dim=1).double()
        wanted = share * before[:, -1:]
        place = torch.searchsorted(before, wanted).clamp(1, _BINS)
        count = self.counts.gather(1, place).clamp(min=1)
        within = ((wanted - before.gather(1, place - 1)) / count).clamp(0.0, 1.0)
        low, high = self.edges.gather(1, place - 1), self.edges.gather(1, place)
        return (low + within * (high - low))[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Sums over rows around charts that are placed; those of two sets of rows add up, in any order."""

    blocks: tuple[BlockSums, ...]  # sums of the global fit and of the charts, by block of targets
    excitations: Mapping[int, Excitation]  # what the rows tell apart over all, by degree
    extremes: Tensor  # least and largest inputs, (2, d)

    @property
    def num_rows(self) -> int:
        """Number of rows that were added up."""
        return self.excitations[1].num_rows

    def arrays(self) -> dict[str, Tensor]:
        """Return all numbers by name, for a file; `filled` is the way back."""
        arrays = {"extremes": self.extremes}
        for name, part in self._parts().items():
            arrays |= {f"{name}.{field}": torch.as_tensor(getattr(part, field)) for field in _numbers(part)}
        return arrays

    def filled(self, arrays: Mapping[str, Tensor]) -> Statistics:
        """Return the sums of `arrays`, around the same charts; a DataError says that they are others."""
        own = self.arrays()
        if {name: one.shape for name, one in own.items()} != {k: one.shape for k, one in arrays.items()}:
            raise DataError("the sums are not those of the sample beside them; summarize the log again")
        fixed = [name for name in own if name.endswith("baseline")]
        if not all(torch.allclose(own[name], arrays[name], rtol=1e-6, atol=1e-9) for name in fixed):
            raise DataError("charts were placed otherwise when the log was summed; summarize it again")
        parts = dict[str, Any]()
        own_parts: dict[str, Any] = self._parts()
        for name, part in own_parts.items():
            values = {field: arrays[f"{name}.{field}"] for field in _numbers(part)}
            plain = {k: v.item() for k, v in values.items() if not isinstance(getattr(part, k), Tensor)}
            parts[name] = replace(part, **(values | plain))  # counts and weights are numbers again
        return self._with(parts, arrays["extremes"])

    def __add__(self, other: Statistics) -> Statistics:
        others: dict[str, Any] = other._parts()
        parts = {name: part + others[name] for name, part in self._parts().items()}
        return self._with(parts, joined_extremes(self.extremes, other.extremes))

    def scaled(self, share: float, kept: Tensor | None = None) -> Statistics:
        """Return the sums in which every row counts for a share, as a sample of the rows would.

        Predictions rest on the rows of groups (G,) that are kept, all by default; noise and support on all
        groups.
        """
        kept = torch.ones(len(self.blocks[0][0].grams), dtype=torch.bool) if kept is None else kept
        parts = {name: part.scaled(share, kept) for name, part in self._parts().items()}
        return self._with(parts, self.extremes)

    def _parts(self) -> dict[str, GlobalFit | ChartSums | Excitation]:
        """Return the sums by name."""
        parts: dict[str, GlobalFit | ChartSums | Excitation]
        parts = {f"excitation.{degree}": one for degree, one in self.excitations.items()}
        for number, (whole, local) in enumerate(self.blocks):
            parts[f"{number}.whole"] = whole
            if local is not None:
                parts[f"{number}.charts"] = local
        return parts

    def _with(self, parts: Mapping[str, Any], extremes: Tensor) -> Statistics:
        """Return statistics with other sums of the same names."""
        blocks = tuple((parts[f"{k}.whole"], parts.get(f"{k}.charts")) for k in range(len(self.blocks)))
        excitations = {degree: parts[f"excitation.{degree}"] for degree in self.excitations}
        return Statistics(blocks, excitations, extremes)


def _numbers(sums: GlobalFit | ChartSums | Excitation) -> list[str]:
    """Return the fields that a file holds; settings of an excitation are those of the sample."""
    return [field.name for field in fields(sums) if field.name not in ("space", "varies", "degree")]


def joined_extremes(one: Tensor, other: Tensor) -> Tensor:
    """Return the least and the largest (2, d) of two sets of rows."""
    return torch.stack([torch.minimum(one[0], other[0]), torch.maximum(one[1], other[1])])


@dataclass(frozen=True, slots=True, eq=False)
class OwnRows:
    """Rows of the plant itself, where charts were placed by a sample of several plants."""

    inputs: Tensor  # (s, a), (m, d)
    targets: Tensor  # s′ − s, then r, (m, d_s + 1)
    groups: Tensor  # the group of each row, (m,)
    terminated: Tensor  # whether the row ended the task, (m,)

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, slots=True, eq=False)
class LogSummary:
    """A sample of the rows of a log, and sums over all of them.

    From the sample come shapes and places of charts, the noise and starts; all rows
    count in the predictions, and in the halves that intervals come from.

    Attributes:
        sample: Rows that follow each other, from all over the log, with the starts of the task declared.
        groups: The group of each row of the sample, shape (n,).
        statistics: Sums over all rows.
        own_rows: Rows of the plant itself, where the sample is of several plants.
        columns: How the values of columns lie in all rows, where that was counted.
    """

    sample: Transitions
    groups: Tensor
    statistics: Statistics
    own_rows: OwnRows | None = None
    columns: ColumnCounts | None = None

    def __repr__(self) -> str:
        return f"LogSummary({self.num_rows} rows, {len(self.sample)} of them as a sample)"

    @property
    def num_rows(self) -> int:
        """Number of rows of the log."""
        return self.statistics.num_rows
