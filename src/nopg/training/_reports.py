"""Reports of each update: what receives them, a progress line, a table, and the plateau of a training."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from nopg.errors import ArgumentError
from nopg.inspect._wording import shortened

# Of a plateau: updates without a rise, and what counts as a rise, in shares of the range of Ĵ so far.
_PATIENCE, _RISE = 100, 1e-3


@dataclass(frozen=True, slots=True)
class Update:
    """One update of the policy.

    Attributes:
        number: 1 for the first.
        planned: How many there will be at most.
        expected_return: Ĵ before the update.
        gradient_norm: ‖∂Ĵ/∂θ‖.
        unknown_mass: U, the discounted probability of leaving the data.
        products: Products with P that the solves took.
        seconds: What it took. Two updates that differ in nothing else are equal.
    """

    number: int
    planned: int
    expected_return: float
    gradient_norm: float
    unknown_mass: float
    products: int
    seconds: float = field(default=0.0, compare=False)


Callback = Callable[[Update], bool | None]
"""Called after every update; returning True stops the training."""


class CSVLogger:
    """Writes one row per update to a table; a resumed training continues its table.

    Args:
        path: Of the file; it and its folder are made if they are not there. Another file is refused.

    Example:
        >>> import tempfile
        >>> log = CSVLogger(Path(tempfile.mkdtemp()) / "training.csv")  # TrainingConfig(callbacks=[log])
        >>> log(Update(number=1, planned=9, expected_return=-4.0, gradient_norm=0.5, unknown_mass=0.0,
        ...            products=12, seconds=0.25))
        >>> print(log.path.read_text())
        number,expected_return,gradient_norm,unknown_mass,products,seconds
        1,-4.0,0.5,0.0,12,0.25
        <BLANKLINE>
    """

    _HEADER = "number,expected_return,gradient_norm,unknown_mass,products,seconds"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._last: int | None = None

    def __call__(self, update: Update) -> None:
        """Write an update; if the log is ahead of a checkpoint, drop the rows from this update on."""
        if self._last is None or update.number != self._last + 1:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = self.path.read_text(errors="replace") if self.path.exists() else ""
            header, *rows = text.split("\n")
            if text and header != self._HEADER:
                raise ArgumentError(f"{self.path} is not a log of a training; give another path")
            # What follows the last line end is half a row.
            kept = [row for row in rows[:-1] if int(row.partition(",")[0]) < update.number]
            self.path.write_text("\n".join([self._HEADER, *kept, ""]))
        with self.path.open("a") as stream:
            values = [str(getattr(update, name)) for name in self._HEADER.split(",")]
            stream.write(",".join(values) + "\n")
        self._last = update.number


def on_plateau(history: Sequence[Update]) -> bool:
    """Return whether Ĵ has not risen for a hundred updates."""
    best = lowest = history[0].expected_return if history else 0.0
    since = 0
    for update in history:
        lowest, since = min(lowest, update.expected_return), since + 1
        if best + _RISE * (best - lowest) < update.expected_return:
            best, since = update.expected_return, 0
    return since >= _PATIENCE


class ProgressLine:
    """A line on a terminal; silent where the stream is not one.

    Args:
        stream: Where to write, standard error by default.
        interval: Seconds between two drawings.
        visible: Whether to show it at all.
    """

    def __init__(self, stream: TextIO | None = None, interval: float = 0.1, *, visible: bool = True) -> None:
        self._stream, self._interval = stream or sys.stderr, interval
        self._visible, self._open = visible and self._stream.isatty(), False
        self._started = self._drawn = time.monotonic()
        self._before: int | None = None  # updates before this training went on

    def __call__(self, update: Update) -> None:
        """Draw the line again if it is time."""
        now = time.monotonic()
        if update.number == 1 or self._before is None:
            self._started, self._before = now - update.seconds, update.number - 1
        last = update.number == update.planned
        if self._visible and (last or now - self._drawn >= self._interval):
            self._drawn, self._open = now, not last
            text = self.text(update, now - self._started)
            self._stream.write(f"\r\x1b[K{text}" + "\n" * last)
            self._stream.flush()

    def note(self, text: str) -> None:
        """Write a line of its own."""
        if self._visible:
            self.close()
            lines = textwrap.fill(text, shutil.get_terminal_size().columns, break_on_hyphens=False)
            self._stream.write(f"{lines}\n")

    def stage(self, text: str) -> None:
        """Show what is done now, until the next line."""
        if self._visible:
            self.close()
            self._stream.write(shortened(text, shutil.get_terminal_size().columns - 1))
            self._stream.flush()

    def close(self) -> None:
        """End the line of a training that stopped early; take away what is shown until the next line."""
        if self._visible:
            self._stream.write("\n" if self._open else "\r\x1b[K")
        self._open = False

    def text(self, update: Update, seconds: float) -> str:
        """Return the line after some seconds of training."""
        left = seconds / (update.number - (self._before or 0)) * (update.planned - update.number)
        minutes, rest = divmod(round(left), 60)
        return (
            f"{update.number}/{update.planned}  Ĵ {update.expected_return:.5g}  "
            f"‖∇‖ {update.gradient_norm:.1e}  unknown {update.unknown_mass:.2%}  {minutes}:{rest:02} left"
        )
