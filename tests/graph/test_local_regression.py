"""Local polynomials in state and action: exact where the plant is one, honest where it is not."""

from __future__ import annotations

import pytest
import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.graph import LocalRegression, Subsets
from nopg.graph import _local_regression as module
from nopg.kernels import Bandwidths


def plant(n: int = 300, *, noise: float = 0.0, seed: int = 0) -> Transitions:
    """x′ = x + .1x² − .2xu + u/2 with noise, reward −x² − u²/4."""
    rng = generator(seed, "plant")
    x, u = 2 * torch.rand(2, n, 1, dtype=torch.float64, generator=rng) - 1
    away = noise * torch.randn(n, 1, dtype=torch.float64, generator=rng)
    after = x + 0.1 * x.square() - 0.2 * x * u + 0.5 * u + away
    rewards = -(x.square() + u.square() / 4)[:, 0]
    return Transitions.from_arrays(x, u, rewards, after, episodes=torch.arange(n) // 10)


def regression(data: Transitions) -> LocalRegression:
    return LocalRegression(data, Bandwidths.from_values([0.3], [0.5], [0.3]))


def test_it_is_exact_where_plant_and_reward_are_quadratic() -> None:
    fits = regression(plant())
    x, u = torch.tensor([[0.3], [-0.5]]).double(), torch.tensor([[0.2], [-0.4]]).double()
    step = fits.at(x, u)
    truth = (0.1 * x.square() - 0.2 * x * u + 0.5 * u)[:, 0]
    assert fits.step_shape.degree == fits.reward_shape.degree == 2
    # The ridge is a part in a million of the samples' weight.
    torch.testing.assert_close(step.displacement[:, 0], truth, atol=1e-5, rtol=0)
    torch.testing.assert_close(step.reward, -(x.square() + u.square() / 4)[:, 0], atol=1e-5, rtol=0)


def test_reward_and_displacement_have_a_shape_each() -> None:
    fits = regression(plant(noise=0.3))
    assert fits.reward_shape.degree == 2
    assert fits.step_shape.degree == 1  # noise hides the curvature


def test_residuals_are_as_large_as_the_noise() -> None:
    fits = regression(plant(600, noise=0.1))
    many = torch.zeros(4_000, 1, dtype=torch.float64)
    pick = torch.rand(4_000, dtype=torch.float64, generator=generator(0, "pick"))
    missed = fits.at(many, many, pick=pick).missed
    # A local sample of at most a hundred residuals estimates a deviation to a tenth or so.
    assert 0.08 < float(missed.std()) < 0.12
    assert abs(float(missed.mean())) < 0.03
    assert bool((fits.at(many[:5], many[:5]).missed == 0).all())


def test_a_part_answers_from_its_own_samples_only() -> None:
    data = plant()
    kept = torch.rand(2, len(data), generator=generator(1, "part")) < 0.5
    kept[1] = ~kept[0]
    x = torch.linspace(-0.9, 0.9, 7, dtype=torch.float64)[:, None]
    part = torch.zeros(7, dtype=torch.int64)
    before = regression(data).at(x, 0 * x, subsets=Subsets(kept, part)).displacement

    fits = regression(data)
    fits._steps = torch.where(kept[0][:, None], fits._steps, 99.0)  # what the other part holds is spoilt
    torch.testing.assert_close(fits.at(x, 0 * x, subsets=Subsets(kept, part)).displacement, before)
    spoilt = fits.at(x, 0 * x, subsets=Subsets(kept, part + 1)).displacement
    assert bool((spoilt > 1).any())


@pytest.mark.parametrize("by_parts", [False, True])
def test_a_tree_and_all_distances_give_the_same(monkeypatch: pytest.MonkeyPatch, by_parts: bool) -> None:
    data = plant(noise=0.1)
    x = torch.linspace(-0.9, 0.9, 7, dtype=torch.float64)[:, None]
    subsets = None
    if by_parts:
        kept = torch.rand(1, len(data), generator=generator(1, "part")) < 0.5
        subsets = Subsets(kept, torch.zeros(7, dtype=torch.int64))
    fits = regression(data)
    near = fits.at(x, 0.1 * x, subsets=subsets)
    monkeypatch.setattr(module, "_FEW_SAMPLES", 0)
    far = fits.at(x, 0.1 * x, subsets=subsets)
    torch.testing.assert_close(near.displacement, far.displacement)
    torch.testing.assert_close(near.reward, far.reward)


def test_leverage_grows_towards_the_edge_and_beyond() -> None:
    fits = regression(plant(noise=0.1))
    x = torch.tensor([[0.0], [1.0], [2.0]]).double()
    amid, edge, beyond = fits.at(x, 0 * x).leverage.tolist()
    assert amid < edge < beyond
