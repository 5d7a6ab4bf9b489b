"""Comparison of an exported controller with the original, at states in and around the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from nopg._seeding import generator
from nopg.deploy._encoding import Numbers
from nopg.deploy._graph import INPUT, ControllerGraph, Dtype
from nopg.training import TrainingResult

CHECKED_STATES = 10_000
MOST_AT_ONCE = 1 << 22
"""Largest number of differences in memory."""
# Half of the states are normal around the data (in margins), half uniform in a box (in extents of the data).
_MARGINS, _BOX = 2.0, 3.0


@dataclass(frozen=True, slots=True)
class Differences:
    """The largest differences between two controllers over many states.

    Attributes:
        states: Number of states.
        action: In units of the span of each action: that of its limits, else of the actions of torch.
        unknown: Of the unknown share.
        memory: Of the states, in units of the span of each column, and of the ages; None without a memory.
    """

    states: int
    action: float
    unknown: float
    memory: float | None = None

    @property
    def worst(self) -> float:
        """The largest of them; NaN if one is."""
        return float(np.max([self.action, self.unknown, self.memory or 0.0]))

    def to_dict(self) -> dict[str, float]:
        """Return plain values, without a memory that there is none of."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def checked_states(result: TrainingResult, dtype: Dtype, count: int = CHECKED_STATES) -> Numbers:
    """Return raw states (count, d_s), half near the data and half around them, exact in the dtype."""
    d_s, support, rng = len(result.policy.schema.states), result.support, generator(0, "checked states")
    low, high, margin = (torch.as_tensor(one[:d_s]) for one in (support.low, support.high, support.margin))
    known = result.start_support.states
    centers = [torch.as_tensor(one.centers[:, :d_s]) for one in support.charts]
    seen = torch.cat([*centers, known])
    low = torch.where(low.isfinite(), low, seen.amin(dim=0))
    high = torch.where(high.isfinite(), high, seen.amax(dim=0))
    extent = torch.maximum(high - low, margin)
    near, far = count // 2, count - count // 2
    inside = low + (high - low) * torch.rand(near, d_s, dtype=torch.float64, generator=rng)
    chosen = seen[torch.randint(len(seen), (near,), generator=rng)] if centers else inside
    normal = torch.randn(near, d_s, dtype=torch.float64, generator=rng)
    uniform = torch.rand(far, d_s, dtype=torch.float64, generator=rng) - 0.5
    states = torch.cat([chosen + _MARGINS * margin * normal, (low + high) / 2 + _BOX * extent * uniform])
    return states.to(getattr(torch, dtype)).double().numpy()


def worst_differences(
    model: bytes, result: TrainingResult, graph: ControllerGraph, dtype: Dtype
) -> Differences:
    """Return the largest differences between onnxruntime and torch in float64."""
    states = checked_states(result, dtype)
    session = OnnxSession(model, graph.outputs, dtype, max(1, MOST_AT_ONCE // graph.support.size))
    found = session({INPUT: states})
    return differences_of(found, torch_outputs(result, states, graph.limits), graph.limits)


def differences_of(
    found: Sequence[Numbers],
    wanted: Sequence[Numbers],
    limits: tuple[Numbers, Numbers],
) -> Differences:
    """Return the largest differences of actions and unknown share; NaN in one alone is infinite."""
    low, high = limits
    span = np.where(np.isfinite(high - low), high - low, spans(wanted[0]))
    action, unknown = (apart(one, other) for one, other in zip(found, wanted, strict=True))
    return Differences(len(wanted[0]), float((action / span).max()), float(unknown.max()))


def apart(found: Numbers, wanted: Numbers) -> Numbers:
    """Return the absolute differences: 0 where both are NaN, infinite where one of them is."""
    missing = np.isnan(wanted)
    distance = np.where(missing, 0.0, np.abs(found - np.where(missing, 0.0, wanted)))
    return np.where(np.isnan(found) != missing, np.inf, distance)


def spans(values: Numbers) -> Numbers:
    """Return the extent of each column (d,) without NaN; 1 where it has none."""
    finite = np.where(np.isnan(values), np.nanmean(values, axis=0), values)
    extent = np.ptp(finite, axis=0)
    return np.where(extent > 0, extent, 1.0)


class OnnxSession:
    """A model in onnxruntime that runs once for one row, then for many at once.

    Args:
        model: The bytes of the file.
        outputs: Names of the outputs.
        dtype: Of its tensors.
        rows: Largest number of rows at once.
    """

    def __init__(self, model: bytes, outputs: Sequence[str], dtype: Dtype, rows: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self._session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._outputs, self._dtype, self._rows = list(outputs), dtype, rows

    def __call__(self, inputs: Mapping[str, Numbers]) -> list[Numbers]:
        """Return the outputs for inputs (m, …) by name, in float64."""
        count = len(next(iter(inputs.values())))
        cuts = [0, 1, *range(1 + self._rows, count, self._rows), count]
        parts = []
        for begin, end in pairwise(cuts):
            rows = {name: values[begin:end].astype(self._dtype) for name, values in inputs.items()}
            parts.append(self._session.run(self._outputs, rows))
        return [np.concatenate(one).astype(np.float64) for one in zip(*parts, strict=True)]


def torch_outputs(
    result: TrainingResult, states: Numbers, limits: tuple[Numbers, Numbers]
) -> tuple[Numbers, Numbers]:
    """Return the clipped actions and the unknown share of the result itself.

    A state that is not finite has the action NaN and unknown share 1.
    """
    finite = np.asarray(np.isfinite(states).all(axis=1))
    known = np.where(finite[:, None], states, 0.0)
    actions = np.clip(np.asarray(result.policy(known)), *limits)
    finite &= np.isfinite(actions).all(axis=1)
    unknown = result.support.unknown(np.concatenate([known, actions], axis=1))
    return np.where(finite[:, None], actions, np.nan), np.where(finite, unknown, 1.0)
