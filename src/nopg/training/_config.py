"""Settings of a training and of its checkpoints."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nopg._checks import is_number
from nopg.errors import ArgumentError
from nopg.training._reports import Callback


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """Settings of a training.

    Attributes:
        updates: Updates of the policy; by default 100, and with the paper's model at most 1 500 as in the
            supplement, fewer where Ĵ has not risen for a hundred.
        learning_rate: Adam's; 10⁻² in the supplement.
        seed: Random seed.
        start: Where the ascent begins. 'given' takes the policy as it is, a new one at random. 'auto' takes,
            for a new policy on the local model, the best of several: what was logged, least squares + LQR,
            best actions of the model, and random weights.
        callbacks: Called after every update, such as a `CSVLogger`; one that returns True ends the training.
        progress: Whether to show a progress line, if standard error is a terminal.
    """

    updates: int | None = None
    learning_rate: float = 1e-2
    seed: int = 0
    start: Literal["auto", "given"] = "auto"
    callbacks: Sequence[Callback] = ()
    progress: bool = True

    def __post_init__(self) -> None:
        counted = self.updates is None or (is_number(self.updates) and self.updates >= 1)
        if not counted or not (is_number(self.learning_rate) and self.learning_rate > 0):
            raise ArgumentError(
                f"updates = {self.updates!r}, learning_rate = {self.learning_rate!r}; both must be positive "
                "numbers"
            )
        if self.start not in {"auto", "given"}:
            raise ArgumentError(f"there is no start {self.start!r}; choose 'auto' or 'given'")


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """Where and how often a training leaves a checkpoint.

    Attributes:
        path: Of the file. A training that finds its own checkpoint there goes on from it. The first Ctrl-C
            ends the training after an update, with a checkpoint, by `TrainingInterrupted`; the second one at
            once.
        every: Updates between two writes.
        resume: Whether there must be a checkpoint already. Data and settings must be those it was begun with;
            where it computes, and how much memory it may take, may change.
    """

    path: str | os.PathLike[str]
    every: int = 20
    resume: bool = False

    def __post_init__(self) -> None:
        if not (is_number(self.every) and self.every >= 1):
            raise ArgumentError(f"every is {self.every!r}; give at least 1 update between checkpoints")
