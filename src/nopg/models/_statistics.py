"""Everything that predictions of one step need from the rows of a log; it adds up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.models._charts import BlockSums
from nopg.models._excitation import Excitation

__all__ = ["Statistics", "joined_extremes"]


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Sums over rows around charts that are placed; those of two sets of rows add up, in any order.

    Attributes:
        blocks: Sums of the global fit and of the charts, by block of targets.
        excitations: What the rows tell apart over all, by degree.
        extremes: Least and largest inputs, shape (2, d).
    """

    blocks: tuple[BlockSums, ...]
    excitations: Mapping[int, Excitation]
    extremes: Tensor

    @property
    def num_rows(self) -> int:
        """Number of rows that were added up."""
        return self.excitations[1].num_rows

    def __add__(self, other: Statistics) -> Statistics:
        blocks = []
        for (whole, local), (whole_there, local_there) in zip(self.blocks, other.blocks, strict=True):
            both = local if local is None or local_there is None else local + local_there
            blocks.append((whole + whole_there, both))
        return Statistics(
            tuple(blocks),
            {degree: one + other.excitations[degree] for degree, one in self.excitations.items()},
            joined_extremes(self.extremes, other.extremes),
        )


def joined_extremes(one: Tensor, other: Tensor) -> Tensor:
    """Return the least and the largest (2, d) of two sets of rows."""
    return torch.stack([torch.minimum(one[0], other[0]), torch.maximum(one[1], other[1])])
