"""A controller with derived columns as a torch module: a pure step of its memory, then its action."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch

from nopg._state_step import StateStep, has_memory
from nopg.deploy._graph import INPUT, OUTPUTS, ControllerGraph, Dtype
from nopg.training import TrainingResult

STATE, APPLIED, AGE = "state", "applied", "age"
NEXT_STATE, NEXT_AGE = "next_state", "next_age"
"""The names of the further tensors."""


def graph_of(result: TrainingResult, dtype: Dtype) -> ControllerGraph | StreamGraph:
    """Return the graph of a controller, with a memory where its columns need one."""
    kind = StreamGraph if has_memory(result.policy.schema) else ControllerGraph
    return kind(result, dtype).eval()


class StreamGraph(torch.nn.Module):
    """The exported graph of a controller whose states are computed from measurements; see `StateStep`.

    The memory is an input and an output. NaN in the last state means a start-up.

    Args:
        result: The controller and where its data are.
        dtype: Of all numbers.

    Attributes:
        controller: The graph of whole states.
        limits: The lowest and highest value of every action in the graph, in float64, both (d_a,).
        inputs: Number of columns of every input, by name.
        outputs: Names of the outputs.
    """

    hold: torch.Tensor
    sources: torch.Tensor
    is_lag: torch.Tensor
    first_constant: torch.Tensor
    constant: torch.Tensor
    initial: torch.Tensor
    by_state: torch.Tensor
    by_action: torch.Tensor
    by_next: torch.Tensor
    nothing: torch.Tensor
    one: torch.Tensor
    not_a_number: torch.Tensor

    outputs = (*OUTPUTS, NEXT_STATE, NEXT_AGE)

    def __init__(self, result: TrainingResult, dtype: Dtype) -> None:
        super().__init__()
        schema, kind = result.policy.schema, getattr(torch, dtype)
        self.controller = ControllerGraph(result, dtype)
        self.limits, step = self.controller.limits, StateStep.of(schema)
        derived, self.needs_actions = step.derived, step.needs_actions
        d_x, d_s, d_a = len(schema.measured), len(schema.states), len(schema.actions)
        self.inputs = {INPUT: d_x, STATE: d_s, APPLIED: d_a, AGE: d_x}

        self.register_buffer("sources", torch.tensor(np.maximum(step.lagged, 0)))
        self.register_buffer("is_lag", torch.tensor(step.lagged >= 0))
        buffers: dict[str, npt.ArrayLike] = {
            "hold": step.hold,
            "first_constant": derived.constants[0],
            "constant": derived.constants[1],
            "initial": derived.initial.T,
            "by_state": derived.by_state.T,
            "by_action": derived.by_action.T,
            "by_next": derived.by_next.T,
            "nothing": 0.0,
            "one": 1.0,
            "not_a_number": math.nan,
        }
        for name, values in buffers.items():
            self.register_buffer(name, torch.tensor(np.asarray(values), dtype=torch.float64).to(kind))

    def forward(
        self, observation: torch.Tensor, state: torch.Tensor, applied: torch.Tensor, age: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return actions and unknown share, then the next states (m, d_s) and ages (m, d_x).

        Args:
            observation: Measured columns, NaN where a value is missing, shape (m, d_x).
            state: The last next states; NaN at a start-up.
            applied: The actions (m, d_a) since then; NaN where they are not known.
            age: The last next ages; 0 at a start-up.
        """
        missing = observation.isnan()
        last = state[:, : self.inputs[INPUT]]
        held = torch.where(missing & (age < self.hold), last, observation)
        next_age = torch.where(missing, age + self.one, self.nothing)
        next_state = held
        if len(self.constant):
            next_state = torch.cat([held, self._derived(held, state, applied)], dim=1)
        return (*self.controller(next_state), next_state, next_age)

    def _derived(self, held: torch.Tensor, state: torch.Tensor, applied: torch.Tensor) -> torch.Tensor:
        whole, known = held.isfinite().all(dim=1)[:, None], state.isfinite().all(dim=1)[:, None]
        if self.needs_actions:
            known = known & applied.isfinite().all(dim=1)[:, None]
        first, last = self.first_constant + held @ self.initial, applied[:, self.sources]
        first = torch.where(self.is_lag & last.isfinite(), last, first)
        parts = state @ self.by_state + applied @ self.by_action + held @ self.by_next
        derived = torch.where(known, self.constant + parts, first)
        return torch.where(whole, derived, self.not_a_number)
