"""Rows in time: their order, episodes and ends, what a reader repaired, sensors that repeat one value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from nopg._typing import BoolArray, IntArray
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
# Shorter runs are left alone, whatever the column.
_SHORTEST = 10
# Log of how many runs of that length one would expect if values repeated independently of each other.
_SURPRISING = math.log(1e-3)
_GRAVE_SHARE = 0.05


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
        "A held value is not a measurement: log these columns more often, or leave them out",
        grave=False,
        minor=max(shares.values()) <= _MANY_REPAIRED,
    )


def stuck_finding(data: Transitions, episodes: Episodes) -> Finding | None:
    """Return the finding about measured states that repeat one value; None where no rows are connected.

    With p the share of rows that repeat the value before them outside the longest run, L repetitions in a row
    are surprising where (number of rows)·p^L < 10⁻³: a set-point may stay for long, a pressure may not.
    """
    topic, links = "stuck sensor", episodes.connected.numpy()
    if not links.any():
        return None
    states = data.states[episodes.order].numpy()
    moves = np.diff(states, axis=0) != 0  # (n−1, d_s)
    acted = (data.actions[episodes.order].diff(dim=0) != 0).any(dim=1).numpy()
    stuck, limits, rests, worst = list[str](), list[str](), dict[str, IntArray](), 0
    for k, name in enumerate(data.schema.measured):
        starts, lengths = _runs_of(links & ~moves[:, k])
        surprising = lengths >= _surprising_length(lengths, int(links.sum()))
        column = states[:, k]
        if name in data.schema.exogenous or not surprising.any() or bool((column == column[0]).all()):
            continue
        during = slice(starts[lengths.argmax()], starts[lengths.argmax()] + lengths.max())
        total, rows = int((lengths[surprising] + 1).sum()), episodes.order.numpy()
        run = rows[during.start : during.stop + 1]
        text = f"{name} reads exactly {column[during.start]:.6g} in rows {run[0]} to {run[-1]}"
        text += f" ({total} rows in all such runs)" if total > len(run) else ""
        if (np.delete(moves, k, axis=1)[during].any(axis=1) | acted[during]).mean() < 0.5:
            rests[name] = run
        elif column[during.start] in (column.min(), column.max()):
            limits.append(text)
        else:
            stuck.append(text)
            worst = max(worst, total)
    if stuck:
        share = worst / len(data)
        return graded(
            topic,
            f"{'; '.join(stuck)}, {share_of(share)} of the data, while other columns move",
            "Drop these rows and end the episode before them: they teach that the value never changes",
            grave=share >= _GRAVE_SHARE,
        )
    if limits:
        return warning(
            topic,
            f"{'; '.join(limits)}, the end of its range",
            "Keep them if a mechanical stop holds it there; drop them if the sensor is out of its range",
        )
    if rests:
        longest = max(rests.values(), key=len)
        return warning(
            topic,
            f"nothing moves in rows {longest[0]} to {longest[-1]} ({listed([*rests])})",
            f"Cut the {count_of(len(longest), 'row')} if the plant was off or the recording was frozen",
        )
    return ok(topic, "no state column repeats one value for long while others move")


def _runs_of(repeats: BoolArray) -> tuple[IntArray, IntArray]:
    """Return where each run of True begins and how long it is."""
    edges = np.diff(repeats.astype(np.int8), prepend=0, append=0)
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return starts, ends - starts


def _surprising_length(lengths: IntArray, num_links: int) -> float:
    """Return how many repetitions in a row are surprising, given all runs of a column."""
    longest = int(lengths.max(initial=0))
    left = num_links - longest
    if left < _SHORTEST:
        return math.inf  # too few rows to compare the run with
    p = max((int(lengths.sum()) - longest) / left, 1.0 / left)
    if p >= 1.0:
        return math.inf
    return max(_SHORTEST - 1, (_SURPRISING - math.log(num_links)) / math.log(p))
