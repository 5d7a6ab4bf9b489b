"""The rows of a run that are kept, as arrays that grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nopg._typing import IntArray

_Array = npt.NDArray[Any]

_MOST_KEPT = 100_000


class Table:
    """Columns of equal length; of more than 100 000 rows the later half is kept.

    Attributes:
        dropped: Number of rows that were dropped.
    """

    def __init__(self) -> None:
        self._columns: dict[str, _Array] = {}
        self._used = self.dropped = 0

    def __len__(self) -> int:
        return self._used

    def __getitem__(self, name: str) -> _Array:
        return self._columns[name][: self._used]

    def append(self, **columns: _Array) -> None:
        """Add rows."""
        count = len(next(iter(columns.values())))
        if self._used > _MOST_KEPT:
            drop = self._used // 2
            self._columns = {name: self[name][drop:].copy() for name in self._columns}
            self._used, self.dropped = self._used - drop, self.dropped + drop
        for name, values in columns.items():
            kept = self._columns.get(name, np.empty((0, *values.shape[1:]), dtype=values.dtype))
            if len(kept) < self._used + count:
                more = np.empty((2 * (self._used + count), *kept.shape[1:]), dtype=kept.dtype)
                more[: self._used] = kept[: self._used]
                self._columns[name] = kept = more
            kept[self._used : self._used + count] = values
        self._used += count

    def stretches(self, length: int) -> IntArray:
        """Return begin and end (k, 2) of sequences of rows, cut into stretches of a length."""
        begins = np.flatnonzero(~self["linked"])
        edges = np.unique(np.concatenate([[0], begins, [self._used]])).astype(int)
        found = [
            (k, min(k + length, end))
            for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
            for k in range(begin, end, length)
        ]
        return np.array(found, dtype=int).reshape(-1, 2)
