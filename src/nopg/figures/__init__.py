"""Pictures of a training result (the extra `figures`)."""

from nopg.figures._fan import Fan, draw_fans, fans_table
from nopg.figures._maps import draw_policy, draw_value, draw_visitation
from nopg.figures._pictures import Picture, result_figures, result_pictures, save_pictures
from nopg.figures._state_axes import named
from nopg.figures._state_marks import Marks
from nopg.figures._style import new_figure, save
from nopg.figures._training import draw_training, training_table

__all__ = [
    "Fan",
    "Marks",
    "Picture",
    "draw_fans",
    "draw_policy",
    "draw_training",
    "draw_value",
    "draw_visitation",
    "fans_table",
    "named",
    "new_figure",
    "result_figures",
    "result_pictures",
    "save",
    "save_pictures",
    "training_table",
]
