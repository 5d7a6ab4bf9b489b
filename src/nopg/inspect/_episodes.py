"""Episodes: the order of their rows, their number, length and ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nopg.data import Transitions
from nopg.inspect._findings import Finding, error, ok, warning
from nopg.inspect._wording import count_of, duration, listed, share_of

END_NAMES = ("terminated", "truncated", "no flag")

# This number of episodes of exactly the same greatest length is no accident.
_SUSPICIOUS = 3
# Rows that continue each other this often are a recording, declared or not.
_A_RECORDING = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Rows, episode after episode, each in the order of the data.

    Attributes:
        order: Row numbers, shape (n,).
        linked: Whether a row and the next belong to one episode; without episodes all do, shape (n−1,).
        continued: Whether, moreover, the next state of the one equals the state of the other, shape (n−1,).
        has_episodes: Whether the data have episodes.
    """

    order: torch.Tensor
    linked: torch.Tensor
    continued: torch.Tensor
    has_episodes: bool

    @classmethod
    def of(cls, data: Transitions) -> Recording:
        """Return the rows of a dataset in order."""
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
        """The links of episodes; without episodes, rows that continue each other."""
        return self.linked if self.has_episodes else self.continued


@dataclass(frozen=True, slots=True)
class Episodes:
    """The episodes of a dataset.

    Attributes:
        lengths: Rows of each episode; empty where rows are unconnected.
        ends: How the last row of each is flagged: one of `END_NAMES`.
        num_terminated: Rows flagged as terminated.
        num_truncated: Rows flagged as truncated.
        early: Row numbers flagged as terminated although their episode goes on.
        num_links: Pairs of rows that follow one another; without episodes, all neighbouring rows.
        num_continued: How many of those begin exactly where the one before arrived.
        interval: Time between two rows in seconds, where it is known.
    """

    lengths: tuple[int, ...]
    ends: tuple[str, ...]
    num_terminated: int
    num_truncated: int
    early: tuple[int, ...]
    num_links: int
    num_continued: int
    interval: float | None = None

    @classmethod
    def of(cls, data: Transitions, recording: Recording) -> Episodes:
        """Count the episodes of a dataset and their ends."""
        lengths: tuple[int, ...] = ()
        ends: tuple[str, ...] = ()
        early: list[int] = []
        if data.episodes is not None:
            places = torch.cat([~recording.linked, torch.tensor([True])])  # (n,), ends of episodes
            last = recording.order[places]
            lengths = tuple(np.diff(places.nonzero()[:, 0].numpy(), prepend=-1).tolist())
            kinds = torch.where(data.terminated[last], 0, torch.where(data.truncated[last], 1, 2))
            ends = tuple(END_NAMES[kind] for kind in kinds.tolist())
            early = recording.order[~places & data.terminated[recording.order]].tolist()
        return cls(
            lengths=lengths,
            ends=ends,
            num_terminated=int(data.terminated.sum()),
            num_truncated=int(data.truncated.sum()),
            early=tuple(early),
            num_links=int(recording.linked.sum()),
            num_continued=int(recording.continued.sum()),
            interval=data.schema.interval,
        )

    def __str__(self) -> str:
        if not self.lengths:
            return f"none declared; {self.num_terminated} rows terminated"
        ends = ", ".join(f"{self.ends.count(name)} {name}" for name in END_NAMES if name in self.ends)
        shortest, longest = min(self.lengths), max(self.lengths)
        rows = _range(f"{shortest}", f"{longest}")
        if self.interval is not None:
            rows += f" rows ({_range(*(duration(one * self.interval) for one in (shortest, longest)))})"
            return f"{len(self.lengths)} of {rows}; ends: {ends}"
        return f"{len(self.lengths)} of {rows} rows; ends: {ends}"


def _range(low: str, high: str) -> str:
    return high if low == high else f"{low} to {high}"


def ends_finding(episodes: Episodes) -> Finding:
    """Return the finding about the flags at the ends of the episodes."""
    topic, count = "ends", len(episodes.lengths)
    if not count:
        return ok(topic, f"rows are unconnected; {episodes.num_terminated} of them are terminated")
    if episodes.early:
        return error(
            topic,
            f"{count_of(len(episodes.early), 'row')} ({listed(episodes.early)}) are terminated, "
            "but their episodes go on",
            "Give the rows after an end another episode number, or clear the flag: after it the value is 0",
        )
    longest = max(episodes.lengths)
    at_limit = sum(
        length == longest and end == "terminated"
        for length, end in zip(episodes.lengths, episodes.ends, strict=True)
    )
    if at_limit >= _SUSPICIOUS and 2 * at_limit >= count and longest > 1:
        return warning(
            topic,
            f"{at_limit} of {count} episodes are terminated after exactly {longest} rows, the most there are",
            "If that is a time limit, flag it as truncated: after terminated the value is 0",
        )
    if open_ends := episodes.ends.count("no flag"):
        return warning(
            topic,
            f"{open_ends} of {count_of(count, 'episode')} end without a flag; they count as truncated",
            "Flag true ends as terminated, ends of the recording as truncated",
        )
    return ok(
        topic, "the episode ends with a flag" if count == 1 else f"all {count} episodes end with a flag"
    )


def order_finding(episodes: Episodes) -> Finding | None:
    """Return the finding about the order of rows within episodes; None where no row follows another."""
    topic, links = "order", episodes.num_links
    if not links:
        return None
    share = episodes.num_continued / links
    if not episodes.lengths:
        if share < _A_RECORDING:
            return None
        return warning(
            topic,
            f"{share_of(share)} of the rows begin where the row before arrived, but no episodes are given",
            "Pass episodes=…, so that rows are not predicted from their neighbours in time",
        )
    if share == 1.0:
        return ok(topic, "within episodes every row begins where the row before arrived")
    return warning(
        topic,
        f"within episodes {share_of(1 - share)} of the rows do not begin where the row before arrived",
        "Sort the rows by time and end the episode where rows are missing; "
        "it does no harm if states were skipped or measured twice",
    )
