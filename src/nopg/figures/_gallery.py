"""Which picture belongs to which experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nopg.figures._learning import draw_learning_curves
from nopg.figures._lqr_gradient import draw_lqr_gradient
from nopg.figures._portrait import draw_portrait
from nopg.records import Record

__all__ = ["FIGURES", "draw", "save"]

FIGURES: Mapping[str, Callable[[Sequence[Record], Any], Any]] = MappingProxyType(
    {
        "lqr-gradient": lambda records, _: draw_lqr_gradient(_of_one_mode(records)),
        "pendulum-grid": draw_learning_curves,
        "pendulum-random": draw_learning_curves,
        "cart-pole": draw_learning_curves,
        "pendulum-portrait": lambda records, _: draw_portrait(records),
        "mountain-car": draw_learning_curves,
    }
)
"""By the name of the experiment; a table has none."""


def _of_one_mode(records: Sequence[Record]) -> list[Record]:
    """Return the records with the supplement's settings, which are the paper's figure, or else all."""
    faithful = [record for record in records if record["mode"] == "faithful"]
    return faithful or list(records)


def draw(records: Sequence[Record], experiment: Any) -> Any:
    """Return the figure of an experiment from its records, None if it has none or nothing was run."""
    if experiment.name not in FIGURES or not records:
        return None
    return FIGURES[experiment.name](records, experiment)


def save(figure: Any, path: Path) -> list[Path]:
    """Write PNG and PDF, without a date in them: the same records give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_suffix(".png"), path.with_suffix(".pdf")]
    figure.savefig(written[0], dpi=150, metadata={"Software": None})
    figure.savefig(written[1], metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return written
