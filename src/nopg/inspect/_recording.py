"""The order in which rows were recorded, and which of them follow one another."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nopg.data import Transitions

__all__ = ["Recording"]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Rows, episode after episode, each in the order of the data.

    Attributes:
        order: Row numbers, shape (n,).
        linked: True where a place and the next belong to one episode; without episodes everywhere,
            shape (n−1,).
        continued: True where, moreover, the next state of the one is exactly the state of the other,
            shape (n−1,).
        has_episodes: Whether the data say which rows belong together.
    """

    order: torch.Tensor
    linked: torch.Tensor
    continued: torch.Tensor
    has_episodes: bool

    @classmethod
    def of(cls, data: Transitions) -> Recording:
        """Put the rows of a dataset in order."""
        if data.episodes is None:
            order = torch.arange(len(data))
            linked = torch.ones(len(data) - 1, dtype=torch.bool)
        else:
            order = torch.argsort(data.episodes, stable=True)
            linked = data.episodes[order[1:]] == data.episodes[order[:-1]]
        arrived, departed = data.next_states[order[:-1]], data.states[order[1:]]
        return cls(order, linked, linked & (arrived == departed).all(dim=1), data.episodes is not None)

    @property
    def connected(self) -> torch.Tensor:
        """Links to trust: those of episodes, or, where there are none, rows that continue each other."""
        return self.linked if self.has_episodes else self.continued
