"""A controller in one run of an environment, with the memory that it may need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch

from nopg._stream import ControllerStream
from nopg._typing import ArrayLike

ControlLaw = Callable[[torch.Tensor], ArrayLike]
"""Maps raw states (m, d_s) to actions (m, d_a)."""


@runtime_checkable
class WithMemory(Protocol):
    """A controller that may need a memory of measurements and actions, such as a trained one."""

    @property
    def has_memory(self) -> bool:
        """Whether it does."""

    def stream(self, *, batch: int | None = None) -> ControllerStream:
        """Return it with a memory of its own."""


class ClosedLoop:
    """The actions of a controller in m episodes side by side, from their start on.

    A controller with derived columns or held values gets the observed columns that it measures, found by
    name where the environment has all of them, and the actions that the plant really received.

    Args:
        controller: A function of raw states, or a controller with a memory.
        state_names: The columns of the observations.
        episodes: m.
    """

    def __init__(self, controller: ControlLaw, state_names: Sequence[str], episodes: int) -> None:
        self._law, self._stream = controller, _stream(controller, episodes)
        self._columns: list[int] | slice = slice(None)
        if self._stream is not None:
            measured = self._stream.states.columns.measured
            if set(measured) <= set(state_names):
                self._columns = [list(state_names).index(name) for name in measured]

    def __call__(self, observations: torch.Tensor, applied: torch.Tensor | None) -> ArrayLike:
        """Return actions (m, d_a) at observations (m, d_s).

        Args:
            observations: The present states of the plants.
            applied: The actions that the plants received in the last step; None in the first.
        """
        if self._stream is None:
            return self._law(observations)
        last = None if applied is None else applied.numpy()
        return self._stream.act(observations[:, self._columns].numpy(), last)


def _stream(controller: object, episodes: int) -> ControllerStream | None:
    if isinstance(controller, WithMemory) and controller.has_memory:
        return controller.stream(batch=episodes)
    return None
