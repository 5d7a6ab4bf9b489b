"""Least squares + LQR where the velocity is not measured: lags stand for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from nopg._stream import ControllerStream
from nopg._typing import FloatArray
from nopg.baselines import Regulator, baseline
from nopg.data import Transitions
from nopg.evaluation import OfflineEvaluator

GAMMA, NOISE = 0.97, 0.05
A, B = np.array([[1.0, 0.1], [0.0, 0.98]]), np.array([0.005, 0.1])

Law = Callable[[FloatArray], FloatArray]
Runs = tuple[FloatArray, FloatArray, FloatArray]


def runs(
    law: Law,
    *,
    noise: float = NOISE,
    of_state: bool = False,
    seed: int = 0,
    episodes: int = 20,
    steps: int = 60,
) -> Runs:
    """Return states (T + 1, m, 2) of a mass, measured positions (T + 1, m, 1) and forces (T, m, 1)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (episodes, 1)) * [1.0, 0.0]
    states, positions, forces = [x], [x[:, :1] + noise * rng.normal(size=(episodes, 1))], []
    for _ in range(steps):
        forces.append(law(x if of_state else positions[-1]))
        x = x @ A.T + (forces[-1] + 0.1 * rng.normal(size=(episodes, 1))) * B
        states.append(x)
        positions.append(x[:, :1] + noise * rng.normal(size=(episodes, 1)))
    return np.array(states), np.array(positions), np.array(forces)


def explored(noise: float) -> Runs:
    rng = np.random.default_rng(1)
    return runs(lambda y: np.clip(rng.normal(size=y.shape) - 0.5 * y, -2.0, 2.0), noise=noise)


def log(seen: FloatArray, forces: FloatArray) -> Transitions:
    """Return the log of what was seen (T + 1, m, d)."""
    steps, episodes, _ = forces.shape
    s, after, u = (np.concatenate(part.swapaxes(0, 1)) for part in (seen[:-1], seen[1:], forces))
    reward = -np.square(s[:, 0]) - 0.05 * np.square(u[:, 0])
    numbers = np.repeat(np.arange(episodes), steps)
    return Transitions.from_arrays(
        s, u, reward, after, episodes=numbers, state_names=["y", "v"][: s.shape[1]], action_names=["u"]
    )


def true_return(law: Law, *, of_state: bool = False) -> float:
    states, _, forces = runs(law, of_state=of_state, seed=9, episodes=200, steps=150)
    rewards = -np.square(states[:-1, :, 0]) - 0.05 * np.square(forces[:, :, 0])
    return float((GAMMA ** np.arange(len(rewards)) @ rewards).mean())


def act(law: Regulator) -> Law:
    return lambda states: law(torch.as_tensor(states)).numpy()


def test_lags_stand_for_a_velocity_that_is_not_measured() -> None:
    states, positions, forces = explored(NOISE)
    known, blind = (baseline("lqr", log(seen, forces), GAMMA) for seen in (states, positions))
    found = [true_return(act(known), of_state=True), true_return(act(blind))]
    for count in (2, 8):
        data = log(positions, forces).derive(lags={"y": count, "u": count})
        stream = ControllerStream(act(baseline("lqr", data, GAMMA)), data.schema, batch=200)
        found.append(true_return(stream.act))
    # With the state, with the position alone, with more and more lags.
    assert found == pytest.approx([-2.1, -5.6, -5.4, -2.3], abs=0.06)


def test_a_regulator_on_lags_is_judged_as_any_other() -> None:
    _, positions, forces = explored(0.0)
    data = log(positions, forces).derive(lags={"y": 2, "u": 2})
    found = OfflineEvaluator(data, GAMMA).compare({}, baselines=["lqr"])
    assert found.best == "lqr"
    assert found.gains["lqr"].probability_better > 0.95
