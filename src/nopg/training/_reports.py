"""Reports of each update, and callbacks that receive them."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from nopg.errors import ArgumentError


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

    @property
    def metrics(self) -> dict[str, float]:
        """What changes from update to update, by name, for logs."""
        names = ("expected_return", "gradient_norm", "unknown_mass", "products", "seconds")
        return {name: getattr(self, name) for name in names}


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
            self.path.write_text("".join(f"{line}\n" for line in self._rows_before(update.number)))
        with self.path.open("a") as stream:
            stream.write(",".join(map(str, (update.number, *update.metrics.values()))) + "\n")
        self._last = update.number

    def _rows_before(self, number: int) -> list[str]:
        """Return the header and the whole rows of earlier updates."""
        text = self.path.read_text(errors="replace") if self.path.exists() else ""
        rows = text.split("\n")[1:-1]  # what follows the last line end is half a row
        begins = text.startswith(f"{self._HEADER}\n") or self._HEADER.startswith(text)
        if not begins or not all(row.partition(",")[0].isdecimal() for row in rows):
            raise ArgumentError(f"{self.path} is no log of a training; give another path")
        return [self._HEADER, *(row for row in rows if int(row.partition(",")[0]) < number)]


class Plateau:
    """Stops when Ĵ has not risen for long.

    Args:
        patience: Updates without a rise after which to stop.
        rise: What counts as a rise, relative to the range of Ĵ seen so far.
    """

    def __init__(self, patience: int = 100, rise: float = 1e-3) -> None:
        self.patience, self.rise = patience, rise
        self._best = self._lowest = float("nan")
        self._since = 0

    def __call__(self, update: Update) -> bool:
        """Return whether to stop."""
        J = update.expected_return
        if update.number == 1:
            self._best, self._lowest, self._since = J, J, 0
        self._lowest = min(self._lowest, J)
        if self._best + self.rise * (self._best - self._lowest) < J:
            self._best, self._since = J, 0
        else:
            self._since += 1
        return self._since >= self.patience


class ProgressBar:
    """A line on a terminal; silent where the stream is not one.

    Args:
        stream: Where to write, standard error by default.
        interval: Seconds between two drawings.
        visible: Whether to show it at all.
    """

    _WIDTH = 20

    def __init__(self, stream: TextIO | None = None, interval: float = 0.1, *, visible: bool = True) -> None:
        self.stream = stream or sys.stderr
        self.interval = interval
        self._visible, self._open = visible and self.stream.isatty(), False
        self._started = self._drawn = time.monotonic()
        self._before: int | None = None

    def __call__(self, update: Update) -> None:
        """Draw the line again if it is time."""
        now = time.monotonic()
        if update.number == 1 or self._before is None:  # a training that goes on begins in the middle
            self._started, self._before = now - update.seconds, update.number - 1
        last = update.number == update.planned
        if not self._visible or (now - self._drawn < self.interval and not last):
            return
        self._drawn, self._open = now, not last
        self.stream.write("\r\x1b[K" + self.line(update, now - self._started) + ("\n" if last else ""))
        self.stream.flush()

    def note(self, text: str) -> None:
        """Write a line of its own."""
        if self._visible:
            lines = textwrap.fill(text, shutil.get_terminal_size().columns, break_on_hyphens=False)
            self.stream.write(f"\r\x1b[K{lines}\n")

    def close(self) -> None:
        """End the line of a training that stopped early."""
        if self._open:
            self.stream.write("\n")
        self._open = False

    def line(self, update: Update, seconds: float) -> str:
        """Return the text of the line after some seconds of training."""
        filled = self._WIDTH * update.number // update.planned
        left = seconds / (update.number - (self._before or 0)) * (update.planned - update.number)
        clock = f"{_clock(left)} left" if update.number < update.planned else f"in {_clock(seconds)}"
        return (
            f"{update.number}/{update.planned} {'━' * filled}{'╌' * (self._WIDTH - filled)} "
            f"Ĵ {update.expected_return:.5g}  ‖∇‖ {update.gradient_norm:.1e}  "
            f"unknown {update.unknown_mass:.2%}  {clock}"
        )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
