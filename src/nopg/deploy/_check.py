"""Comparison of an exported controller with the original, at states in and around the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from nopg._seeding import generator
from nopg.deploy._encoding import Numbers
from nopg.deploy._graph import INPUT, OUTPUTS, ControllerGraph, Dtype
from nopg.training import TrainingResult

__all__ = ["CHECKED_STATES", "Differences", "checked_states", "worst_differences"]

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
    """

    states: int
    action: float
    support: float
    unknown: float

    @property
    def worst(self) -> float:
        """The largest of the three; NaN if one is."""
        return float(np.max([self.action, self.support, self.unknown]))


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
    found = [np.concatenate(parts) for parts in zip(*_onnx_outputs(model, states, graph, dtype), strict=True)]
    wanted = _torch_outputs(result, states, graph)

    beta = result.condensed_support.prior_mass
    low, high = graph.limits
    spread = np.ptp(wanted[0], axis=0)
    span = np.where(np.isfinite(high - low), high - low, np.where(spread > 0, spread, 1.0))
    action, support, unknown = (np.abs(one - other) for one, other in zip(found, wanted, strict=True))
    return Differences(
        len(states),
        float((action / span).max()),
        float((support / (beta + wanted[1])).max()),
        float(unknown.max()),
    )


def _onnx_outputs(
    model: bytes, states: Numbers, graph: ControllerGraph, dtype: Dtype
) -> Iterator[list[npt.NDArray[np.floating]]]:
    """Yield actions, support and unknown share of one state, then of many at once."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    rows = max(1, _MOST_AT_ONCE // graph.places.numel())
    for part in np.split(states, [1, *range(1 + rows, len(states), rows)]):
        yield session.run(list(OUTPUTS), {INPUT: part.astype(dtype)})


def _torch_outputs(
    result: TrainingResult, states: Numbers, graph: ControllerGraph
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the clipped actions, support and unknown share of the result itself."""
    actions = np.clip(np.asarray(result.policy(states)), *graph.limits)
    support = result.condensed_support
    features = result.policy.schema.encode(torch.as_tensor(states))
    parts = features.split(max(1, _MOST_AT_ONCE // len(support.places)))
    mass, unknown = (
        torch.cat([evaluate(part) for part in parts]).numpy() for evaluate in (support.mass, support.unknown)
    )
    return actions, mass, unknown
