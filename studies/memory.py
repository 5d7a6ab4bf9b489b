"""The memory that a process has taken."""

from __future__ import annotations

import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_memory(*, children: bool = False) -> int:
    """Return the most bytes that this process has held, or the largest of its children that have ended."""
    # Of a process, Linux counts as used what its parent held as well; this is the program alone.
    if not children and (held := counted_bytes(_STATUS, "VmHWM")) is not None:
        return held
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def counted_bytes(file: Path, name: str) -> int | None:
    """Return what Linux counts under a name in a file such as /proc/meminfo; None if it has none."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)
