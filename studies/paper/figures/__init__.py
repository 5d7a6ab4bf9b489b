"""The figures of the paper, drawn from records."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from studies.paper.figures._learning import draw_learning_curves
from studies.paper.figures._lqr_gradient import draw_lqr_gradient
from studies.paper.figures._portrait import draw_portrait
from studies.records import Record

__all__ = ["FIGURES", "draw", "draw_learning_curves", "draw_lqr_gradient", "draw_portrait"]


FIGURES: Mapping[str, Callable[[Sequence[Record], Any], Any]] = MappingProxyType(
    {
        "lqr-gradient": lambda records, _: draw_lqr_gradient(records),
        "pendulum-grid": draw_learning_curves,
        "pendulum-random": draw_learning_curves,
        "cart-pole": draw_learning_curves,
        "pendulum-portrait": lambda records, _: draw_portrait(records),
        "mountain-car": draw_learning_curves,
    }
)
"""By the name of the experiment; a table has none."""


def draw(records: Sequence[Record], experiment: Any) -> Any:
    """Return the figure of an experiment from its records, None if it has none or nothing was run."""
    if experiment.name not in FIGURES or not records:
        return None
    return FIGURES[experiment.name](records, experiment)
