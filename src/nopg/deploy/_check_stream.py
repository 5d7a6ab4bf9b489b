"""Comparison of an exported controller that has a memory with the original: single steps, and streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from nopg._seeding import generator
from nopg._state_step import Memory, StateStep
from nopg.deploy._check import (
    MOST_AT_ONCE,
    Differences,
    OnnxSession,
    apart,
    checked_states,
    differences_of,
    spans,
    torch_outputs,
)
from nopg.deploy._encoding import Numbers
from nopg.deploy._graph import INPUT, Dtype
from nopg.deploy._stream_graph import AGE, APPLIED, STATE, StreamGraph
from nopg.training import TrainingResult

_PLANTS = 100
"""Number of streams; their length is the number of states checked over it."""
_MISSING, _STARTS, _UNKNOWN_ACTIONS = 0.1, 0.05, 0.05
"""Shares of the values that are missing, of the start-ups, and of the actions that are not known."""

Outputs = list[Numbers]


def worst_stream_differences(
    model: bytes, result: TrainingResult, graph: StreamGraph, dtype: Dtype
) -> Differences:
    """Return the largest differences between onnxruntime and torch in float64.

    Half of the steps start from memories that lead to states in and around the data. The others are streams,
    in which each side feeds its own memory back.
    """
    rows = max(1, MOST_AT_ONCE // graph.controller.support.size)
    session = OnnxSession(model, graph.outputs, dtype, rows)
    case = _Case(result, graph, dtype)
    single = case.single_steps(session)
    streams = case.streams(session)
    found, wanted = (
        [np.concatenate(parts) for parts in zip(*both, strict=True)]
        for both in zip(single, streams, strict=True)
    )
    of_states = apart(found[2], wanted[2]) / spans(wanted[2])
    memory = max(float(of_states.max()), float(apart(found[3], wanted[3]).max()))
    return replace(differences_of(found[:2], wanted[:2], graph.limits), memory=memory)


class _Case:
    """The measurements and memories at which both are compared."""

    def __init__(self, result: TrainingResult, graph: StreamGraph, dtype: Dtype) -> None:
        self.result, self.limits, self.dtype = result, graph.limits, dtype
        self.step = StateStep.of(result.policy.schema)
        self.targets, self.rng = checked_states(result, dtype), generator(0, "checked streams")
        self.width, self.actions = len(self.step.hold), len(graph.limits[0])

    def single_steps(self, session: OnnxSession) -> tuple[Outputs, Outputs]:
        """Return the outputs of onnxruntime and of torch after one step from many memories."""
        observed, applied = self._observed(self.targets), self._actions(len(self.targets))
        ages = (self._uniform(observed.shape) * (self.step.hold + 2)).astype(np.int64).astype(np.float64)
        memory = Memory(*self._before(applied), ages)
        memory.state[self._chosen(_STARTS)] = np.nan
        memory.applied[self._chosen(_UNKNOWN_ACTIONS)] = np.nan
        return self._both(session, observed, memory, memory)[:2]

    def streams(self, session: OnnxSession) -> tuple[Outputs, Outputs]:
        """Return the outputs of onnxruntime and of torch in streams, each with its own memory."""
        order = torch.randperm(len(self.targets), generator=self.rng).numpy()
        length = max(1, len(order) // _PLANTS)
        observed = self._observed(self.targets[order]).reshape(length, -1, self.width)
        ours = theirs = self.step.start(observed.shape[1:2])
        parts: list[tuple[Outputs, Outputs]] = []
        for measured in observed:
            found, wanted, theirs, ours = self._both(session, measured, theirs, ours)
            parts.append((found, wanted))
        found, wanted = (
            [np.concatenate(one) for one in zip(*side, strict=True)] for side in zip(*parts, strict=True)
        )
        return found, wanted

    def _both(
        self, session: OnnxSession, observed: Numbers, theirs: Memory, ours: Memory
    ) -> tuple[Outputs, Outputs, Memory, Memory]:
        """Return the outputs of both sides, and the memories that follow."""
        found = session({INPUT: observed, STATE: theirs.state, APPLIED: theirs.applied, AGE: theirs.age})
        state, age, _ = self.step(ours, observed)
        wanted = [*torch_outputs(self.result, state, self.limits), state, age]
        applied = np.where(np.isnan(wanted[0]), self._actions(len(observed)), wanted[0]).astype(self.dtype)
        last = applied.astype(np.float64)
        return (
            found,
            wanted,
            Memory(found[2], last, found[3]),
            Memory(state, last, age),
        )

    def _before(self, applied: Numbers) -> tuple[Numbers, Numbers]:
        """Return states and actions that lead to the targets, near the targets themselves."""
        derived = self.step.derived
        both = np.concatenate([self.targets, applied], axis=1)
        effect = np.concatenate([derived.by_state, derived.by_action], axis=1)
        measured, wanted = self.targets[:, : self.width], self.targets[:, self.width :]
        missed = wanted - derived.constants[1] - measured @ derived.by_next.T - both @ effect.T
        both = (both + missed @ np.linalg.pinv(effect).T).astype(self.dtype).astype(np.float64)
        return both[:, : self.targets.shape[1]], both[:, self.targets.shape[1] :]

    def _observed(self, states: Numbers) -> Numbers:
        measured = states[:, : self.width]
        return np.where(self._uniform(measured.shape) < _MISSING / self.width, np.nan, measured)

    def _actions(self, count: int) -> Numbers:
        """Return actions within their limits, or around 0 where there are none, exact in the dtype."""
        low, high = (
            np.where(np.isfinite(end), end, sign) for end, sign in zip(self.limits, (-1.0, 1.0), strict=True)
        )
        drawn = low + (high - low) * self._uniform((count, self.actions))
        return drawn.astype(self.dtype).astype(np.float64)

    def _chosen(self, share: float) -> npt.NDArray[np.bool_]:
        return self._uniform((len(self.targets),)) < share

    def _uniform(self, shape: tuple[int, ...]) -> Numbers:
        drawn: Numbers = torch.rand(shape, dtype=torch.float64, generator=self.rng).numpy()
        return drawn
