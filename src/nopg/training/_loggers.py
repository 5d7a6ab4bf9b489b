"""Logs of a training, an entry per update, which a kill does not spoil and a training that goes on continues.

A logger is a callback. One for another service takes its metrics from the update:

    def to_mlflow(update: Update) -> None:
        mlflow.log_metrics(update.metrics, step=update.number)

    def to_wandb(update: Update) -> None:
        wandb.log(update.metrics, step=update.number)

    nopg.optimize(data, 0.97, config=nopg.TrainingConfig(callbacks=[to_mlflow]))
"""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from nopg.errors import ArgumentError, MissingExtraError
from nopg.training._reports import Update

__all__ = ["CSVLogger", "JSONLinesLogger", "TensorBoardLogger"]


class _Logger(ABC):
    """Writes every update once: a training that begins at update k drops what the log has from k on.

    After a kill the log may be ahead of the checkpoint.
    """

    _last: int | None = None

    def __call__(self, update: Update) -> None:
        """Write an update."""
        if self._last is None or update.number != self._last + 1:
            self._begin_at(update.number)
        self._write(update)
        self._last = update.number

    @abstractmethod
    def _begin_at(self, number: int) -> None:
        """Make ready for an update, and drop it and all after it if they are there."""

    @abstractmethod
    def _write(self, update: Update) -> None:
        """Write an update for good."""


class _LineLogger(_Logger):
    """A file with one line per update.

    Args:
        path: Of the file; it and its folder are made if they are not there. A file that is no such log is
            refused.
    """

    _HEADER = ""
    _BEGINS = ""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def _begin_at(self, number: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        if lines and not lines[-1].endswith(b"\n"):  # half a line, from a kill
            half = lines.pop()
            expected = (self._HEADER or self._BEGINS).encode()
            if not lines and not (half.startswith(expected) or expected.startswith(half)):
                raise self._foreign_line(half)
        header = self._HEADER.encode()
        if lines and header and lines[0] != header:
            raise self._foreign_line(lines[0])
        kept = len(header) if lines else 0
        for line in lines[1 if header else 0 :]:
            if self._checked_number(line) >= number:
                break
            kept += len(line)
        with self.path.open("ab") as stream:
            stream.truncate(kept)
            if kept == 0:
                stream.write(header)

    def _write(self, update: Update) -> None:
        with self.path.open("ab") as stream:  # closed, so with the system, at once
            stream.write(f"{self._line(update)}\n".encode())

    def _checked_number(self, line: bytes) -> int:
        try:
            return self._number(line)
        except (KeyError, RecursionError, TypeError, ValueError):
            raise self._foreign_line(line) from None

    def _foreign_line(self, line: bytes) -> ArgumentError:
        return ArgumentError(
            f"{self.path} is no log of a training: it has the line {line[:60].decode(errors='replace')!r}; "
            "give another path"
        )

    @abstractmethod
    def _line(self, update: Update) -> str:
        """Return an update as a line."""

    @abstractmethod
    def _number(self, line: bytes) -> int:
        """Return the number of the update that a line is of."""


class CSVLogger(_LineLogger):
    """A table with the columns number, expected_return, gradient_norm, unknown_mass, products and seconds.

    The numbers are those of `Update`, with all their digits. A training that goes on appends to its file;
    a new training starts a new file.

    Args:
        path: Of the file; it and its folder are made if they are not there. A file that is no such log is
            refused.

    Example:
        >>> import tempfile
        >>> log = CSVLogger(Path(tempfile.mkdtemp()) / "training.csv")  # optimize(…, callbacks=[log])
        >>> log(Update(number=1, planned=9, expected_return=-4.0, gradient_norm=0.5, unknown_mass=0.0,
        ...            products=12, seconds=0.25))
        >>> print(log.path.read_text())
        number,expected_return,gradient_norm,unknown_mass,products,seconds
        1,-4.0,0.5,0.0,12,0.25
        <BLANKLINE>
    """

    _HEADER = "number,expected_return,gradient_norm,unknown_mass,products,seconds\n"

    def _line(self, update: Update) -> str:
        return ",".join(str(value) for value in (update.number, *update.metrics.values()))

    def _number(self, line: bytes) -> int:
        if line.count(b",") != self._HEADER.count(","):
            raise ValueError("another number of columns")
        return int(line.split(b",", 1)[0])


class JSONLinesLogger(_LineLogger):
    """A file with one JSON object per update, of the same numbers as those of `CSVLogger`.

    What JSON has no number for, NaN and the infinities, is null.

    Args:
        path: Of the file; it and its folder are made if they are not there. A file that is no such log is
            refused.

    Example:
        >>> import tempfile
        >>> log = JSONLinesLogger(Path(tempfile.mkdtemp()) / "training.jsonl")
        >>> log(Update(number=1, planned=9, expected_return=-4.0, gradient_norm=0.5, unknown_mass=0.0,
        ...            products=12, seconds=0.25))
        >>> print(log.path.read_text().strip())
        {"number": 1, "expected_return": -4.0, "gradient_norm": 0.5, "unknown_mass": 0.0, ...}
    """

    _BEGINS = '{"number": '

    def _line(self, update: Update) -> str:
        metrics = {name: x if math.isfinite(x) else None for name, x in update.metrics.items()}
        return json.dumps({"number": update.number, **metrics}, allow_nan=False)

    def _number(self, line: bytes) -> int:
        return int(json.loads(line)["number"])


class TensorBoardLogger(_Logger):
    """A curve in TensorBoard for each metric of `Update`, over the number of the update.

    Needs the extra `tensorboard`. Where a training goes on, TensorBoard hides what it had from there on.

    Args:
        folder: Of the run, as in `tensorboard --logdir`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError("tensorboard", "tensorboard") from error
        self.folder, self._open = Path(folder), SummaryWriter
        self._writer: Any = None

    def close(self) -> None:
        """Close the file; the next update opens another."""
        if self._writer is not None:
            self._writer.close()
        self._writer = self._last = None

    def _begin_at(self, number: int) -> None:
        self.close()
        self._writer = self._open(str(self.folder), purge_step=number)

    def _write(self, update: Update) -> None:
        for name, value in update.metrics.items():
            self._writer.add_scalar(name, value, update.number)
        self._writer.flush()
        if update.number == update.planned:
            self.close()
