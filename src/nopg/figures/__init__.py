"""Records in, pictures out (the extra `figures`)."""

from nopg.figures._gallery import FIGURES, draw, save
from nopg.figures._learning import draw_learning_curves
from nopg.figures._lqr_gradient import draw_lqr_gradient
from nopg.figures._portrait import draw_portrait

__all__ = ["FIGURES", "draw", "draw_learning_curves", "draw_lqr_gradient", "draw_portrait", "save"]
