"""Rollouts: by hand on a plant that is known, values with leaving and ends, derivatives by differences."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from models.test_local_model import A, B, linear_log
from nopg.data import Transitions
from nopg.models import LocalModel
from nopg.models._rollout import Rollout, leaving_share, rollout


@pytest.fixture(scope="module")
def linear() -> LocalModel:
    return LocalModel(linear_log(200))


def push(features: torch.Tensor, t: int) -> torch.Tensor:
    del t
    return -0.3 * features[:, :1]


STARTS = torch.tensor([[0.5, -0.2], [0.1, 0.4]], dtype=torch.float64)


def test_a_rollout_follows_the_plant(linear: LocalModel) -> None:
    path = rollout(linear, push, STARTS, 5)
    s = STARTS
    for t in range(5):
        assert np.allclose(path.states[t], s.numpy(), atol=1e-4)
        s = s @ A.T + push(s, t) @ B.T
    assert np.allclose(path.states[5], s.numpy(), atol=1e-4)
    assert path.actions.shape == (5, 2, 1)


def test_the_value_of_a_path_by_hand(linear: LocalModel) -> None:
    path = rollout(linear, push, STARTS, 3).staying()
    G, alive, lost = path.value(0.9, -100.0, np.array([7.0, 8.0]))
    r = path.rewards
    assert G[0] == pytest.approx(r[0] + 0.9 * r[1] + 0.81 * r[2] + 0.729 * np.array([7.0, 8.0]))
    assert alive.tolist() == np.ones((4, 2)).tolist()
    assert lost.tolist() == [0.0, 0.0]


def test_what_leaves_the_data_is_worth_the_unknown_value(linear: LocalModel) -> None:
    path = rollout(linear, push, STARTS + 50.0, 2)
    share = leaving_share(path.log_odds, 0.9)[0]
    G, alive, lost = path.value(0.9, -100.0)
    first = (1 - share[0]) * (path.rewards[0] + 0.9 * G[1]) + share[0] * -100.0
    assert G[0] == pytest.approx(first)
    assert alive[1] == pytest.approx(1 - share[0])
    assert lost == pytest.approx(share[0] + 0.9 * (1 - share[0]) * share[1])


@pytest.mark.parametrize("factor", [2, 10])
def test_leaving_does_not_depend_on_how_fast_a_plant_is_sampled(factor: int) -> None:
    odds = np.array([-9.0, -4.0, 0.0, 5.0])
    slow = 0.9
    fast = 1 - (1 - slow) / factor
    once, often = (1 - leaving_share(odds, gamma)[0] for gamma in (slow, fast))
    assert often**factor == pytest.approx(once, rel=1e-12)


def test_the_slope_of_leaving_agrees_with_differences() -> None:
    odds = np.linspace(-12, -1.5, 30)
    _, slope = leaving_share(odds, 0.97)
    numeric = (leaving_share(odds + 1e-6, 0.97)[0] - leaving_share(odds - 1e-6, 0.97)[0]) / 2e-6
    assert slope == pytest.approx(numeric, rel=1e-5, abs=1e-12)


def ending_log() -> Transitions:
    """Return a walk to the right that ends beyond 1; every step costs 1."""
    s = torch.linspace(0, 0.99, 100, dtype=torch.float64)[:, None]
    a = torch.where(torch.arange(100) % 2 == 0, 0.1, 0.2).double()[:, None]
    after = s + a
    ended = after[:, 0] > 1.0
    return Transitions.from_arrays(s, a, -torch.ones(100), after, terminated=ended)


def test_a_path_that_has_ended_stands_still_and_earns_no_more() -> None:
    model = LocalModel(ending_log())
    starts = torch.tensor([[0.75], [0.05]], dtype=torch.float64)
    path = rollout(model, lambda f, _: torch.full((len(f), 1), 0.2, dtype=torch.float64), starts, 10)
    assert path.going[:3, 0].tolist() == [1.0, 1.0, 0.0]
    assert np.allclose(path.states[3:, 0], path.states[2, 0])
    G, _, _ = path.staying().value(1.0 - 1e-12, 0.0)
    assert G[0] == pytest.approx([-2.0, -5.0], abs=0.05)
    assert len(path) == 5  # all have ended


def fading(linear: LocalModel) -> tuple[Rollout, np.ndarray]:
    """Return paths of three steps of which ever smaller shares go on, the first not at all after two."""
    share = np.array([[1.0, 1.0], [0.5, 0.8], [0.0, 0.6], [0.0, 0.3]])
    return replace(rollout(linear, push, STARTS, 3, slopes=True), going=share), share


def test_rewards_and_tail_are_weighted_once_by_the_share_that_goes_on(linear: LocalModel) -> None:
    path, share = fading(linear)
    tail, gammas = np.array([7.0, 8.0]), 0.9 ** np.arange(4)
    G, alive, lost = path.staying().value(0.9, -100.0, tail)
    expected = (gammas[:3, None] * share[:3] * path.rewards).sum(axis=0) + gammas[3] * share[3] * tail
    assert G[0] == pytest.approx(expected)
    assert alive == pytest.approx(share)
    assert lost.tolist() == [0.0, 0.0]

    leaves = leaving_share(path.log_odds, 0.9)[0]
    assert (leaves > 0).all()
    stays = np.concatenate([np.ones((1, 2)), np.cumprod(1 - leaves, axis=0)])
    _, alive, lost = path.value(0.9, -100.0, tail)
    assert alive == pytest.approx(share * stays)
    assert lost == pytest.approx((gammas[:3, None] * alive[:3] * leaves).sum(axis=0))


def test_slopes_of_the_tail_are_weighted_once_by_the_share_that_goes_on(linear: LocalModel) -> None:
    path, share = fading(linear)
    assert path.slopes is not None
    moves, rewarding, unknowing = path.slopes
    still = replace(path, slopes=(moves, 0.0 * rewarding, 0.0 * unknowing)).staying()
    slope = np.ones((2, 2))
    found = still.action_slopes(0.9, 0.0, np.zeros((4, 2)), tail_slope=slope, by_state=np.zeros((3, 1, 2, 2)))
    # An action of the last step changes the tail only: γ · the share of those that go on · ∂s′/∂a.
    goes_on = np.array([0.0, 0.5])
    assert found[2, :, 0] == pytest.approx(0.9 * goes_on * moves[2, :, 2].sum(axis=0))
    by_state = slope
    for t in (2, 1):
        by_state = np.einsum("im,ijm->jm", by_state, moves[t, :, :2])
    by_first = (by_state * moves[0, :, 2]).sum(axis=0)
    assert found[0, :, 0] == pytest.approx(0.9**3 * share[3] * by_first)


def test_a_reward_that_is_given_is_evaluated_and_not_fitted() -> None:
    def reward(s: torch.Tensor, a: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        return 100.0 + s[:, 0] - 2.0 * a[:, 0] + 3.0 * after[:, 1]

    model = LocalModel(linear_log(200), reward=reward)
    path = rollout(model, push, STARTS, 3, slopes=True)
    s, a, after = path.states[:-1], path.actions, path.states[1:]
    assert path.rewards == pytest.approx(100.0 + s[:, :, 0] - 2.0 * a[:, :, 0] + 3.0 * after[:, :, 1])
    assert path.slopes is not None
    moves, rewarding, _ = path.slopes
    direct = np.array([1.0, 0.0, -2.0])[None, :, None]
    assert rewarding == pytest.approx(direct + 3.0 * moves[:, 1], rel=1e-9)
    assert 2 not in [column for fit in model.steps.chart_fits for column in fit.columns]


def test_slopes_of_actions_agree_with_differences(linear: LocalModel) -> None:
    gamma, v = 0.9, -30.0
    base = 0.2 * torch.ones(4, 2, 1, dtype=torch.float64)

    def worth(actions: torch.Tensor) -> float:
        path = rollout(linear, lambda f, t: actions[t], STARTS, 4)
        tail = path.states[-1].sum(axis=1)
        return float(path.value(gamma, v, tail)[0][0].sum())

    path = rollout(linear, lambda f, t: base[t], STARTS, 4, slopes=True)
    G, alive, _ = path.value(gamma, v, path.states[-1].sum(axis=1))
    none = np.zeros((4, 1, 2, 2))
    slopes = path.action_slopes(gamma, v, G, tail_slope=np.ones((2, 2)), by_state=none)
    found = gamma ** np.arange(4)[:, None, None] * alive[:-1, :, None] * slopes
    for t in range(4):
        for m in range(2):
            up, down = base.clone(), base.clone()
            up[t, m] += 1e-5
            down[t, m] -= 1e-5
            numeric = (worth(up) - worth(down)) / 2e-5
            assert found[t, m, 0] == pytest.approx(numeric, rel=1e-4, abs=1e-6)


def test_noise_has_the_size_and_correlation_of_what_is_missed() -> None:
    rng = torch.Generator().manual_seed(0)
    data = linear_log(2_000, seed=4)
    shared = torch.randn(2_000, 1, generator=rng, dtype=torch.float64)
    noisy = Transitions.from_arrays(
        data.states,
        data.actions,
        data.rewards,
        data.next_states + 0.2 * torch.cat([shared, -shared], dim=1),
        episodes=data.episodes,
    )
    model = LocalModel(noisy)
    s = data.states
    z = torch.randn(1, 2_000, 2, generator=rng, dtype=torch.float64).numpy()
    path = rollout(model, push, s, 1, noise=z)
    missed = path.states[1] - (s @ A.T + push(s, 0) @ B.T).numpy()
    spread = np.cov(missed.T)
    assert spread[0, 0] == pytest.approx(0.04, rel=0.15)
    assert spread[0, 1] / math.sqrt(spread[0, 0] * spread[1, 1]) == pytest.approx(-1.0, abs=0.05)


def test_the_share_that_leaves_in_one_step_by_hand() -> None:
    shares, _ = leaving_share(np.array([-3.0, 0.0]), 0.9)
    # At even odds the rate, 20 ln 2 = 13.9, is capped at 10.
    assert shares == pytest.approx([1.0 - (1.0 + math.exp(-3.0)) ** -2.0, 1.0 - math.exp(-1.0)])


@pytest.mark.parametrize("start", [0.0, -12.0])
def test_a_formula_of_an_angle_means_the_same_after_a_turn_as_in_the_log(start: float) -> None:
    rng = np.random.default_rng(0)
    hour, heater = rng.uniform(start, start + 24.0, 300), rng.uniform(0.0, 1.0, 300)
    after = start + (hour + 1.0 - start) % 24.0
    log = Transitions.from_arrays(
        hour,
        heater,
        "-(hour > 8 and hour < 18) - 0.1 * heater",
        after,
        state_names=["hour"],
        action_names=["heater"],
        angles={"hour": 24.0},
    )
    begin = torch.tensor([[5.5 + 24.0]], dtype=torch.float64)
    path = rollout(LocalModel(log), lambda features, _: 0.0 * features[:, :1], begin, 60)
    hours = start + (5.5 + np.arange(61) - start) % 24.0
    assert path.states[:, 0, 0] == pytest.approx(hours, abs=1e-6)
    assert path.rewards[:, 0].tolist() == [-1.0 if 8 < h < 18 else 0.0 for h in hours[:-1]]
