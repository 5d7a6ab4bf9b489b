"""Which rows of a folder of files one of several readers reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nopg.errors import ArgumentError, DataError

__all__ = ["Share"]


@dataclass(frozen=True, slots=True)
class Share:
    """Consecutive rows of files that are stored in row groups.

    Attributes:
        first: Number of its first row among the rows of all files.
        rows: How many rows it has.
        groups: The row groups that hold them: number of the file, numbers of the groups in it.
        declared: How many rows these groups have.
        skipped: How many of those come before the first row.
        breaks: Rows of the share, the first being 0, at which another file starts.
    """

    first: int
    rows: int
    groups: tuple[tuple[int, tuple[int, ...]], ...]
    declared: int
    skipped: int
    breaks: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Sequence[Sequence[int]], part: tuple[int, int] | None, source: str) -> Share:
        """Return one part of all rows; the parts follow each other and differ by one row at most.

        Args:
            sizes: Rows of every row group, file by file.
            part: Number of the part, the first being 0, and how many there are; None for the whole.
            source: What to call the files in errors.

        Example:
            >>> Share.of([[4, 4], [2]], (1, 2), "log")
            Share(first=5, rows=5, groups=((0, (1,)), (1, (0,))), declared=6, skipped=1, breaks=(3,))
        """
        total = sum(map(sum, sizes))
        number, count = (0, 1) if part is None else check_part(part)
        if total == 0:
            raise DataError(f"{source}: there are no rows; give at least one transition")
        if count > total:
            raise DataError(
                f"{source} has {total} rows, too few for {count} parts; use at most {total} of them"
            )
        first, end = total * number // count, total * (number + 1) // count

        files = np.repeat(np.arange(len(sizes)), [len(groups) for groups in sizes])
        ends = np.cumsum(np.concatenate([np.asarray(groups, dtype=np.int64) for groups in sizes]))
        starts = np.insert(ends, 0, 0)[:-1]
        chosen = (starts < end) & (ends > first) & (ends > starts)
        within = np.concatenate([np.arange(len(groups)) for groups in sizes])
        opened = np.cumsum([sum(groups) for groups in sizes])[:-1]
        return cls(
            first=first,
            rows=end - first,
            groups=tuple(
                (int(file), tuple(within[chosen & (files == file)].tolist()))
                for file in np.unique(files[chosen])
            ),
            declared=int((ends - starts)[chosen].sum()),
            skipped=first - int(starts[chosen][0]),
            breaks=tuple((np.unique(opened[(opened > first) & (opened < end)]) - first).tolist()),
        )


def check_part(part: tuple[int, int]) -> tuple[int, int]:
    """Return the number of a part and of all parts if there is such a part."""
    number, count = part
    if not 0 <= number < count:
        raise ArgumentError(
            f"part is {part}; give (number, of how many), the first being 0, such as (0, 4) to (3, 4)"
        )
    return number, count
