"""How each method is drawn: safe for colour-blind eyes, and readable without colour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["STYLES", "Style"]


@dataclass(frozen=True, slots=True)
class Style:
    """How a method is drawn: colours of Okabe and Ito, and a line and a marker of its own.

    Attributes:
        label: In the legend.
        color: Of line and band.
        line: Matplotlib's line style.
        marker: Matplotlib's marker.
    """

    label: str
    color: str
    line: str
    marker: str


STYLES: Mapping[str, Style] = MappingProxyType(
    {
        "nopg-d": Style("NOPG-D", "#D55E00", "-", "o"),
        "nopg-s": Style("NOPG-S", "#009E73", "--", "s"),
        "dpg": Style("DPG", "#0072B2", "-.", "^"),
        "pwis": Style("PWIS", "#CC79A7", ":", "v"),
        "ddpg-offline": Style("DDPG offline", "#56B4E9", "-.", "^"),
        "ddpg-online": Style("DDPG online", "#000000", (0, (1, 1)), "x"),  # type: ignore[arg-type]
    }
)
