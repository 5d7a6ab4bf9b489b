"""Everything that predictions of one step need from the rows of a log; it adds up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from nopg.errors import DataError
from nopg.models._chart_sums import ChartSums
from nopg.models._charts import BlockSums
from nopg.models._excitation import Excitation
from nopg.models._global_fit import GlobalFit


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

    def arrays(self) -> dict[str, Tensor]:
        """Return all numbers by name, for a file; `filled` is the way back."""
        found = {"extremes": self.extremes}
        for degree, excitation in self.excitations.items():
            found |= _tensors(f"excitation.{degree}", excitation)
        for number, (whole, local) in enumerate(self.blocks):
            found |= _tensors(f"{number}.whole", whole)
            found |= {} if local is None else _tensors(f"{number}.charts", local)
        return found

    def filled(self, arrays: Mapping[str, Tensor]) -> Statistics:
        """Return the sums of `arrays`, around the same charts; a DataError says that they are others."""
        own = self.arrays()
        fixed = [name for name in own if name.endswith("baseline")]
        if {name: one.shape for name, one in own.items()} != {
            name: one.shape for name, one in arrays.items()
        }:
            raise DataError("the sums are not those of the sample beside them; summarize the log again")
        if not all(torch.allclose(own[name], arrays[name], rtol=1e-6, atol=1e-9) for name in fixed):
            raise DataError("charts were placed otherwise when the log was summed; summarize it again")
        blocks = tuple(
            (
                _filled(whole, f"{number}.whole", arrays),
                None if local is None else _filled(local, f"{number}.charts", arrays),
            )
            for number, (whole, local) in enumerate(self.blocks)
        )
        excitations = {
            degree: _filled(one, f"excitation.{degree}", arrays) for degree, one in self.excitations.items()
        }
        return Statistics(blocks, excitations, arrays["extremes"])

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

    def scaled(self, share: float, kept: Tensor | None = None) -> Statistics:
        """Return the sums in which every row counts for a share, as a sample of the rows would.

        Args:
            share: Positive.
            kept: Groups (G,) whose rows predictions rest on; all by default. Noise and support are those of
                all groups.
        """
        kept = torch.ones(len(self.blocks[0][0].grams), dtype=torch.bool) if kept is None else kept
        blocks = tuple(
            (whole.scaled(share, kept), None if local is None else local.scaled(share, kept))
            for whole, local in self.blocks
        )
        excitations = {degree: one.scaled(share) for degree, one in self.excitations.items()}
        return Statistics(blocks, excitations, self.extremes)


_Sums = TypeVar("_Sums", GlobalFit, ChartSums, Excitation)
# Settings of an excitation, which the sample tells.
_PLACES = ("space", "varies", "degree")


def _tensors(name: str, sums: GlobalFit | ChartSums | Excitation) -> dict[str, Tensor]:
    return {
        f"{name}.{part.name}": torch.as_tensor(getattr(sums, part.name))
        for part in fields(sums)
        if part.name not in _PLACES
    }


def _filled(sums: _Sums, name: str, arrays: Mapping[str, Tensor]) -> _Sums:
    """Return sums with the numbers of arrays; counts and weights are numbers again."""
    found: dict[str, Any] = {}
    for part in fields(sums):
        if part.name not in _PLACES:
            value = arrays[f"{name}.{part.name}"]
            found[part.name] = value if isinstance(getattr(sums, part.name), Tensor) else value.item()
    return replace(sums, **found)


def joined_extremes(one: Tensor, other: Tensor) -> Tensor:
    """Return the least and the largest (2, d) of two sets of rows."""
    return torch.stack([torch.minimum(one[0], other[0]), torch.maximum(one[1], other[1])])
