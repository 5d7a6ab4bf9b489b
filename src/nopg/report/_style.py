"""A figure without a window, and its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nopg.errors import MissingExtraError

__all__ = ["new_figure", "save"]


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of this size in inches, its parts kept apart; no window, no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "figures") from None
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> list[Path]:
    """Write PNG and PDF, without a date in them: the same records give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_suffix(".png"), path.with_suffix(".pdf")]
    figure.savefig(written[0], dpi=150, metadata={"Software": None})
    figure.savefig(written[1], metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return written
