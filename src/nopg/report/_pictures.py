"""All figures of a training result, with their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from nopg._files import write_files
from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.evaluation import map_states
from nopg.report._csv_tables import csv_table
from nopg.report._maps import draw_policy, draw_value, draw_visitation
from nopg.report._state_marks import Marks
from nopg.report._style import figure_files
from nopg.report._training_figure import draw_training, training_table
from nopg.training import TrainingResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How near to a map a logged state is drawn on it.
_NEAR, _UNIT = 0.5, "standard deviations"


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A figure with its numbers.

    Attributes:
        figure: Matplotlib's.
        table: Its numbers as columns of equal length, by name.
    """

    figure: Figure
    table: Mapping[str, FloatArray]


def result_pictures(
    result: TrainingResult,
    data: Transitions | None = None,
    *,
    columns: Sequence[str] | None = None,
    held: Mapping[str, float] | None = None,
) -> Mapping[str, Picture]:
    """Return the figures of a training: "training", "value", "visitation" and "policy".

    Args:
        result: Returned by `optimize` or `load`.
        data: The training data, drawn as dots.
        columns: One state column for curves, two for maps; by default the two along which the discounted
            visits spread most, or the only one.
        held: Values of other state columns, by name; by default those of a typical visited state.

    Example:
        >>> import nopg
        >>> from nopg.envs import Pendulum, collect_grid
        >>> data = collect_grid(Pendulum(), (8, 8, 2))
        >>> result = nopg.optimize(data, 0.9, model="paper", config=nopg.TrainingConfig(updates=1))
        >>> pictures = result_pictures(result, data, columns=["angle"], held={"velocity": 0.0})
        >>> list(pictures), list(pictures["value"].table)
        (['training', 'value', 'visitation', 'policy'], ['angle', 'velocity', 'value', 'unknown'])
    """
    schema = result.policy.schema
    if data is not None and data.schema.states != schema.states:
        raise ArgumentError(
            f"the data have the state columns {list(data.schema.states)}, the result has "
            f"{list(schema.states)}; give the data it was trained on"
        )
    found = map_states(result.solution, schema, columns=columns, held=held)
    widths = result.problem.multistep.state_widths
    marks = Marks.of(found, data, widths, within=_NEAR, unit=_UNIT)
    return MappingProxyType(
        {
            "training": Picture(draw_training(result), training_table(result)),
            "value": Picture(draw_value(found, marks), found.table("value")),
            "visitation": Picture(draw_visitation(found, marks), found.table("visitation")),
            "policy": Picture(draw_policy(found, marks), found.table("actions")),
        }
    )


def save_pictures(pictures: Mapping[str, Picture], folder: str | Path) -> list[Path]:
    """Write each figure as PNG, PDF and CSV, the same bytes for the same result; return the paths."""
    files: dict[Path, bytes] = {}
    for name, picture in pictures.items():
        path = Path(folder) / name
        files |= figure_files(picture.figure, path)
        files[path.with_suffix(".csv")] = csv_table(picture.table).encode()
    write_files(files)
    return list(files)
