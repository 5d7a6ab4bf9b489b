"""Sensors that repeat one value for suspiciously long while the plant moves."""

from __future__ import annotations

import math

import numpy as np

from nopg._typing import BoolArray, IntArray
from nopg.data import Transitions
from nopg.inspect._episodes import Episodes
from nopg.inspect._findings import Finding, graded, ok, warning
from nopg.inspect._wording import count_of, listed, share_of

# Shorter runs are left alone, whatever the column.
_SHORTEST = 10
# Log of how many runs of that length one would expect if values repeated independently of each other.
_SURPRISING = math.log(1e-3)
_GRAVE_SHARE = 0.05


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
