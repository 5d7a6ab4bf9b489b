"""Residuals that are not the noise of a plant: those of noisy sensors and of impacts."""

import torch

from nopg.data import Transitions
from nopg.models import LocalModel


def run(*, sensor: float = 0.0, disturbance: float = 0.0, stops: float = 100.0) -> Transitions:
    """Return ten runs of a mass pushed at random, between end stops."""
    rng = torch.Generator().manual_seed(1)
    x, v = torch.zeros(2, 10, dtype=torch.float64)
    seen, actions = [], []
    for _ in range(61):
        noise = sensor * torch.randn(10, 2, generator=rng, dtype=torch.float64)
        seen.append(torch.stack([x, v], dim=1) + noise)
        a = 2 * torch.rand(10, generator=rng, dtype=torch.float64) - 1
        actions.append(a[:, None])
        push = disturbance * torch.randn(10, generator=rng, dtype=torch.float64)
        x, v = x + 0.3 * v, v + 0.5 * a + push
        hit = x.abs() > stops
        x, v = x.clamp(-stops, stops), torch.where(hit, 0.0, v)
    s, a = torch.stack(seen), torch.stack(actions)
    flat = [part.transpose(0, 1).reshape(600, -1) for part in (s[:-1], a[:-1], s[1:])]
    reward = -flat[0].square().sum(dim=1)
    return Transitions.from_arrays(
        flat[0], flat[1], reward, flat[2], episodes=torch.arange(600) // 60, state_names=("x", "v")
    )


def test_noisy_sensors_are_named() -> None:
    assert "v" in LocalModel(run(sensor=0.15)).residual_check.sensors


def test_disturbances_of_the_plant_are_noise_as_expected() -> None:
    found = LocalModel(run(disturbance=0.15)).residual_check
    assert (found.sensors, found.jumps) == ((), ())


def test_impacts_at_end_stops_are_jumps() -> None:
    assert "v" in LocalModel(run(disturbance=0.02, stops=3.0)).residual_check.jumps


def test_sensors_are_not_judged_without_successive_rows() -> None:
    data = run(sensor=0.15)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    assert LocalModel(data.take(order)).residual_check.sensors == ()


def test_noise_that_depends_on_the_place_is_worth_charts() -> None:
    rng = torch.Generator().manual_seed(0)
    s, a = 2 * torch.rand(2, 600, 1, generator=rng, dtype=torch.float64) - 1
    draws = torch.randn(600, 1, generator=rng, dtype=torch.float64)
    for noise, local in ((0.3 * torch.ones_like(s), False), (torch.where(s > 0.5, 0.6, 0.03), True)):
        data = Transitions.from_arrays(s, a, -s[:, 0], 0.5 * s + 0.5 * a + noise * draws)
        model = LocalModel(data)
        quiet, loud = model.predict(torch.tensor([[-0.5], [0.8]]).double(), torch.zeros(2, 1).double()).noise
        assert (float(loud) > 4 * float(quiet)) == local
