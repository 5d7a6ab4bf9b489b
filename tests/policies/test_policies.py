"""Policies: one interface, units that do not matter, actions in their range, gradients that add up."""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.errors import ArgumentError
from nopg.policies import (
    GaussianMLPPolicy,
    GaussianPolicy,
    LinearPolicy,
    MLPPolicy,
    Policy,
    check_policy,
)
from nopg.policies._imitation import imitate
from nopg.policies._networks import MLP, ActionRange, Standardizer
from nopg.policies._policy import policy_gradient

NUM_FEATURES, NUM_ACTIONS = 3, 2


def rows(count: int, columns: int = NUM_FEATURES, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, columns, dtype=torch.float64, generator=generator(seed, "rows"))


def bounded_actions() -> torch.Tensor:
    """Actions between −1 and 3 in the first column, 10 and 11 in the second."""
    return torch.tensor([[-1.0, 10.5], [3.0, 10.0], [0.0, 11.0]], dtype=torch.float64)


def linear(seed: int = 0) -> LinearPolicy:
    return LinearPolicy(rows(NUM_ACTIONS, seed=seed))


def diagonal(seed: int = 0) -> LinearPolicy:
    return LinearPolicy(rows(1, seed=seed)[0])


def network(seed: int = 0) -> MLPPolicy:
    return MLPPolicy.from_data(rows(100), bounded_actions(), rng=generator(seed), hidden=20)


def gaussian_linear(seed: int = 0) -> GaussianPolicy:
    return GaussianPolicy(linear(seed), [0.1, 2.0], num_action_samples=4)


def gaussian_network(seed: int = 0) -> GaussianMLPPolicy:
    return GaussianMLPPolicy.from_data(
        rows(100), bounded_actions(), rng=generator(seed), hidden=20, num_action_samples=4
    )


EVERY_POLICY: list[Callable[[], Policy]] = [linear, diagonal, network, gaussian_linear, gaussian_network]
every_policy = pytest.mark.parametrize("build", EVERY_POLICY)


# One interface.


@every_policy
def test_every_policy_keeps_the_contract_and_repeats_its_noise(build: Callable[[], Policy]) -> None:
    policy = build()
    check_policy(policy, NUM_FEATURES)
    assert torch.equal(policy.noise(5, generator(1)), policy.noise(5, generator(1)))


@pytest.mark.parametrize("build", [gaussian_linear, gaussian_network])
def test_a_gaussian_policy_without_noise_is_its_mode(build: Callable[[], Policy]) -> None:
    policy, features = build(), rows(7)
    actions = policy.actions(features, torch.zeros(4, 7, NUM_ACTIONS, dtype=torch.float64))
    # The mode asks the network for the same numbers in another product.
    torch.testing.assert_close(actions, policy.mode(features).expand_as(actions), rtol=1e-13, atol=1e-13)


# Linear gains.


def test_full_gains_multiply_the_features() -> None:
    policy = LinearPolicy([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]])
    assert policy.num_actions == 2
    assert policy.mode(torch.tensor([[1.0, 10.0, 100.0]], dtype=torch.float64)).tolist() == [[21.0, 290.0]]


def test_diagonal_gains_are_a_full_matrix_that_is_zero_elsewhere() -> None:
    gains, features = [2.0, -3.0, 0.5], rows(5)
    assert torch.equal(LinearPolicy(gains).mode(features), LinearPolicy(np.diag(gains)).mode(features))
    assert LinearPolicy(gains).num_actions == 3


@pytest.mark.parametrize("gain", [1.0, np.zeros((1, 2, 3))])
def test_gains_of_other_shapes_are_refused(gain: Any) -> None:
    with pytest.raises(ArgumentError, match="gain has shape"):
        LinearPolicy(gain)


# Inputs in any units.


def test_standardised_features_have_mean_zero_and_variance_one() -> None:
    features = rows(200) * torch.tensor([1e-3, 1.0, 1e5]) + torch.tensor([5.0, 0.0, -1e6])
    z = Standardizer.from_data(features).at(features)
    # A mean of 10⁶ over a deviation of 10⁵ costs one digit of sixteen; a sum of 200, two more.
    torch.testing.assert_close(z.mean(dim=0), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-10)
    torch.testing.assert_close(z.square().mean(dim=0), torch.ones(3, dtype=torch.float64), rtol=1e-10, atol=0)


@pytest.mark.parametrize("build", [MLPPolicy, GaussianMLPPolicy])
@settings(deadline=None, max_examples=30)
@given(
    scale=st.lists(st.floats(1e-3, 1e3), min_size=NUM_FEATURES, max_size=NUM_FEATURES),
    shift=st.lists(st.floats(-100, 100), min_size=NUM_FEATURES, max_size=NUM_FEATURES),
)
def test_the_units_of_the_features_do_not_change_the_actions(
    build: Any, scale: list[float], shift: list[float]
) -> None:
    features = rows(50)
    changed = (features + torch.tensor(shift, dtype=torch.float64)) * torch.tensor(scale, dtype=torch.float64)
    policy = build.from_data(features, bounded_actions(), rng=generator(0))
    other = build.from_data(changed, bounded_actions(), rng=generator(0))
    # A shift of 100 deviations costs two digits of sixteen, a sum of 50 terms another.
    torch.testing.assert_close(other.mode(changed), policy.mode(features), rtol=1e-10, atol=1e-10)


