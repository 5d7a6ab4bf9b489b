"""Ctrl-C that waits for the end of an update."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Self

__all__ = ["Interruption"]

_log = logging.getLogger(__name__)


class Interruption:
    """Inside a `with` the first Ctrl-C is only noted, the second one acts as it would have before.

    Where signals cannot be handled, outside the main thread, and where Ctrl-C was to be ignored, nothing
    changes.

    Args:
        enabled: Whether to do this at all.

    Attributes:
        asked: Whether Ctrl-C was pressed.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self.asked = False
        self._before = signal.getsignal(signal.SIGINT)
        in_main = threading.current_thread() is threading.main_thread()
        self._handles = enabled and in_main and self._before not in (signal.SIG_IGN, None)

    def __enter__(self) -> Self:
        if self._handles:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._before)
        _log.warning(
            "the training stops after this update and leaves a checkpoint; Ctrl-C again stops it now"
        )
