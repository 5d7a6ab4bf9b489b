"""Faults at random in a long run of a guard: limits, rates, returns and the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest

from deploy.test_guard import level_at, robot
from nopg.deploy import GuardedController, GuardRules
from nopg.deploy._guard import Source

Numbers = npt.NDArray[np.float64]
DWELL, RATE = 7, 0.05
FAULTS = ("none", "nan", "freeze", "jump", "delay", "jitter", "edge", "fallback", "applied", "clock")


@dataclass(slots=True)
class FaultyFallback:
    """A fallback that raises, or gives no finite action, where it is told to."""

    fails: bool = False
    calls: int = 0

    def __call__(self, observation: Numbers) -> list[float]:
        self.calls += 1
        if not self.fails:
            return [3.0 * np.sin(self.calls)]
        if self.calls % 2:
            raise ValueError("no action")
        return [np.nan]


@dataclass(frozen=True, slots=True)
class Step:
    """The arguments of a step."""

    measured: Numbers
    applied: list[float] | None
    time: float
    now: float
    fallback_fails: bool


def faulty_steps(count: int, seed: int) -> Iterator[Step]:
    """Yield steps with one kind of fault at a time, for 1 to 40 steps each, most of them without."""
    rng, time, edge = np.random.default_rng(seed), 0.0, level_at(0.5)
    kind, left, measured = "none", 0, np.zeros(2)
    for _ in range(count):
        if left == 0:
            kind = "none" if rng.random() < 0.5 else str(rng.choice(FAULTS))
            left = int(rng.integers(1, 41))
            bad = float(rng.choice([np.nan, np.inf, -np.inf]))
            far = float(rng.choice([-5.0, 1e300, 2.0]))
        left -= 1
        time += 0.1 + (rng.uniform(-0.099, 0.3) if kind == "jitter" else 0.0)
        if kind != "freeze":
            measured = np.array([0.3, 0.0]) + rng.normal(0.0, 0.05, 2)
        noise = 1e-9 * measured[1]
        level = {"nan": bad, "jump": far, "edge": edge + noise, "fallback": 2.0}.get(kind)
        given = measured if level is None else np.array([level, measured[1]])
        stamp = time - (5.0 if kind == "clock" and rng.random() < 0.5 else 0.0)
        now = time + (rng.uniform(0.0, 2.0) if kind == "delay" else 0.01)
        applied = [np.nan] if kind == "applied" else None
        yield Step(given, applied, stamp, now, kind == "fallback" and rng.random() < 0.7)


def run(count: int, rules: GuardRules, *, max_change: float | None) -> GuardedController:
    """Run a guard through faults, and check every step."""
    fallback = FaultyFallback()
    guard = GuardedController(robot(), fallback=fallback, rules=replace(rules, max_change=max_change))
    last, source, since, handovers = np.array([0.5]), "start", 0, 0
    guard.reset(applied=last)
    for k, one in enumerate(faulty_steps(count, seed=3)):
        fallback.fails = one.fallback_fails
        decision = guard.act(one.measured, one.applied, one.time, one.now)
        assert 0.0 <= decision.action[0] <= 1.0  # false for NaN
        if max_change is not None:
            assert abs(decision.action[0] - last[0]) <= max_change * (1 + 1e-12)
        last = decision.action
        if decision.source != source:
            entry = guard.log[-1]
            assert (entry.step, entry.before, entry.after) == (k, source, decision.source)
            if decision.source == "learned" and source != "start":
                assert k - since >= DWELL
            since = k if source in {"start", "learned"} else since
            handovers += 1
        source = decision.source
    assert len(guard.log) == min(handovers, rules.log_size)
    assert sum(guard.counts.by_source.values()) == count
    return guard


RULES = GuardRules(dwell=DWELL, deadline=1.0, frozen={"level": 5}, log_size=20)


def check_that_all_happened(guard: GuardedController, least: int) -> None:
    sources: tuple[Source, ...] = ("learned", "fallback", "last resort")
    assert min(guard.counts.by_source[one] for one in sources) > least
    reasons = {part for reason in guard.counts.by_reason for part in reason.split("; ")}
    assert reasons == {
        "missing: level", "frozen: level", "outside the data", "waiting to return", "later than the deadline",
        "the clock went back", "the action applied is not finite", "the fallback raised ValueError",
        "the fallback gave no finite action",
    }  # fmt: skip


@pytest.mark.parametrize(
    "count", [10_000, *(pytest.param(many, marks=pytest.mark.slow) for many in (100_000, 1_000_000))]
)
def test_so_many_steps_with_faults_keep_limits_rate_and_dwell_time(count: int) -> None:
    check_that_all_happened(run(count, RULES, max_change=RATE), least=count // 100)


def test_with_a_transfer_and_a_short_log_too() -> None:
    rules = GuardRules(
        dwell=DWELL, deadline=1.0, frozen={"level": 5}, transfer=4, last_resort=[0.2], log_size=50
    )
    run(5_000, rules, max_change=None)
