"""Exported controllers as Python objects, and what the guard of numpy does at the same steps."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from deploy.stream_cases import derived_log, faulty_stream
from nopg.bundles import SavedController
from nopg.data import Transitions
from nopg.deploy import GuardedController, GuardRules, RuntimeController, to_c
from nopg.errors import NoActionError
from nopg.models import LocalModel
from nopg.policies import MLPPolicy, Policy
from nopg.policies._description import describe_policy

Numbers = npt.NDArray[np.float64]

LEARNED, FALLBACK, LAST_RESORT, NO_ACTION = range(4)
STRICT = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
SANITIZED = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
NEEDS_COMPILER = "no C compiler: gcc and clang are missing"

_MAIN = """
#include "control.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = CONTROL_MEASURED, A = CONTROL_ACTIONS };

int main(void)
{
    control_memory *memory = malloc(sizeof *memory);
    double row[5 + M + A + A], found[2 + A];
    if (memory == NULL) {
        return 1;
    }
    control_init(memory);
    while (fread(row, sizeof row, 1, stdin) == 1) {
        const double *applied = (row[1] > 0.0) ? &row[5 + M] : NULL;
        const double *fallback = (row[2] > 0.0) ? &row[5 + M + A] : NULL;
        if (row[0] > 0.0) {
            control_init(memory);
        }
        for (int i = 0; i < A; i++) {
            found[2 + i] = NAN;
        }
        found[0] = control_step(memory, &row[5], applied, fallback, row[3], row[4], &found[2]);
        found[1] = memory->unknown;
        (void)fwrite(found, sizeof found, 1, stdout);
    }
    free(memory);
    return 0;
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


class InC:
    """A guarded controller, exported to C and compiled into a folder with sanitizers."""

    def __init__(self, guard: GuardedController, folder: Path, compiler: str = COMPILERS[0]) -> None:
        source, main, self.built = to_c(guard, folder / "control.c"), folder / "main.c", folder / "control"
        main.write_text(_MAIN)
        command = [compiler, *STRICT, *SANITIZED, str(source), str(main), "-lm", "-o", str(self.built)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.actions = len(guard.low)

    def run(self, steps: Sequence[Inputs]) -> list[Outcome]:
        """Return what the steps do, one after the other."""
        none = np.full(self.actions, np.nan)
        rows = [
            np.concatenate(
                [
                    [one.reset, one.applied is not None, one.fallback is not None],
                    [np.nan if time is None else time for time in (one.time, one.now)],
                    one.measured,
                    none if one.applied is None else one.applied,
                    none if one.fallback is None else one.fallback,
                ]
            )
            for one in steps
        ]
        given = np.array(rows, dtype=np.float64).tobytes()
        done = subprocess.run([str(self.built)], input=given, check=False, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()[:3000]
        found = np.frombuffer(done.stdout).reshape(len(steps), -1)
        return [Outcome(int(row[0]), row[2:], float(row[1])) for row in found]

    def step_many(self, measured: Numbers) -> tuple[npt.NDArray[np.int32], Numbers, Numbers]:
        """Return status, actions and unknown share at each of many first steps."""
        found = self.run([Inputs(row, time=0.0, reset=True) for row in measured])
        status = np.array([one.status for one in found], dtype=np.int32)
        actions, unknown = np.array([one.action for one in found]), np.array([one.unknown for one in found])
        return status, actions, unknown


class InNumpy(GuardedController):
    """A guard of numpy with a fallback that is given at every step."""

    def __init__(self, guard: GuardedController) -> None:
        self.given: Numbers | None = None
        self.unknown = 0.0
        self.reasons = set[str]()
        super().__init__(guard.controller, fallback=self._given, rules=guard.rules)

    def _given(self, observation: Numbers) -> Numbers:
        return np.full(len(self.low), np.nan) if self.given is None else self.given

    def _learned(self, state: Numbers, fault: str | None) -> tuple[float, Numbers | None, str]:
        found = super()._learned(state, fault)
        self.unknown = found[0]
        return found

    def run(self, steps: Sequence[Inputs]) -> list[Outcome]:
        """Return what the steps do, one after the other."""
        return [self.step(one) for one in steps]

    def step(self, inputs: Inputs) -> Outcome:
        self.given = inputs.fallback
        if inputs.reset:
            self.reset()
        try:
            decision = self.act(inputs.measured, inputs.applied, inputs.time, inputs.now)
        except NoActionError as error:
            self.reasons.add(str(error))
            return Outcome(NO_ACTION, np.full(len(self.low), np.nan), self.unknown)
        self.reasons.add(decision.reason)
        status = {"learned": LEARNED, "fallback": FALLBACK, "last resort": LAST_RESORT}[decision.source]
        return Outcome(status, decision.action, decision.unknown)


def runtime_of(policy: Policy, data: Transitions) -> RuntimeController:
    """Return a policy with the columns of a log, and where its data are."""
    parameters = {name: value.numpy() for name, value in policy.state_dict().items()}
    support = LocalModel(data).support
    return RuntimeController(SavedController(data.schema, describe_policy(policy), parameters, support))


@cache
def with_memory() -> RuntimeController:
    """Return an untrained network on the columns of a log with derived columns."""
    data, rng = derived_log(), torch.Generator().manual_seed(7)
    return runtime_of(MLPPolicy.from_data(data.features, data.actions, rng=rng), data)


ALL_RULES = GuardRules(
    most_unknown=0.6,
    return_unknown=0.4,
    max_change=0.4,
    dwell=4,
    transfer=3,
    deadline=0.9,
    frozen={"level": 3, "angle": 5},
    last_resort=(0.2, -0.1),
)
"""Every rule at work, for sampling intervals of about 0.5 s."""


def faulty_inputs(count: int, *, times: Numbers | None = None) -> list[Inputs]:
    """Return steps with missing, frozen and absurd values, gaps, failing clocks, resets and fallbacks."""
    rng, feed = np.random.default_rng(0), faulty_stream(count, seed=6)
    found = list[Inputs]()
    frozen = 0
    for k, given in enumerate(feed.measured):
        measured, fault, time = given, rng.random(), float((feed.times if times is None else times)[k])
        frozen = frozen - 1 if frozen else 7 * int(fault < 0.02)
        if frozen and found:
            measured = found[-1].measured
        elif fault > 0.99:
            measured = np.array([measured[0], rng.choice([3e13, -5e14, 2e15, -1e300, np.inf])])
        if 0.03 < fault < 0.04 and found:
            time = found[-1].time or 0.0 if fault < 0.035 else time - 5.0
        applied = feed.overridden[k] if fault > 0.002 else np.array([np.nan, 0.1])
        found.append(
            Inputs(
                measured,
                None if np.isnan(applied).all() else applied,
                None if rng.random() < 0.3 else rng.uniform(-1.5, 1.5, 2) * (np.inf if fault > 0.98 else 1.0),
                None if 0.06 < fault < 0.062 else time,
                bool(feed.resets[k]),
                time + (2.0 if 0.05 < fault < 0.06 else 0.1) if fault < 0.5 else None,
            )
        )
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


def difference(found: Sequence[Outcome], wanted: Sequence[Outcome]) -> Comparison:
    """Return how far steps are from others."""
    status = [[one.status for one in side] for side in (found, wanted)]
    ours, theirs = (np.array([[*one.action, one.unknown] for one in side]) for side in (found, wanted))
    same = status[0] == status[1] and np.array_equal(np.isnan(ours), np.isnan(theirs))
    counts = np.bincount(status[1], minlength=4).tolist()
    return Comparison(same, counts, float(np.nanmax(np.abs(ours - theirs))))
