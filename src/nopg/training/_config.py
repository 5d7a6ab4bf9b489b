"""Settings of a training."""

from __future__ import annotations

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
