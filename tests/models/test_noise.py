"""Disturbances of the plant and noise of its sensors, told apart by the residuals of steps."""

import numpy as np
import pytest
import torch

from nopg.data import Transitions
from nopg.models import LocalModel
from nopg.models._noise import filtered_states
from nopg.models._rollout import rollout

GAINS = torch.tensor([0.4, 0.6], dtype=torch.float64)


def run(
    *,
    sensor: float = 0.0,
    disturbance: float = 0.0,
    stops: float = 100.0,
    feedback: bool = False,
    episodes: int = 10,
) -> Transitions:
    """Return runs of a mass, x′ = x + .3 v and v′ = v + .5 a, pushed at random or by a dithered feedback."""
    rng = torch.Generator().manual_seed(1)
    x, v = torch.zeros(2, episodes, dtype=torch.float64)
    seen, actions = [], []
    for _ in range(61):
        noise = sensor * torch.randn(episodes, 2, generator=rng, dtype=torch.float64)
        seen.append(torch.stack([x, v], dim=1) + noise)
        a = 2 * torch.rand(episodes, generator=rng, dtype=torch.float64) - 1
        a = 0.5 * a - seen[-1] @ GAINS if feedback else a
        actions.append(a[:, None])
        push = disturbance * torch.randn(episodes, generator=rng, dtype=torch.float64)
        x, v = x + 0.3 * v, v + 0.5 * a + push
        hit = x.abs() > stops
        x, v = x.clamp(-stops, stops), torch.where(hit, 0.0, v)
    s, a = torch.stack(seen), torch.stack(actions)
    n = 60 * episodes
    flat = [part.transpose(0, 1).reshape(n, -1) for part in (s[:-1], a[:-1], s[1:])]
    reward = -flat[0].square().sum(dim=1)
    return Transitions.from_arrays(
        flat[0], flat[1], reward, flat[2], episodes=torch.arange(n) // 60, state_names=("x", "v")
    )


@pytest.mark.parametrize("feedback", [False, True])
def test_the_variances_of_sensors_and_disturbances_are_found(*, feedback: bool) -> None:
    noise = LocalModel(run(sensor=0.1, disturbance=0.1, feedback=feedback, episodes=40)).noise
    assert noise.sensors == pytest.approx([0.1, 0.1], rel=0.15)
    assert noise.disturbances[1, 1] ** 0.5 == pytest.approx(0.1, rel=0.2)
    assert noise.disturbances[0, 0] < 0.1 * noise.disturbances[1, 1]


def test_without_noise_of_sensors_all_residuals_are_disturbances() -> None:
    noise = LocalModel(run(disturbance=0.15)).noise
    assert not noise.sensors.any()
    assert noise.disturbances[1, 1] ** 0.5 == pytest.approx(0.15, rel=0.1)
    assert noise.jumps == ()


def test_slopes_from_a_closed_loop_with_noisy_sensors_are_those_of_the_plant() -> None:
    data = run(sensor=0.15, disturbance=0.05, feedback=True, episodes=40)
    model = LocalModel(data)
    found = model.predict(data.states[:200], data.actions[:200]).displacement_slope.mean(dim=0)
    plant = torch.tensor([[0.0, 0.3, 0.0], [0.0, 0.0, 0.5]], dtype=torch.float64)
    assert float((found - plant).abs().max()) < 0.05
    # Least squares on the measured states takes the noise for a restoring force.
    inputs = torch.cat([data.states, data.actions, torch.ones(len(data), 1)], dim=1)
    raw = torch.linalg.lstsq(inputs, data.next_states - data.states).solution[:3].T
    assert float((raw - plant).abs().max()) > 0.15


def test_filtered_states_are_closer_to_the_plant_than_measured_ones() -> None:
    noisy, quiet = run(sensor=0.1, disturbance=0.1), run(sensor=1e-9, disturbance=0.1)
    model = LocalModel(noisy)
    states = filtered_states(noisy, model.predict, model.noise, model.steps.known)
    later = torch.arange(len(noisy)) % 60 > 5
    before, after = ((one - quiet.states)[later].square().mean(dim=0) for one in (noisy.states, states))
    assert bool((after < 0.7 * before).all())
    # The first row of an episode has nothing before it.
    assert torch.equal(states[::60], noisy.states[::60])


def test_rollouts_act_on_measured_states_and_go_on_from_those_of_the_plant() -> None:
    data = run(sensor=0.1, disturbance=0.05, feedback=True, episodes=40)
    model = LocalModel(data)
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((40, 500, 4))
    starts = torch.zeros(500, 2, dtype=torch.float64)
    path = rollout(model, lambda features, _: -features @ GAINS[:, None], starts, 40, noise=draws)
    apart = path.measured - path.states
    assert apart[0].any() is np.False_
    assert apart[1:].std(axis=(0, 1)) == pytest.approx(model.noise.sensors, rel=0.05)
    assert path.actions[..., 0] == pytest.approx(-path.measured[:-1] @ GAINS.numpy())
    assert path.rewards == pytest.approx(-np.square(path.measured[:-1]).sum(axis=2), abs=1e-6)
    # The variance of the state is that of the closed loop x′ = Ax + BKv + w.
    A = np.array([[1.0, 0.3], [0.0, 1.0]]) - np.outer([0.0, 0.5], GAINS.numpy())
    put_in = np.outer([0.0, 0.5], GAINS.numpy())
    P = np.zeros((2, 2))
    for _ in range(40):
        P = A @ P @ A.T + 0.1**2 * put_in @ put_in.T + np.diag([0.0, 0.05**2])
    assert path.states[-1].std(axis=0) == pytest.approx(np.sqrt(np.diag(P)), rel=0.2)


def test_impacts_at_end_stops_are_jumps_and_no_noise_of_sensors() -> None:
    noise = LocalModel(run(disturbance=0.02, stops=3.0)).noise
    assert "v" in noise.jumps
    assert not noise.sensors.any()


def test_sensors_are_not_judged_without_successive_rows() -> None:
    data = run(sensor=0.15)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    assert not LocalModel(data.take(order)).noise.sensors.any()
