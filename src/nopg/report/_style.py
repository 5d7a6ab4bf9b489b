"""New figures without a window, their hatching and their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nopg.errors import MissingExtraError

__all__ = ["HATCHED", "OUTSIDE", "new_figure", "save"]

OUTSIDE, _STROKE = "0.93", "0.62"
HATCHED: Mapping[str, Any] = MappingProxyType(
    {"facecolor": OUTSIDE, "edgecolor": _STROKE, "hatch": "///", "linewidth": 0}
)
"""How areas outside the data are drawn."""


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of a size in inches, without a window and without global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "figures") from None
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> list[Path]:
    """Write PNG and PDF without a date: the same figure gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_suffix(".png"), path.with_suffix(".pdf")]
    figure.savefig(written[0], dpi=150, metadata={"Software": None})
    figure.savefig(written[1], metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return written
