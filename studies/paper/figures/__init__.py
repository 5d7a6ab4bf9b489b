"""The figures of the paper, drawn from records."""

from studies.paper.figures._gallery import FIGURES, draw
from studies.paper.figures._learning import draw_learning_curves
from studies.paper.figures._lqr_gradient import draw_lqr_gradient
from studies.paper.figures._portrait import draw_portrait

__all__ = ["FIGURES", "draw", "draw_learning_curves", "draw_lqr_gradient", "draw_portrait"]
