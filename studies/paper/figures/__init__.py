"""The figures of the paper, drawn from records."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from studies.paper._experiment import mode_of
from studies.paper.figures._learning import draw_learning_curves
from studies.paper.figures._lqr_gradient import draw_lqr_gradient
from studies.paper.figures._portrait import draw_portrait
from studies.records import Record

__all__ = ["FIGURES", "draw", "draw_learning_curves", "draw_lqr_gradient", "draw_portrait"]


def _regulator(records: Sequence[Record], experiment: object) -> Any:
    """Draw the records with the supplement's settings, which are the paper's figure, or else all."""
    del experiment
    return draw_lqr_gradient([r for r in records if mode_of(r) == "faithful"] or records)


FIGURES: Mapping[str, Callable[[Sequence[Record], Any], Any]] = MappingProxyType(
    {
        "lqr-gradient": _regulator,
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
