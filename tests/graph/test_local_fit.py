"""Local fits of weighted rows, and of actions that last."""

from dataclasses import replace

import pytest
import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.environments import Pendulum
from nopg.graph._local_fit import LocalFit, fit_locally
from nopg.kernels import GaussianKernel
from nopg.neighbors import NeighborTree
from nopg.rollouts import collect_uniform


@pytest.mark.parametrize("quadratic", [False, True])
def test_a_row_that_stands_for_several_pulls_as_its_copies_would(quadratic: bool) -> None:
    data = collect_uniform(Pendulum(), 60, seed=0)
    metric = GaussianKernel(torch.tensor([0.5, 0.5, 2.0], dtype=torch.float64))
    counts = torch.randint(1, 4, (60,), generator=generator(0, "counts"))
    distances, near = NeighborTree(metric.scale(data.features)).nearest(metric.scale(data.features[:5]), 60)
    near = near.long()
    weighted = fit_locally(
        replace(data, weights=counts.double()),
        metric,
        data.features[:5],
        near,
        distances,
        quadratic=quadratic,
    )

    # The rows are the same, so the units of the fit are: only the lists name some of them several times.
    listed = [torch.repeat_interleave(torch.arange(60), counts[rows]) for rows in near]
    copies = fit_locally(
        data,
        metric,
        data.features[:5],
        torch.stack([rows[places] for rows, places in zip(near, listed, strict=True)]),
        torch.stack([far[places] for far, places in zip(distances, listed, strict=True)]),
        quadratic=quadratic,
    )
    for part in ("shift", "slope", "curvature"):
        torch.testing.assert_close(getattr(weighted, part), getattr(copies, part), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("quadratic", [False, True])
def test_a_held_action_leads_where_a_linear_plant_goes_in_so_many_steps(quadratic: bool) -> None:
    rng = generator(0, "plant")

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    A, B, c, alpha = 0.2 * normal(2, 2), normal(2, 1), normal(2), normal(2)

    def step(s: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        u = (a + a.square() if quadratic else a) @ B.T
        return s + s @ A.T + u + c, s @ alpha + a[:, 0]

    states, actions = normal(200, 2), normal(200, 1)
    s_next, r = step(states, actions)
    data = Transitions.from_arrays(states, actions, r, s_next)
    metric = GaussianKernel(torch.ones(2, dtype=torch.float64))
    at, a, gamma = normal(7, 2), normal(7, 1), 0.9
    distances, near = NeighborTree(metric.scale(states)).nearest(metric.scale(at), 60)
    fit = fit_locally(data, metric, at, near.long(), distances, ridge=1e-12, quadratic=quadratic)
    held = fit.held(3, gamma).at(a)

    s, total = at, torch.zeros(7, dtype=torch.float64)
    for number in range(3):
        s, reward = step(s, a)
        total += gamma**number * reward
    # Ridges of 10⁻¹⁰ and 10⁻¹² on coefficients of order 1.
    torch.testing.assert_close(held[:, :-1], s - at, rtol=0, atol=1e-6)
    torch.testing.assert_close(held[:, -1], total, rtol=0, atol=1e-6)
    torch.testing.assert_close(fit.held(1, gamma).at(a), fit.at(a), rtol=1e-14, atol=1e-14)


def test_the_variance_of_a_held_action_is_that_of_its_steps_carried_on() -> None:
    one = torch.ones(1, 2, dtype=torch.float64)
    by_state = torch.tensor([[[0.5], [0.0]]], dtype=torch.float64)
    fit = LocalFit(one, one[:, :, None], 0 * one[:, :, None], torch.full((1, 1), 4.0).double(), by_state)
    # An error of the first step grows by 1 + A before the second adds its own.
    assert fit.held(2, 1.0).variance.item() == pytest.approx(4 * 1.5**2 + 4)
