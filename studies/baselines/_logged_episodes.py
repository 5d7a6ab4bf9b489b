"""Episodes with the density of the behaviour, for importance sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from nopg.data import Transitions
from nopg.data._episodes import contiguous_runs
from nopg.errors import DataError

__all__ = ["LoggedEpisodes"]


@dataclass(frozen=True, slots=True, eq=False)
class LoggedEpisodes:
    """Whole episodes, in order, each row with the density of its action under the behaviour.

    Build it with `from_transitions`, which refuses data that importance sampling cannot use.

    Attributes:
        data: The transitions, episode after episode.
        episode: The number of the episode of each row, from 0, shape (n,).
        time: The number of the step of each row in its episode, from 0, shape (n,).
        log_behavior: log π_β(a | s) of each row, shape (n,).
    """

    data: Transitions
    episode: torch.Tensor
    time: torch.Tensor
    log_behavior: torch.Tensor

    @classmethod
    def from_transitions(
        cls, data: Transitions, log_density: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None
    ) -> LoggedEpisodes:
        """Bind the density of the behaviour to episodes.

        Args:
            data: Transitions in unbroken episodes.
            log_density: log π_β(a | s), shape (n,), of raw states (n, d_s) and actions (n, d_a); None where
                nobody knows it, as of a person.
        """
        if data.episodes is None:
            raise DataError(
                "importance sampling weighs whole trajectories, and these transitions belong to none; "
                "give episodes, or use NOPG, which needs no trajectories"
            )
        runs = contiguous_runs(data)
        if len(runs) != len(set(data.episodes.tolist())):
            raise DataError(
                f"the {len(set(data.episodes.tolist()))} episodes fall into {len(runs)} unbroken stretches: "
                "a next state must be the state of the next row, and rows must be in order of time; "
                "importance sampling cannot bridge a gap"
            )
        if log_density is None:
            raise DataError(
                "importance sampling divides by the density of the behaviour, and nobody gave it (a person's "
                "is unknown); give log_density, or use NOPG, which does not need it"
            )
        log_behavior = log_density(data.states, data.actions)
        if log_behavior.shape != (len(data),):
            raise DataError(
                f"log_density returned shape {tuple(log_behavior.shape)}; give ({len(data)},), one number "
                "per row"
            )
        if impossible := int((~log_behavior.isfinite()).sum()):
            raise DataError(
                f"{impossible} of {len(data)} logged actions have density 0, infinite or NaN under the "
                "behaviour; a deterministic behaviour has no density, or this is not the one that acted"
            )
        lengths = torch.tensor([run.stop - run.start for run in runs])
        episode = torch.repeat_interleave(torch.arange(len(runs)), lengths)
        first = torch.tensor([run.start for run in runs])
        return cls(data, episode, torch.arange(len(data)) - first[episode], log_behavior)

    @property
    def num_episodes(self) -> int:
        """N."""
        return int(self.episode[-1]) + 1

    @property
    def horizon(self) -> int:
        """T, the length of the longest episode."""
        return int(self.time.max()) + 1

    def grid(self, values: torch.Tensor, fill: float = 0.0) -> torch.Tensor:
        """Return one number per row (n,) as one per episode and time (N, T), `fill` where there is none."""
        table = values.new_full((self.num_episodes, self.horizon), fill)
        return table.index_put((self.episode, self.time), values)
