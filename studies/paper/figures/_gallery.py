"""Which picture belongs to which experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from studies.paper.figures._learning import draw_learning_curves
from studies.paper.figures._lqr_gradient import draw_lqr_gradient
from studies.paper.figures._portrait import draw_portrait
from studies.paper.records import Record

__all__ = ["FIGURES", "draw"]

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
