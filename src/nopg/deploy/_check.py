"""Comparison of an exported controller with the original, at states in and around the data."""

from __future__ import annotations

import math
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

__all__ = [
    "CHECKED_STATES",
    "Differences",
    "OnnxSession",
    "apart",
    "checked_states",
    "differences_of",
    "spans",
    "torch_outputs",
    "worst_differences",
]

CHECKED_STATES = 10_000
# Half of the states are normal around the data (in widths), half uniform in a box (in extents of the data).
_WIDTHS, _BOX = 3.0, 3.0
# Largest number of differences in memory.
_MOST_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True)
class Differences:
    """The largest differences between two controllers over many states.

    Attributes:
        states: Number of states.
        action: In units of the span of each action: that of its limits, else of the actions of torch.
        support: In units of β + S.
        unknown: Of the unknown share.
        memory: Of the states, in units of the span of each column, and of the ages; None without a memory.
    """

    states: int
    action: float
    support: float
    unknown: float
    memory: float | None = None

    @property
    def worst(self) -> float:
        """The largest of them; NaN if one is."""
        return float(np.max([self.action, self.support, self.unknown, self.memory or 0.0]))

    def to_dict(self) -> dict[str, float]:
        """Return plain values, without a memory that there is none of."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def checked_states(result: TrainingResult, dtype: Dtype, count: int = CHECKED_STATES) -> Numbers:
    """Return raw states (count, d_s), half near the data and half around them, exact in the dtype."""
    schema, support = result.policy.schema, result.condensed_support
    rng = generator(0, "checked states")
    # A width along a chord of the circle is nearly one along the angle, in radians.
    radians = [schema.angles.get(name, 2 * math.pi) / (2 * math.pi) for name in schema.states]
    first = [schema.feature_columns.index(k) for k in range(len(radians))]
    widths = support.width[first] * torch.tensor(radians, dtype=torch.float64)
    seen = schema.decode(support.places)
    low, high = seen.amin(dim=0), seen.amax(dim=0)
    extent = (high - low).clamp(min=widths)

    near, far = count // 2, count - count // 2
    chosen = seen[torch.randint(len(seen), (near,), generator=rng)]
    normal = torch.randn(near, len(radians), dtype=torch.float64, generator=rng)
    uniform = torch.rand(far, len(radians), dtype=torch.float64, generator=rng) - 0.5
    states = torch.cat([chosen + _WIDTHS * widths * normal, (low + high) / 2 + _BOX * extent * uniform])
    return states.to(getattr(torch, dtype)).double().numpy()


def worst_differences(
    model: bytes, result: TrainingResult, graph: ControllerGraph, dtype: Dtype
) -> Differences:
    """Return the largest differences between onnxruntime and torch in float64."""
    states = checked_states(result, dtype)
    session = OnnxSession(model, graph.outputs, dtype, max(1, _MOST_AT_ONCE // graph.places.numel()))
    found = session({INPUT: states})
    return differences_of(found, torch_outputs(result, states, graph.limits), result, graph.limits)


def differences_of(
    found: Sequence[Numbers],
    wanted: Sequence[Numbers],
    result: TrainingResult,
    limits: tuple[Numbers, Numbers],
) -> Differences:
    """Return the largest differences of actions, support and unknown share; NaN in one alone is infinite."""
    beta, (low, high) = result.condensed_support.prior_mass, limits
    span = np.where(np.isfinite(high - low), high - low, spans(wanted[0]))
    action, support, unknown = (apart(one, other) for one, other in zip(found, wanted, strict=True))
    return Differences(
        len(wanted[0]),
        float((action / span).max()),
        float((support / (beta + wanted[1])).max()),
        float(unknown.max()),
    )


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
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the clipped actions, support and unknown share of the result itself.

    A state that is not finite has the action NaN, support 0 and unknown share 1.
    """
    finite = np.asarray(np.isfinite(states).all(axis=1))
    known = np.where(finite[:, None], states, 0.0)
    actions = np.clip(np.asarray(result.policy(known)), *limits)
    support = result.condensed_support
    features = result.policy.schema.encode(torch.as_tensor(known))
    parts = features.split(max(1, _MOST_AT_ONCE // len(support.places)))
    mass, unknown = (
        torch.cat([evaluate(part) for part in parts]).numpy() for evaluate in (support.mass, support.unknown)
    )
    actions = np.where(finite[:, None], actions, np.nan)
    return actions, np.where(finite, mass, 0.0), np.where(finite, unknown, 1.0)
