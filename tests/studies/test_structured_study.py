"""The study of trained PI controllers: the SIMC rule on a log."""

import math

import numpy as np
import pytest

import nopg
from studies.logs import LOG_PLANTS
from studies.records import Record
from studies.structured import result, simc

GAIN, CONSTANT, DELAY, INTERVAL = 2.5, 50.0, 3, 5.0


def test_a_first_order_plant_with_delay_is_found_and_tuned_by_the_rule() -> None:
    rng, steps, a = np.random.default_rng(0), 400, math.exp(-INTERVAL / CONSTANT)
    u = rng.uniform(0.0, 2.0, steps)
    y = np.zeros(steps + 1)
    for t in range(steps):
        y[t + 1] = a * y[t] + GAIN * (1 - a) * (u[t - DELAY] if t >= DELAY else 1.0) + 0.1
    states = np.stack([y, np.ones_like(y)], axis=1)
    data = nopg.Transitions.from_arrays(
        states[:-1],
        u,
        np.zeros(steps),
        states[1:],
        state_names=["level", "setpoint"],
        action_names=["inflow"],
        interval=INTERVAL,
    )
    found = simc(data, "level", "setpoint", LOG_PLANTS["level-tank"])
    # Kc = τ/(K·2θ) with θ = 15 s + half of 5 s, τ_I = min(τ, 8θ).
    assert float(found.gain) == pytest.approx(CONSTANT / (GAIN * 2 * 17.5))
    assert float(found.integral_steps) == pytest.approx(CONSTANT / INTERVAL)


def test_gains_of_the_rule_are_counted_as_the_same_and_not_as_better() -> None:
    def record(method: str, log: int, value: float, kp: float) -> Record:
        summary = {"interval": (-3.0, 0.0), "expected_return": -1.0} if method == "pi" else {}
        return Record(
            study="structured",
            benchmark="tank",
            method=method,
            seed=log,
            commit="",
            discounted=value,
            summary=summary,
            results={"gains": {"kp": kp, "ki": 0.1}},
        )

    rule = [record("simc-logged", log, -2.0, 4.0) for log in range(3)]
    trained = [record("pi", 0, -1.0, 2.0), record("pi", 1, -1.9, 4.01), record("pi", 2, -4.0, 1.0)]
    last = result([*rule, *trained], "tank").splitlines()[-1]
    assert last == (
        "pi, 3 logs: than simc-logged better on 1, the same on 1, worse on 1; "
        "the true return is inside 2 of 3 intervals"
    )
