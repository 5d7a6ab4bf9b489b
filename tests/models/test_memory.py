"""Whether what is not in a row predicts its residual: what alarms, what does not, and by which constants."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.models import LocalModel
from nopg.models._residuals import Memory, Residuals, meanings, memory_of

EPISODES, STEPS = 20, 60


def log_of(states: FloatArray, actions: FloatArray) -> Transitions:
    """Return episodes of states (EPISODES, STEPS + 1) and actions (EPISODES, STEPS)."""
    s, after, a = (one.reshape(-1, 1) for one in (states[:, :-1], states[:, 1:], actions))
    return Transitions.from_arrays(
        s,
        a,
        -np.square(s[:, 0]),
        after,
        episodes=np.repeat(np.arange(EPISODES), STEPS),
        state_names=["level"],
        action_names=["valve"],
    )


def run(
    *, delay: int = 0, ageing: float = 0.0, slow: float = 0.0, sensor: float = 0.0, kalman: bool = False
) -> Transitions:
    """Return a log of s′ = .9 s + .5 a + d + w.

    Args:
        delay: Steps from an action to its effect.
        ageing: Share of the action's effect that is lost over an episode.
        slow: Standard deviation of the steps of d, which follows itself by .98; 0 for no d.
        sensor: Standard deviation of the noise of the measured state.
        kalman: Whether the state of the log is that of a Kalman filter of the measurements.
    """
    rng = np.random.default_rng(0)
    x, d, size = rng.normal(size=EPISODES), np.zeros(EPISODES), 0.1
    actions = rng.uniform(-1, 1, (EPISODES, STEPS))
    seen, estimate = [x + sensor * rng.normal(size=EPISODES)], x
    gain = _kalman_gain(size, sensor) if kalman else 1.0
    estimates = [estimate]
    for t in range(STEPS):
        applied = actions[:, t - delay] if t >= delay else 0.0
        force = 0.5 * (1.0 - ageing * t / STEPS) * applied
        x = 0.9 * x + force + d + size * rng.normal(size=EPISODES)
        d = 0.98 * d + slow * rng.normal(size=EPISODES)
        seen.append(x + sensor * rng.normal(size=EPISODES))
        expected = 0.9 * estimate + force
        estimate = expected + gain * (seen[-1] - expected)
        estimates.append(estimate)
    return log_of(np.stack(estimates if kalman else seen, axis=1), actions)


def _kalman_gain(disturbance: float, sensor: float) -> float:
    """Return the steady gain of the filter of x′ = .9 x + w, y = x + v."""
    ahead = disturbance**2
    for _ in range(100):
        ahead = 0.81 * ahead * sensor**2 / (ahead + sensor**2) + disturbance**2
    return ahead / (ahead + sensor**2)


def alarms(data: Transitions) -> dict[str, str]:
    """Return what is said of each source."""
    return {one.source: ", ".join(meanings([one])[0]) for one in LocalModel(data).memory if one.matters}


def test_a_delay_of_the_action_alarms_and_the_reason_names_lags() -> None:
    found = alarms(run(delay=1))
    assert "--set lags=auto" in found["action before"]
    assert found["action before"].startswith("level depends on more than the row")
    assert "time" not in found


def test_ageing_within_the_episode_alarms() -> None:
    found = alarms(run(ageing=1.0))
    assert set(found) == {"time"}
    assert "time since the episode began" in found["time"]


def test_a_slow_disturbance_that_is_not_logged_alarms() -> None:
    assert "not logged" in alarms(run(slow=0.03))["errors before"]


@pytest.mark.parametrize(
    "log", [{}, {"sensor": 0.1}, {"sensor": 0.3}, {"sensor": 0.3, "kalman": True}], ids=str
)
def test_neither_disturbances_nor_noisy_sensors_nor_their_filter_alarm(log: dict[str, float]) -> None:
    assert alarms(run(**log)) == {}  # type: ignore[arg-type]


def test_rows_that_do_not_follow_each_other_tell_nothing() -> None:
    data = run(delay=1)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    assert alarms(replace(data.take(order), episodes=None)) == {}


# The constants that decide


@pytest.mark.parametrize(
    ("chance", "share", "matters"),
    [(2.4e-3, 0.031, True), (2.6e-3, 0.5, False), (1e-9, 0.029, False), (0.0, 0.0301, True)],
)
def test_what_matters_is_neither_chance_nor_negligible(chance: float, share: float, *, matters: bool) -> None:
    assert Memory("level", "time", chance, share).matters is matters


def residuals_of(errors: FloatArray, actions: FloatArray, *, spread: float = 1.0) -> Residuals:
    """Return residuals (n,) of one run."""
    n = len(errors)
    states = np.random.default_rng(1).normal(size=(n, 1))
    log = Transitions.from_arrays(states, actions[:, None], np.zeros(n), states, episodes=np.zeros(n, int))
    linked = np.arange(n) > 0
    return Residuals(log, linked, errors[:, None], np.zeros(n), np.array([spread]))


def found_by(source: str, residuals: Residuals) -> Memory:
    [found] = [one for one in memory_of(residuals) if one.source == source]
    return found


def test_the_share_is_that_of_the_steps_which_the_action_before_predicts() -> None:
    rng = np.random.default_rng(0)
    a, noise = rng.normal(size=(2, 20_000))
    errors = noise.copy()
    errors[1:] += 0.2 * a[:-1]
    found = found_by("action before", residuals_of(errors, a, spread=4.0))
    # .2 of the deviation 1 of the action, in steps of 4; cutting at three deviations takes little.
    assert found.share == pytest.approx(0.2 / 4.0, rel=0.05)
    assert found.chance < 1e-100


def test_the_probability_of_chance_is_uniform_whatever_the_variance_of_each_row() -> None:
    rng, chances = np.random.default_rng(0), list[float]()
    for _ in range(300):
        a = rng.normal(size=200)
        errors = (1.0 + 2.0 * np.abs(a)) * rng.normal(size=200)
        chances.append(found_by("action before", residuals_of(errors, a)).chance)
    # Three standard deviations of a share of 300.
    for level in (0.1, 0.5):
        apart = 3.0 * math.sqrt(level * (1.0 - level) / 300)
        assert np.mean(np.array(chances) < level) == pytest.approx(level, abs=apart)


def test_a_single_row_decides_nothing() -> None:
    a, errors = np.random.default_rng(0).normal(size=(2, 400))
    a[100], errors[101] = 5.0, 1e4
    assert found_by("action before", residuals_of(errors, a)).chance > 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_opposite_errors_of_successive_rows_are_noise_of_sensors(seed: int) -> None:
    v, a = np.random.default_rng(seed).normal(size=(2, 1000))
    assert not any(one.matters for one in memory_of(residuals_of(np.diff(v), a[1:])))


@pytest.mark.parametrize(("rows", "compared"), [(29, False), (40, True)])
def test_ten_rows_are_needed_for_each_number(rows: int, *, compared: bool) -> None:
    a, errors = np.random.default_rng(0).normal(size=(2, rows))
    sources = {one.source for one in memory_of(residuals_of(errors, a))}
    assert ("time" in sources) is compared  # of 1, the state and the action, each by the time
