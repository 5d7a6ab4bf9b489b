"""How each method is drawn: safe for colour-blind eyes, and readable without colour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Style(NamedTuple):
    """Colour of Okabe and Ito, Matplotlib's line style and marker."""

    label: str
    color: str
    line: Any
    marker: str


STYLES: Mapping[str, Style] = {
    "nopg-d": Style("NOPG-D", "#D55E00", "-", "o"),
    "nopg-s": Style("NOPG-S", "#009E73", "--", "s"),
    "pwis": Style("PWIS", "#CC79A7", ":", "v"),
    "ddpg-offline": Style("DDPG offline", "#56B4E9", "-.", "^"),
    "ddpg-online": Style("DDPG online", "#000000", (0, (1, 1)), "x"),
}
