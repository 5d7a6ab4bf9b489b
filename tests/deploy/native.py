"""Exported controllers as Python objects, and what the guard of numpy does at the same steps."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from deploy.stream_cases import derived_log
from nopg.bundles import SavedController
from nopg.deploy import GuardedController, GuardRules, RuntimeController
from nopg.deploy._c99 import to_c
from nopg.deploy._control_program import FALLBACK, LAST_RESORT, LEARNED, NO_ACTION
from nopg.errors import NoActionError
from nopg.models import LocalModel
from nopg.policies import MLPPolicy

Numbers = npt.NDArray[np.float64]

STRICT = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
NEEDS_COMPILER = "no C compiler: gcc and clang are missing"

_ACCESS = """
#include "control.h"
#include <stddef.h>
size_t memory_size(void);
double unknown_of(const control_memory *memory);
size_t memory_size(void) { return sizeof(control_memory); }
double unknown_of(const control_memory *memory) { return memory->unknown; }
void step_many(int count, const double *measured, int *status, double *actions, double *reported);
void step_many(int count, const double *measured, int *status, double *actions, double *reported)
{
    control_memory memory;
    for (int i = 0; i < count; i++) {
        control_init(&memory);
        status[i] = control_step(&memory, &measured[i * CONTROL_MEASURED], NULL, NULL, 0.0, 0.0,
            &actions[i * CONTROL_ACTIONS]);
        reported[i] = memory.unknown;
    }
}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step did; the action is NaN where there was none."""

    status: int
    action: Numbers
    unknown: float


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of a step."""

    measured: Numbers
    applied: Numbers | None = None
    fallback: Numbers | None = None
    time: float | None = None
    reset: bool = False
    now: float | None = None


class Stepper(Protocol):
    """A controller that was exported."""

    def step(self, inputs: Inputs) -> Outcome:
        """Return what a step does."""


class InC:
    """A guarded controller, exported to C and compiled into a folder."""

    def __init__(self, guard: GuardedController, folder: Path, compiler: str = COMPILERS[0]) -> None:
        source = to_c(guard, folder / "control.c").source
        (folder / "access.c").write_text(_ACCESS)
        built = folder / "control.so"
        command = [compiler, *STRICT, "-shared", "-fPIC", str(source), str(folder / "access.c"), "-lm"]
        subprocess.run([*command, "-o", str(built)], check=True, capture_output=True, text=True)
        self.library = ctypes.CDLL(str(built))
        self.library.memory_size.restype = ctypes.c_size_t
        self.library.unknown_of.restype = ctypes.c_double
        self.memory = ctypes.create_string_buffer(self.library.memory_size())
        self.count = len(guard.controller.columns.actions)

    def step(self, inputs: Inputs) -> Outcome:
        if inputs.reset:
            self.library.control_init(self.memory)
        action = np.full(self.count, np.nan)
        times = [ctypes.c_double(np.nan if one is None else one) for one in (inputs.time, inputs.now)]
        parts = [_pointer(one) for one in (inputs.measured, inputs.applied, inputs.fallback)]
        status = self.library.control_step(self.memory, *parts, *times, _pointer(action))
        return Outcome(status, action, self.library.unknown_of(self.memory))

    def step_many(self, measured: Numbers) -> tuple[npt.NDArray[np.int32], Numbers, Numbers]:
        """Return status, actions and unknown share at each of many first steps."""
        rows = np.ascontiguousarray(measured)
        status, actions = np.zeros(len(rows), dtype=np.int32), np.full((len(rows), self.count), np.nan)
        reported = np.zeros(len(rows))
        parts = [one.ctypes.data_as(ctypes.c_void_p) for one in (rows, status, actions, reported)]
        self.library.step_many(len(rows), *parts)
        return status, actions, reported


def _pointer(values: Numbers | None) -> ctypes.c_void_p | None:
    return None if values is None else values.ctypes.data_as(ctypes.c_void_p)


