"""One look for all figures: sizes, axes, labels, colours, files, and the numbers behind them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nopg._columns import Columns, readable
from nopg._files import write_files
from nopg._typing import FloatArray
from nopg.errors import MissingExtraError
from nopg.inspect._wording import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BEFORE, AFTER, LOGGED, LIMIT = "#D55E00", "#0072B2", "0.55", "#CC3311"
# Inches; narrow, so that letters can be read on a phone.
WIDTH, LETTERS = 4.8, 8
_LONGEST_NAME, _LONGEST_UNIT, _DOTS_PER_INCH = 30, 16, 150.0
_UNITS = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0, "ms": 1e-3}
# An axis of time has at least so many units.
_FEWEST_UNITS = 2.0
# A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A figure of matplotlib, its numbers as columns of equal length by name, and what it shows."""

    figure: Figure
    table: Mapping[str, FloatArray]
    text: str


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of a size in inches, without a window and without global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "figures") from None
    return Figure(figsize=(width, height), layout="constrained")


def finish(axes: Axes, *, x: str = "", title: str = "", legend: bool = False) -> None:
    """Label a panel: what it shows stands above it, where long names have room; the legend to the right."""
    axes.set_title(title, fontsize=LETTERS, loc="left")
    axes.set_xlabel(x, fontsize=LETTERS)
    axes.tick_params(labelsize=LETTERS)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
        axes.legend(fontsize=LETTERS, frameon=False, ncols=3, **place)


def label(name: str, columns: Columns) -> str:
    """Return the label of a column with its unit, which matplotlib does not read as mathematics."""
    text, unit = shortened(readable(name), _LONGEST_NAME), columns.units.get(name)
    if unit:
        text += f" [{shortened(readable(unit), _LONGEST_UNIT)}]"
    return text.replace("$", r"\$")


def time_axis(interval: float | None, steps: int) -> tuple[str, dict[str, FloatArray]]:
    """Return the label of an axis over steps, and the columns of a table with it: time where it is known.

    Example:
        >>> label, table = time_axis(15.0, 60)
        >>> label, table["step"][:3], table[label][:3]
        ('time [min]', array([0., 1., 2.]), array([0.  , 0.25, 0.5 ]))
    """
    step = np.arange(steps, dtype=np.float64)
    if interval is None:
        return "step", {"step": step}
    unit = next((name for name, size in _UNITS.items() if steps * interval >= _FEWEST_UNITS * size), "ms")
    return f"time [{unit}]", {"step": step, f"time [{unit}]": interval / _UNITS[unit] * step}


def csv_table(columns: Mapping[str, FloatArray], digits: int | None = None) -> str:
    """Return columns by name as CSV; NaN is empty, and a quote precedes a name that looks like a formula.

    Example:
        >>> print(csv_table({"=level": np.array([-1.0, np.nan])}), end="")
        '=level
        -1.0
        ""
    """
    import pandas as pd

    names = [f"'{name}" if name.startswith(_FORMULA) else readable(name) for name in columns]
    table = pd.DataFrame(dict(enumerate(columns.values())))
    form = None if digits is None else f"%.{digits}g"
    return str(table.to_csv(header=names, index=False, float_format=form, lineterminator="\n"))


def png(figure: Any) -> bytes:
    """Return a figure as PNG; the same figure gives the same bytes."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return image.getvalue()


def save(figure: Any, path: Path) -> list[Path]:
    """Write PNG and PDF without a date: the same figure gives the same bytes; return the paths."""
    pdf = io.BytesIO()
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None})
    files = {path.with_suffix(".png"): png(figure), path.with_suffix(".pdf"): pdf.getvalue()}
    write_files(files)
    return list(files)


def save_pictures(pictures: Mapping[str, Picture], folder: str | Path) -> list[Path]:
    """Write each figure as PNG, PDF and CSV, the same bytes for the same result; return the paths."""
    written: list[Path] = []
    for name, picture in pictures.items():
        table = (Path(folder) / name).with_suffix(".csv")
        written += [*save(picture.figure, table), table]
        write_files({table: csv_table(picture.table).encode()})
    return written
