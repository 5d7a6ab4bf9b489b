"""Faults at every change of a folder: the process is killed, or the disk is full."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

Fault = Literal["kill", "full"]
FULL = 3
"""Exit code of a child that met a full disk."""

_CHANGES = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"}
_NEED_SPACE = {"open", "os.mkdir"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def fail_at(folder: Path, number: int, fault: Fault) -> None:
    """Let this process meet a fault just before a change of a folder, counted from 0, and from there on."""
    counted, place = 0, os.fsencode(folder)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal counted
        if event not in (_CHANGES if fault == "kill" else _NEED_SPACE):
            return
        path = arguments[0]
        if not isinstance(path, (str, bytes)) or not os.fsencode(path).startswith(place):
            return
        if event == "open" and not arguments[2] & _WRITING:
            return
        counted += 1
        if counted <= number:
            return
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, "no space left on this device, by the test")

    sys.addaudithook(hook)


def limit_files(folder: Path, size: int) -> None:
    """Let no file of this process grow beyond a size, wherever it is: a write that would stops there."""
    del folder
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def in_child(action: Callable[[], object], *, seconds: float | None = None) -> int:
    """Run in a child that is killed after some seconds; return its exit code, or minus the signal."""
    child = os.fork()
    if child == 0:
        try:
            action()
            os._exit(0)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EFBIG}:
                os._exit(FULL)
            traceback.print_exc()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)  # it is not waited for yet, so the number is still its own
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