def test_a_network_is_a_layer_of_rectified_units_between_two_affine_maps() -> None:
    features = rows(9)
    mlp = MLP(Standardizer([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]), 2, hidden=7, rng=generator(0))
    W1, b1, W2, b2 = (parameter.detach().numpy() for parameter in mlp.parameters())
    z = (features.numpy() - [1.0, 2.0, 3.0]) / [4.0, 5.0, 6.0]
    expected = np.maximum(z @ W1.T + b1, 0.0) @ W2.T + b2
    np.testing.assert_allclose(mlp(features).detach().numpy(), expected, rtol=0, atol=1e-13)


# Actions in their range.


def test_the_range_is_reached_at_both_ends_and_centred_between() -> None:
    squash = ActionRange([-1.0, 10.0], [3.0, 11.0])
    raw = torch.tensor([[-50.0, 50.0], [0.0, 0.0], [50.0, -50.0]], dtype=torch.float64)
    assert squash.at(raw).tolist() == [[-1.0, 11.0], [1.0, 10.5], [3.0, 10.0]]


@pytest.mark.parametrize("build", [network, gaussian_network])
@pytest.mark.parametrize("gain", [1.0, 100.0])
def test_modes_stay_inside_the_range_of_the_data(
    build: Callable[[], MLPPolicy | GaussianMLPPolicy], gain: float
) -> None:
    policy = build()
    with torch.no_grad():
        policy.network.output.weight.mul_(gain)
    actions = policy.mode(10 * rows(1000))
    low, high = torch.tensor([-1.0, 10.0]), torch.tensor([3.0, 11.0])
    # One unit in the last place: centre + radius is rounded.
    assert bool(((actions >= low - 1e-14) & (actions <= high + 1e-14)).all())
    if gain > 1:  # a steep network uses all of it
        torch.testing.assert_close(actions.amin(dim=0), low.double(), rtol=0, atol=1e-3)
        torch.testing.assert_close(actions.amax(dim=0), high.double(), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("low", "high"), [([1.0], [1.0]), ([2.0], [1.0]), ([0.0, 0.0], [1.0])])
def test_a_range_needs_low_below_high_for_every_action(low: list[float], high: list[float]) -> None:
    with pytest.raises(ArgumentError, match="every action needs low < high"):
        ActionRange(low, high)


# Noise and its decay.


def test_samples_have_the_mean_and_the_deviation_of_the_policy() -> None:
    policy = GaussianPolicy(linear(), [0.1, 2.0], num_action_samples=20_000)
    features = rows(2)
    samples = policy.actions(features, policy.noise(2, generator(1))).detach()
    error, sigma = samples - policy.mode(features).detach(), torch.tensor([0.1, 2.0], dtype=torch.float64)
    # Standard errors: σ/√20000 of the mean, σ/√40000 of the deviation; four of each.
    assert bool((error.mean(dim=0).abs() < 4 * sigma / math.sqrt(20_000)).all())
    assert bool(((error.std(dim=0) - sigma).abs() < 4 * sigma / math.sqrt(40_000)).all())
    # Two actions, and two states, are drawn independently: correlations have standard error 1/√20000.
    flat = error.reshape(20_000, 4).T
    assert float((torch.corrcoef(flat) - torch.eye(4)).abs().max()) < 4 / math.sqrt(20_000)


