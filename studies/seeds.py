"""Plants and seeds of logs on a command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TypeVar

__all__ = ["asked_for", "plants_and_seeds", "seeds_of", "study_parser"]

P = TypeVar("P")


def seeds_of(text: str) -> tuple[int, ...]:
    """Return the seeds of a text such as `0-9` or `0,2,5-7`."""
    spans = [part.partition("-") for part in text.split(",")]
    return tuple(seed for first, _, last in spans for seed in range(int(first), int(last or first) + 1))


def plants_and_seeds(
    module: str, text: str | None, plants: Mapping[str, P], *, logs: str
) -> Iterator[tuple[P, int]]:
    """Yield the plants and seeds that the command line of a study asks for, log by log.

    Args:
        module: Name of the study's module.
        text: What the study is about.
        plants: By name; all by default.
        logs: Seeds by default, such as `0-4`.
    """
    yield from asked_for(study_parser(module, text, plants, logs=logs).parse_args(), plants)


def study_parser(
    module: str, text: str | None, plants: Mapping[str, P], *, logs: str
) -> argparse.ArgumentParser:
    """Return the command line of `plants_and_seeds`, for a study with more options."""
    parser = argparse.ArgumentParser(
        prog=f"python -m studies.{module}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--plant", choices=tuple(plants), help="all by default")
    parser.add_argument("--logs", default=logs, help=f"such as {logs}")
    return parser


def asked_for(given: argparse.Namespace, plants: Mapping[str, P]) -> Iterator[tuple[P, int]]:
    """Yield the plants and seeds of parsed arguments, log by log."""
    chosen = [plants[given.plant]] if given.plant else list(plants.values())
    for seed in seeds_of(given.logs):
        for plant in chosen:
            yield plant, seed