class InNumpy(GuardedController):
    """A guard of numpy with a fallback that is given at every step."""

    def __init__(self, guard: GuardedController) -> None:
        self.given: Numbers | None = None
        self.unknown = 0.0
        super().__init__(
            guard.controller,
            fallback=self._given,
            most_unknown=guard.most_unknown,
            max_change=guard.max_change,
            rules=guard.rules,
        )

    def _given(self, observation: Numbers) -> Numbers:
        return np.full(self._count, np.nan) if self.given is None else self.given

    def _learned(self, state: Numbers, *, allowed: bool) -> tuple[float, Numbers | None]:
        found = super()._learned(state, allowed=allowed)
        self.unknown = found[0]
        return found

    def step(self, inputs: Inputs) -> Outcome:
        self.given = inputs.fallback
        if inputs.reset:
            self.reset()
        try:
            decision = self.act(inputs.measured, inputs.applied, inputs.time, inputs.now)
        except NoActionError:
            return Outcome(NO_ACTION, np.full(self._count, np.nan), self.unknown)
        status = {"learned": LEARNED, "fallback": FALLBACK, "last resort": LAST_RESORT}[decision.source]
        return Outcome(status, decision.action, decision.unknown)


@cache
def with_memory(units: int = 50) -> RuntimeController:
    """Return an untrained network with the columns of a log with derived columns, and where its data are."""
    data = derived_log()
    rng = torch.Generator().manual_seed(7)
    network = MLPPolicy.from_data(data.features, data.actions, rng=rng, hidden=units)
    parameters = {name: value.numpy() for name, value in network.state_dict().items()}
    support = LocalModel(data).support
    return RuntimeController(SavedController(data.schema, {"kind": "mlp"}, parameters, support, "here"))


def faulty_inputs(
    measured: Numbers, times: Numbers, resets: npt.NDArray[np.bool_], overridden: Numbers, *, seed: int = 0
) -> list[Inputs]:
    """Return the steps of a stream with faults, with a fallback at seven of ten of them."""
    rng = np.random.default_rng(seed)
    found = []
    for row, time, reset, other in zip(measured, times, resets, overridden, strict=True):
        applied = None if np.isnan(other).any() else other
        fallback = None if rng.random() < 0.3 else rng.uniform(-1.5, 1.5, len(other))
        found.append(Inputs(row, applied, fallback, float(time), bool(reset)))
    return found


ALL_RULES = GuardRules(
    return_unknown=0.4,
    dwell=4,
    transfer=3,
    deadline=0.9,
    frozen={"level": 3, "angle": 5},
    last_resort=(0.2, -0.1),
)
"""Every rule at work, for sampling intervals of about 0.5 s."""


def with_sensor_faults(steps: Sequence[Inputs], *, seed: int = 0) -> list[Inputs]:
    """Return steps in which values freeze, angles are absurd, clocks fail and measurements come late."""
    rng = np.random.default_rng(seed)
    found = list[Inputs]()
    frozen = 0
    for one in steps:
        fault, measured, time = rng.random(), one.measured, one.time
        assert time is not None
        frozen = frozen - 1 if frozen else 7 * int(fault < 0.02)
        if frozen and found:
            measured = found[-1].measured
        elif fault > 0.99:
            measured = np.array([measured[0], rng.choice([2e15, -2e15, np.inf])])
        if 0.03 < fault < 0.04 and found:
            time = found[-1].time if fault < 0.035 else time - 5.0
        now = (time or 0.0) + (2.0 if 0.05 < fault < 0.06 else 0.1)
        found.append(replace(one, measured=measured, time=time, now=now if fault < 0.5 else None))
    return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two controllers at the same steps.

    Attributes:
        same_decisions: Whether status and presence of an action agree at every step.
        counts: Number of steps by status.
        worst: The largest difference of actions and unknown shares.
    """

    same_decisions: bool
    counts: list[int]
    worst: float


def compared(exported: Stepper, reference: Stepper, steps: Sequence[Inputs]) -> Comparison:
    """Return how far an export is from the guard of numpy."""
    return difference([exported.step(one) for one in steps], [reference.step(one) for one in steps])


def difference(found: Sequence[Outcome], wanted: Sequence[Outcome]) -> Comparison:
    """Return how far steps are from others."""
    pairs = list(zip(found, wanted, strict=True))
    same = all(
        one.status == other.status and np.array_equal(np.isnan(one.action), np.isnan(other.action))
        for one, other in pairs
    )
    worst = [
        max(
            float(np.nan_to_num(np.abs(one.action - other.action)).max()),
            abs(one.unknown - other.unknown),
        )
        for one, other in pairs
    ]
    counts = np.bincount([other.status for _, other in pairs], minlength=4)
    return Comparison(same, counts.tolist(), max(worst))