def test_the_deviation_of_a_gaussian_network_is_a_sigmoid_of_its_second_half() -> None:
    policy, features = gaussian_network(), rows(7)
    g = policy.network(features)[:, NUM_ACTIONS:]
    ones = torch.ones(1, 7, NUM_ACTIONS, dtype=torch.float64)
    spread = (policy.actions(features, ones) - policy.actions(features, -ones))[0] / 2
    # A difference of numbers near 11.
    torch.testing.assert_close(spread, policy.largest_std * g.sigmoid(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("std", [-1.0, math.nan, math.inf, [1.0, 2.0, 3.0], [[1.0, 2.0]]])
def test_impossible_deviations_are_refused(std: Any) -> None:
    with pytest.raises(ArgumentError, match=r"std (is|has)"):
        GaussianPolicy(linear(), std)


@pytest.mark.parametrize("count", [0, 4, 15, None])
def test_so_many_actions_are_drawn_or_sigma_points(count: int | None) -> None:
    def gaussian() -> GaussianMLPPolicy:
        rng = generator(0)
        return GaussianMLPPolicy.from_data(rows(9), bounded_actions(), rng=rng, num_action_samples=count)

    if count == 0:
        with pytest.raises(ArgumentError, match="num_action_samples is 0"):
            gaussian()
        return
    noise, other = (gaussian().noise(3, generator(seed)) for seed in (0, 1))
    assert noise.shape == (count or 2 * NUM_ACTIONS, 3, NUM_ACTIONS)
    assert torch.equal(noise, other) == (count is None)
    assert GaussianPolicy(linear(), 1.0).num_action_samples == 15


@pytest.mark.parametrize("d", [1, 2, 5])
def test_sigma_points_have_the_moments_of_a_normal_up_to_the_third(d: int) -> None:
    policy = GaussianPolicy(LinearPolicy(torch.ones(d, d).double()), 0.5, num_action_samples=None)
    noise = policy.noise(3, generator(0))
    z = noise[:, 0]
    assert torch.equal(noise, noise[:, :1].expand_as(noise))
    torch.testing.assert_close(z.mean(dim=0), torch.zeros(d, dtype=torch.float64))
    torch.testing.assert_close(z.T @ z / len(z), torch.eye(d, dtype=torch.float64))
    third = torch.einsum("li,lj,lk->ijk", z, z, z) / len(z)
    torch.testing.assert_close(third, torch.zeros(d, d, d, dtype=torch.float64))
    states = torch.randn(2, d, generator=generator(1), dtype=torch.float64)
    mu, sigma = policy.moments(states)
    if d == 1:  # E[(μ + σz)³] = μ³ + 3μσ²
        cubes = policy.actions(states, policy.noise(2, generator(0))) ** 3
        torch.testing.assert_close(cubes.mean(dim=0), mu**3 + 3 * mu * sigma**2)


# Weights.


@pytest.mark.parametrize("build", [network, gaussian_network])
def test_the_same_seed_gives_the_same_weights(build: Callable[[int], Policy]) -> None:
    first, again, other = (
        torch.nn.utils.parameters_to_vector(build(seed).parameters()) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not bool((first == other).any())


@every_policy
def test_a_state_dict_holds_all_that_decides_the_actions(build: Callable[..., Policy]) -> None:
    policy, other, features = build(0), build(1), rows(7)
    noise = policy.noise(7, generator(1))
    assert not torch.equal(other.actions(features, noise), policy.actions(features, noise))
    other.load_state_dict(policy.state_dict())
    assert torch.equal(other.actions(features, noise), policy.actions(features, noise))


# Gradients.


def test_the_gradient_of_a_linear_policy_by_hand() -> None:
    # a = K s, so Σ cᵢ·∂aᵢ/∂K = Σ cᵢ sᵢᵀ.
    policy, features, cotangent = linear(), rows(6), rows(6, NUM_ACTIONS, seed=1)[None]
    (gradient,) = policy_gradient(policy, [policy.mode(features)], [cotangent[0]])
    torch.testing.assert_close(gradient, cotangent[0].T @ features, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("build", [network, gaussian_network])
def test_the_gradient_agrees_with_finite_differences(build: Callable[[], Policy]) -> None:
    policy, features = build(), rows(6)
    noise = policy.noise(6, generator(1))
    cotangent = torch.randn(noise.shape[0], 6, NUM_ACTIONS, dtype=torch.float64, generator=generator(2))
    parts = policy_gradient(policy, [policy.actions(features, noise)], [cotangent])
    gradient = torch.cat([part.flatten() for part in parts])

    theta = torch.nn.utils.parameters_to_vector(policy.parameters()).detach()
    direction = torch.randn(theta.shape, dtype=torch.float64, generator=generator(3))

    def objective(step: float) -> float:
        moved = copy.deepcopy(policy)
        torch.nn.utils.vector_to_parameters(theta + step * direction, moved.parameters())
        return float((moved.actions(features, noise) * cotangent).sum().detach())

    # Central differences of step 10⁻⁶ err by its square and by rounding, 10⁻¹⁴/10⁻⁶.
    slope = (objective(1e-6) - objective(-1e-6)) / 2e-6
    assert float(gradient @ direction) == pytest.approx(slope, rel=1e-6)


def test_imitation_recovers_a_linear_policy() -> None:
    rng = torch.Generator().manual_seed(0)
    states = torch.randn(500, 2, generator=rng, dtype=torch.float64)
    teacher, pupil = LinearPolicy([[1.0, -2.0]]), LinearPolicy([[0.0, 0.0]])
    error = imitate(pupil, states, teacher.mode(states).detach(), torch.ones(500).double())
    assert error < 1e-9
    assert next(pupil.parameters()).detach().flatten().tolist() == pytest.approx([1.0, -2.0], abs=1e-3)


def test_imitation_follows_the_weights() -> None:
    """A constant policy between two commands goes to the one that counts."""
    states, commands = torch.ones(2, 1, dtype=torch.float64), torch.tensor([[0.0], [1.0]]).double()
    policy = LinearPolicy([[0.5]])
    imitate(policy, states, commands, torch.tensor([1.0, 9.0]).double())
    assert policy.mode(states[:1]).item() == pytest.approx(0.9, abs=1e-6)


def test_only_the_diagonal_of_a_diagonal_policy_is_free() -> None:
    assert [tuple(parameter.shape) for parameter in diagonal().parameters()] == [(3,)]
    assert [tuple(parameter.shape) for parameter in linear().parameters()] == [(2, 3)]
