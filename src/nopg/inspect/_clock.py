"""The sampling interval, its jitter and its gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nopg._typing import ArrayLike, FloatArray
from nopg.data.io._clock import LONGEST_STEP
from nopg.errors import DataError
from nopg.inspect._episodes import Recording
from nopg.inspect._findings import Finding, graded, look, ok, stop
from nopg.inspect._wording import count_of, duration, listed, share_of

# A transition that spans more intervals than this is wrong about the plant.
_JUMP = 10.0
_MANY_GAPS = 0.01
# Spread of the intervals, 5th to 95th percentile, relative to their median.
_UNEVEN = 0.2
_POINTS = 400


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """When rows were recorded, by the time stamps inside episodes.

    Attributes:
        interval: Median time between two rows in seconds.
        jitter: From the 5th to the 95th percentile of the intervals that are no gaps, over the median.
        gaps: Row before each gap, in the order of the recording.
        gap_seconds: Length of each gap.
        bridged: Rows before those gaps which a transition spans as if it were one step.
        backward: Rows after which the clock went back.
        repeated: Rows whose time stamp the next row repeats.
        trace: Places along the recording and the longest interval near each, for drawing, shape (2, m).
    """

    interval: float
    jitter: float
    gaps: tuple[int, ...]
    gap_seconds: tuple[float, ...]
    bridged: tuple[int, ...]
    backward: tuple[int, ...]
    repeated: tuple[int, ...]
    trace: FloatArray

    @classmethod
    def of(cls, seconds: torch.Tensor, recording: Recording) -> Clock | None:
        """Return the clock; None where no row follows another or time does not advance."""
        order = recording.order
        steps = seconds[order].diff()[recording.linked].numpy()
        before = order[:-1][recording.linked].numpy()
        forward = steps[steps > 0]
        if not len(forward):
            return None

        interval = float(np.median(forward))
        gap = steps > LONGEST_STEP * interval
        low, high = np.quantile(forward[forward <= LONGEST_STEP * interval], [0.05, 0.95])
        spans = recording.continued[recording.linked].numpy()
        return cls(
            interval=interval,
            jitter=float(high - low) / interval,
            gaps=tuple(before[gap].tolist()),
            gap_seconds=tuple(steps[gap].tolist()),
            bridged=tuple(before[gap & spans].tolist()),
            backward=tuple(before[steps < 0].tolist()),
            repeated=tuple(before[steps == 0].tolist()),
            trace=_trace(steps),
        )

    def __str__(self) -> str:
        text = f"every {duration(self.interval)}, jitter {share_of(self.jitter)}, "
        text += count_of(len(self.gaps), "gap")
        if self.gaps:
            text += f", the longest {duration(max(self.gap_seconds))}"
        if self.backward:
            text += f"; the clock goes back {count_of(len(self.backward), 'time')}"
        return text


def as_seconds(time: ArrayLike, rows: int) -> torch.Tensor:
    """Return time stamps (n,) in seconds, or raise a `DataError`."""
    values = time.detach().numpy() if isinstance(time, torch.Tensor) else np.asarray(time)
    if values.dtype.kind not in "fiu":
        raise DataError(
            f"time has dtype {values.dtype}; give seconds as numbers, "
            "e.g. (t - t[0]) / numpy.timedelta64(1, 's')"
        )
    if values.shape != (rows,):
        raise DataError(f"time has shape {values.shape}; give one number per row, shape ({rows},)")
    if wrong := int((~np.isfinite(values)).sum()):
        raise DataError(f"time holds {count_of(wrong, 'NaN or infinite value')}; drop those rows first")
    return torch.as_tensor(values.astype(np.float64))


def clock_finding(clock: Clock) -> Finding:
    """Return the finding about the sampling."""
    topic, every = "sampling", duration(clock.interval)
    if clock.backward:
        return stop(
            topic,
            f"the clock goes back after {count_of(len(clock.backward), 'row')} ({listed(clock.backward)})",
            "Sort the rows by time; if the clock was set, start a new episode there",
        )
    if clock.bridged:
        return _bridged(clock)
    if clock.repeated:
        return look(
            topic,
            f"{count_of(len(clock.repeated), 'row')} ({listed(clock.repeated)}) "
            "share the time stamp of the next row",
            "Keep one row per time stamp, or record time more finely",
        )
    if clock.jitter > _UNEVEN:
        return look(
            topic,
            f"the interval of {every} varies by {share_of(clock.jitter)} (5th to 95th percentile)",
            "Resample to an even interval: a longer step looks like a stronger action",
        )
    gaps = f"; {count_of(len(clock.gaps), 'gap')}, none of them inside a transition" if clock.gaps else ""
    return ok(topic, f"a row every {every}, evenly{gaps}")


def _bridged(clock: Clock) -> Finding:
    spans = dict(zip(clock.gaps, clock.gap_seconds, strict=True))
    longest = max(clock.bridged, key=lambda row: spans[row])
    where = "" if len(clock.bridged) == 1 else f", the longest after row {longest}"
    what = (
        f"{count_of(len(clock.bridged), 'transition')} (row {listed(clock.bridged)}) "
        f"{'spans' if len(clock.bridged) == 1 else 'span'} a gap{where}: "
        f"{duration(spans[longest])} instead of {duration(clock.interval)}"
    )
    advice = (
        "End the episode at that row (drop its transition); if the clock was set, correct the time stamps"
    )
    many = len(clock.bridged) > _MANY_GAPS * clock.trace[0, -1]
    return graded("sampling", what, advice, grave=many or spans[longest] > _JUMP * clock.interval)


def _trace(steps: FloatArray) -> FloatArray:
    """Return places and the longest interval near each, at most `_POINTS` of them."""
    starts = np.unique(np.linspace(0, len(steps), _POINTS, endpoint=False).astype(np.int64))
    longest = np.maximum.reduceat(steps, starts)
    places = np.append(starts[1:], len(steps))
    return np.stack([places.astype(np.float64), longest])
