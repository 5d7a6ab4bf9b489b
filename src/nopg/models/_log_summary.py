"""A log of any length, as the local model takes it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from nopg.data import Transitions
from nopg.models._column_counts import ColumnCounts
from nopg.models._held_out_rows import OwnRows
from nopg.models._statistics import Statistics


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
