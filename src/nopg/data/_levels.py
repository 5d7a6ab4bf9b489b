"""Declared levels of actions against the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from nopg.errors import DataError

# Share of the smallest gap between two levels by which a logged action may miss its level.
_ROUNDING = 1e-6


Levels = Mapping[str, tuple[float, ...]]


def as_levels(levels: Mapping[str, Sequence[float]] | None) -> dict[str, tuple[float, ...]]:
    """Return levels in rising order, by action."""
    return {name: tuple(sorted(map(float, values))) for name, values in (levels or {}).items()}


def check_levels(actions: torch.Tensor, names: tuple[str, ...], levels: Levels) -> None:
    """Refuse levels that logged actions (n, d_a) are not among.

    Example:
        >>> check_levels(torch.tensor([[0.0], [0.5]]), ("pump",), {"pump": (0.0, 1.0)})
        Traceback (most recent call last):
        ...
        nopg.errors.DataError: the levels of 'pump' are 0, 1, but 1 of 2 logged rows hold others (row 1 ...
    """
    for name, allowed in levels.items():
        column = actions[:, names.index(name)]
        known = torch.tensor(allowed, dtype=torch.float64)
        apart = (column[:, None] - known).abs().amin(dim=1)
        wrong = (apart > _ROUNDING * float(known.diff().min())).nonzero()[:, 0]
        if len(wrong):
            row = int(wrong[0])
            shown = ", ".join(f"{one:g}" for one in allowed)
            raise DataError(
                f"the levels of {name!r} are {shown}, but {len(wrong)} of {len(column)} logged rows hold "
                f"others (row {row} has {float(column[row]):.6g}); declare all levels, or store the action "
                "as it was applied"
            )
