"""Episodes and time: the order of rows, the number, length and ends of episodes, what a reader repaired."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nopg.data import Repairs, Transitions
from nopg.data._repairs import GAPS, IRREGULAR, repaired_values
from nopg.inspect._findings import Finding, error, graded, ok, warning
from nopg.inspect._wording import count_of, duration, listed, share_of

_END_NAMES = ("terminated", "truncated", "no flag")
# This number of episodes of exactly the same greatest length is no accident.
_SUSPICIOUS = 3
# Rows that continue each other this often are a recording, declared or not.
_A_RECORDING = 0.5
# Beyond this share of repaired values a column says more about the rule than about the plant.
_MANY_REPAIRED = 0.2
# Beyond this share of steps that are gaps, samples are missing rather than recordings being apart.
_MANY_GAPS, _FEW_GAPS = 0.01, 5


@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """Rows, episode after episode, each in the order of the data.

    Of the rows in this `order` (n,), row i+1 is `linked` to row i (n−1,) where both belong to one episode,
    all without episodes, and has `continued` it where it begins where that ended. Of each episode `lengths`
    and how the last row is flagged; `early` are rows that are terminated although their episode goes on.
    """

    order: torch.Tensor
    linked: torch.Tensor
    continued: torch.Tensor
    lengths: tuple[int, ...]
    ends: tuple[str, ...]
    early: tuple[int, ...]
    num_terminated: int

    @classmethod
    def of(cls, data: Transitions) -> Episodes:
        """Return the rows of a dataset in order, with their episodes."""
        numbers = torch.zeros(len(data)) if data.episodes is None else data.episodes
        order = torch.argsort(numbers, stable=True)
        linked = numbers[order[1:]] == numbers[order[:-1]]
        continued = linked & (data.next_states[order[:-1]] == data.states[order[1:]]).all(dim=1)
        terminated = int(data.terminated.sum())
        if data.episodes is None:
            return cls(order, linked, continued, (), (), (), terminated)
        last = torch.cat([~linked, torch.tensor([True])])  # (n,), ends of episodes
        kinds = torch.where(data.terminated, 0, torch.where(data.truncated, 1, 2))[order]
        lengths = tuple(np.diff(last.nonzero()[:, 0].numpy(), prepend=-1).tolist())
        ends = tuple(_END_NAMES[kind] for kind in kinds[last].tolist())
        return cls(
            order, linked, continued, lengths, ends, tuple(order[~last & (kinds == 0)].tolist()), terminated
        )

    @property
    def connected(self) -> torch.Tensor:
        """The links of episodes; without episodes, rows that continue each other."""
        return self.linked if self.lengths else self.continued


def episodes_text(episodes: Episodes, interval: float | None) -> str:
    """Return number, lengths and ends of the episodes; lengths in time where the interval is known."""
    if not episodes.lengths:
        return f"none declared; {count_of(episodes.num_terminated, 'row')} terminated"
    flags = episodes.ends
    ends = ", ".join(f"{flags.count(name)} {name}" for name in _END_NAMES if name in flags)
    both = sorted({min(episodes.lengths), max(episodes.lengths)})
    text = f"{len(episodes.lengths)} of {' to '.join(map(str, both))} rows"
    if interval is not None:
        text += f" ({' to '.join(dict.fromkeys(duration(one * interval) for one in both))})"
    return f"{text}; ends: {ends}"


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
    longest, pairs = max(episodes.lengths), zip(episodes.lengths, episodes.ends, strict=True)
    at_limit = sum(length == longest and end == "terminated" for length, end in pairs)
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
    topic, links = "order", int(episodes.linked.sum())
    share = int(episodes.continued.sum()) / max(links, 1)
    if not links or (not episodes.lengths and share < _A_RECORDING):
        return None
    if not episodes.lengths:
        return warning(
            topic,
            f"{share_of(share)} of the next states equal the following state, but no episodes are given",
            "Pass episodes=…, so that rows are not predicted from their neighbours in time",
        )
    if share == 1.0:
        return ok(topic, "within episodes every next state equals the following state")
    return warning(
        topic,
        f"within episodes {share_of(1 - share)} of the next states differ from the following state",
        "Sort the rows by time and end the episode where rows are missing; "
        "it does no harm if states were skipped or measured twice",
    )


def sampling_finding(repairs: Repairs, interval: float | None, num_rows: int) -> Finding | None:
    """Return the finding about the steps in time that a reader found, None where time is not known."""
    if interval is None:
        return None
    every, odd = f"a row every {duration(interval)}", repairs.counts.get(IRREGULAR, 0)
    advice = "resample='hold' (in nopg.toml: resample = \"hold\")"
    if odd:
        share = share_of(round(min(odd / num_rows, 1.0), 2))
        return warning(
            "sampling",
            f"{every}, but {share} of the steps differ by more than 10 %",
            f"Put the rows on a regular grid with {advice}: a longer step looks like a stronger action",
        )
    gaps = repairs.counts.get(GAPS, 0)
    many = gaps > max(_MANY_GAPS * num_rows, _FEW_GAPS)
    between = f"; {count_of(gaps, 'gap')} between runs of rows" if gaps else ""
    longer = f", but {share_of(gaps / num_rows)} of the steps are longer and end a run of rows"
    return graded(
        "sampling",
        every + (longer if many else between),
        f"Find out why samples are missing, or hold values over short gaps with {advice}",
        grave=False,
        minor=not many,
    )


def repaired_finding(repairs: Repairs, num_rows: int) -> Finding | None:
    """Return the finding about missing values that were held or interpolated, None where none were."""
    shares = {name: min(count / num_rows, 1.0) for name, count in repaired_values(repairs).items()}
    if not shares:
        return None
    return graded(
        "missing values",
        f"repaired: {listed([f'{name} ({share_of(share)})' for name, share in shares.items()])}",
        "A value that was held is no measurement: log these columns more often, or leave them out",
        grave=False,
        minor=max(shares.values()) <= _MANY_REPAIRED,
    )
