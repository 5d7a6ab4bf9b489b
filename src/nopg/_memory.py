"""The memory of a process: what is free for it, and what it has taken."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_STATUS = Path("/proc/self/status")
# Limits of a container, version 2 and version 1 of control groups.
_GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def free_memory() -> int:
    """Return the free bytes for this process, on the machine and in its container."""
    free = [_machine_memory()]
    for limit, used in _GROUPS:
        try:
            free.append(int(limit.read_text()) - int(used.read_text()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return max(min(free), 0)


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


def gigabytes(count: float) -> str:
    """Return a number of bytes as text in gigabytes.

    Example:
        >>> gigabytes(2_345_000_000), gigabytes(12_000_000)
        ('2.3 GB', '0.01 GB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e9:.2f} GB"


def counted_bytes(file: Path, name: str) -> int | None:
    """Return what Linux counts under a name in a file such as /proc/meminfo; None if it has none."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)


def _machine_memory() -> int:
    free = counted_bytes(_MEMINFO, "MemAvailable")
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if free is None else free
