"""New figures without a window, their hatching and their files."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nopg._files import write_files
from nopg.errors import MissingExtraError

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


def figure_files(figure: Any, path: Path) -> dict[Path, bytes]:
    """Return PNG and PDF by path, without a date: the same figure gives the same bytes."""
    png, pdf = BytesIO(), BytesIO()
    figure.savefig(png, format="png", dpi=150, metadata={"Software": None})
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return {path.with_suffix(".png"): png.getvalue(), path.with_suffix(".pdf"): pdf.getvalue()}


def save(figure: Any, path: Path) -> list[Path]:
    """Write PNG and PDF; see `figure_files`."""
    files = figure_files(figure, path)
    write_files(files)
    return list(files)
