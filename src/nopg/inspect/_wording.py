"""Lists, counts, shares, probabilities, times and long names in words."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 4
_NEARLY = 1e-9


def listed(items: Sequence[object]) -> str:
    """Return the items in one line, at most the first four."""
    shown = ", ".join(str(item) for item in items[:_SHOWN])
    return shown + (f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "")


def count_of(number: int, noun: str) -> str:
    """Return the number with its noun."""
    return f"{number:,}".replace(",", " ") + f" {noun}" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """Return a time in a readable unit.

    Example:
        >>> duration(0.002), duration(90), duration(7200)
        ('2 ms', '1.5 min', '2 h')
    """
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def share_of(share: float) -> str:
    """Return a share in percent; only exact 0 and 1 read as 0 % and 100 %.

    Example:
        >>> share_of(0.5), share_of(0.00001), share_of(0.99999), share_of(0.0)
        ('50 %', '<0.1 %', '>99.9 %', '0 %')
    """
    if 0 < share < 0.001:
        return "<0.1 %"
    if 0.999 < share < 1:
        return ">99.9 %"
    return f"{100 * share:.3g} %"


def chance(share: float) -> str:
    """Return a probability in percent; an estimate never reads as 0 or 1."""
    return share_of(min(max(share, _NEARLY), 1 - _NEARLY))


def shortened(name: str, width: int) -> str:
    """Return a name cut in the middle to a width."""
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return name[: width - 1 - tail] + "…" + name[len(name) - tail :]
