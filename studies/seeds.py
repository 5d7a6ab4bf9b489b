"""Seeds of logs on a command line."""

from __future__ import annotations

__all__ = ["seeds_of"]


def seeds_of(text: str) -> tuple[int, ...]:
    """Return the seeds of a text such as `0-9` or `0,2,5-7`."""
    spans = [part.partition("-") for part in text.split(",")]
    return tuple(seed for first, _, last in spans for seed in range(int(first), int(last or first) + 1))
