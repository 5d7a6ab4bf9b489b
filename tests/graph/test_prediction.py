"""Predictions of both models against formulas, and the choice between the models by held-out rows."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bandwidths.bandwidth_cases import pendulum_episodes
from nopg._seeding import generator
from nopg.bandwidths import select_bandwidths
from nopg.data import Schema, Transitions, held_out_groups
from nopg.environments import Pendulum
from nopg.errors import ArgumentError
from nopg.graph import (
    CandidateSearch,
    FitShape,
    LocalLinearPredictor,
    ModelComparison,
    NadarayaWatson,
    NadarayaWatsonPredictor,
    Predictor,
    compare_models,
    rolled_out_errors,
)
from nopg.graph._prediction import _FOLDS, _closer, _CrossFitted, _folds, _starts
from nopg.kernels import Bandwidths, GaussianKernel
from nopg.rollouts import collect_grid, collect_uniform


def uniform(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
    draws = torch.rand(*shape, dtype=torch.float64, generator=generator(seed, "uniform"))
    return low + (high - low) * draws


def column(*rows: float) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)[:, None]


# s′ = A s + B a, r = s₀ + 2 a.
A = torch.tensor([[1.0, 0.1], [-0.2, 0.9]], dtype=torch.float64)
B = torch.tensor([[0.0], [0.5]], dtype=torch.float64)


def linear_system(n: int = 300, seed: int = 0) -> Transitions:
    s, a = uniform(n, 2, seed=seed), uniform(n, 1, seed=seed + 1)
    return Transitions.from_arrays(s, a, s[:, 0] + 2 * a[:, 0], s @ A.T + a @ B.T)


def staircase(n: int = 600) -> Transitions:
    """A system whose next state is one constant in every cell of a chequered plane."""
    s, a = uniform(n, 1, low=0.0, high=6.0), uniform(n, 1, seed=1, low=0.0, high=3.0)
    places = torch.tensor([1.3, 5.2, 0.4, 3.7, 2.2, 4.9, 0.8], dtype=torch.float64)
    s_next = places[(s.floor() * 3 + 5 * a.floor()).long() % 7]
    return Transitions.from_arrays(s, a, s_next[:, 0], s_next)


# Predictors.


def test_linear_dynamics_and_rewards_are_predicted_exactly_by_local_linear() -> None:
    data, asked = linear_system(), linear_system(50, seed=7)
    metric = GaussianKernel(torch.full((2,), 0.3, dtype=torch.float64))
    predictor = LocalLinearPredictor(data, metric, FitShape(20, ridge=1e-12))
    features, rewards = predictor.next(asked.features, asked.actions)
    # A ridge of 10⁻¹⁰ on the level and 10⁻¹² on slopes of order 1.
    torch.testing.assert_close(features, asked.next_features, rtol=0, atol=1e-7)
    torch.testing.assert_close(rewards, asked.rewards, rtol=0, atol=1e-7)


def by_definition(data: Transitions, h: Bandwidths, state: torch.Tensor, action: torch.Tensor) -> list[float]:
    """Return next raw state and reward of one query: the kernel mean, written out over all samples."""
    (h_cos, _, h_speed), (h_action,) = h.states.tolist(), h.actions.tolist()
    angle, speed = state.tolist()
    total, turn, faster, reward = 0.0, 0.0, 0.0, 0.0
    for row in range(len(data)):
        s, s_next = data.states[row].tolist(), data.next_states[row].tolist()
        chord = 2 - 2 * math.cos(math.radians(s[0] - angle))  # |e^{iθ} − e^{iθ_j}|²
        squared = chord / h_cos**2 + ((s[1] - speed) / h_speed) ** 2
        squared += (float(data.actions[row] - action) / h_action) ** 2
        w = math.exp(-0.5 * squared)
        total += w
        turn += w * ((s_next[0] - angle + 180) % 360 - 180)
        faster += w * (s_next[1] - speed)
        reward += w * float(data.rewards[row])
    return [angle + turn / total, speed + faster / total, reward / total]


def test_nadaraya_watson_is_the_kernel_mean_written_out_over_all_samples() -> None:
    s = torch.cat([uniform(50, 1, low=-180, high=180), uniform(50, 1, seed=1)], dim=1)
    a = uniform(50, 1, seed=2)
    s_next = torch.cat([(s[:, :1] + 20 * a + 180) % 360 - 180, s[:, 1:] + a], dim=1)
    data = Transitions.from_arrays(s, a, a[:, 0] ** 2, s_next, angles={"s0": 360.0})
    h = Bandwidths.from_values([0.4, 0.4, 0.5], [0.6])
    asked, actions = s[:10] + 3.0, a[10:20]
    features, rewards = NadarayaWatsonPredictor(data, h).next(data.schema.encode(asked), actions)
    for row in range(10):
        *state, reward = by_definition(data, h, asked[row], actions[row])
        expected = data.schema.encode(torch.tensor(state, dtype=torch.float64))
        # Sums of 50 terms in another order.
        torch.testing.assert_close(features[row], expected, rtol=0, atol=1e-12)
        assert float(rewards[row]) == pytest.approx(reward, abs=1e-12)


def test_nadaraya_watson_predicts_what_the_transition_model_says() -> None:
    data, asked = linear_system(2_000), linear_system(30, seed=7)
    # So narrow that the 64th sample is about six bandwidths away, where the kernel is 10⁻⁸.
    h = Bandwidths.from_values([0.05, 0.05], [0.1])
    features, rewards = NadarayaWatsonPredictor(data, h).next(asked.features, asked.actions)
    model = NadarayaWatson(data, h, search=CandidateSearch(num_candidates=2_000))
    weights = model.bind(asked.features).backup(asked.actions[None]).weights
    for k in range(2):
        torch.testing.assert_close(features[:, k], weights.apply(data.next_states[:, k]), rtol=0, atol=1e-6)
    torch.testing.assert_close(rewards, weights.apply(data.rewards), rtol=0, atol=1e-6)


def test_nadaraya_watson_answers_with_the_nearest_sample_far_from_all() -> None:
    data = Transitions.from_arrays(column(0, 1), column(0, 0), [3.0, 4.0], column(5, 6))
    predictor = NadarayaWatsonPredictor(data, Bandwidths.from_values([1e-3], [1e-3]))
    features, rewards = predictor.next(column(-1e4, 1e4), column(0, 0))
    assert features.flatten().tolist() == pytest.approx([5.0, 6.0])
    assert rewards.tolist() == [3.0, 4.0]


def test_the_order_of_rows_that_tie_for_the_last_place_changes_no_prediction() -> None:
    data = collect_grid(Pendulum(), (9, 9, 5))
    mixed = data.take(torch.randperm(len(data), generator=generator(0)))
    # So wide that the 64th sample still weighs; on a grid it has equally far ones beside it.
    h = Bandwidths.from_values([1.0, 1.0, 4.0], [2.0])
    expected, _ = NadarayaWatsonPredictor(data, h).next(data.features, data.actions)
    features, _ = NadarayaWatsonPredictor(mixed, h).next(data.features, data.actions)
    torch.testing.assert_close(features, expected, rtol=0, atol=1e-9)


def turning() -> Transitions:
    """Angles in degrees that turn by 7 + 10 a, through the seam at ±180."""
    s, a = uniform(400, 1, low=-180, high=180), uniform(400, 1, seed=1)
    ahead = (s + 10 * a + 7 + 180) % 360 - 180
    return Transitions.from_arrays(s, a, torch.zeros(400), ahead, angles={"s0": 360.0})


@pytest.mark.parametrize(
    ("predictor", "within"),
    [
        (LocalLinearPredictor(turning(), GaussianKernel(torch.full((2,), 0.3)), FitShape(12, 1e-12)), 1e-6),
        # Neighbours are some degrees away, and a fifth of an action, which is two degrees.
        (NadarayaWatsonPredictor(turning(), Bandwidths.from_values([0.03, 0.03], [0.1])), 5.0),
    ],
)
def test_an_angle_turns_through_its_seam(predictor: Predictor, within: float) -> None:
    schema = turning().schema
    features, _ = predictor.next(schema.encode(column(179.0, -185.0, 0.0)), column(0.5, 0.5, -0.9))
    angles = torch.rad2deg(torch.atan2(features[:, 1], features[:, 0]))
    torch.testing.assert_close(angles, column(-169.0, -173.0, -2.0)[:, 0], rtol=0, atol=within)
    torch.testing.assert_close(features.square().sum(dim=1), torch.ones(3, dtype=torch.float64))


# Rolling out.


class Drift:
    """Moves every column by the action, whatever the state; fails beyond a limit."""

    def __init__(self, schema: Schema, limit: float = math.inf) -> None:
        self.schema, self.limit = schema, limit

    def next(self, features: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ahead = features + actions
        return torch.where(ahead.abs() > self.limit, math.nan, ahead), torch.zeros(len(features))


def test_errors_after_every_step_by_hand() -> None:
    schema = Schema(("x", "y"), ("u",))
    actions = torch.ones(3, 2, 1, dtype=torch.float64)
    # From 0 to (1, 1) and (2, 2); the three truths are off by (3, 4) d and (6, 8) d for d = 1, 2, 10.
    off = torch.tensor([[3.0, 4.0], [6.0, 8.0]], dtype=torch.float64)
    truth = torch.tensor([[1.0, 1.0], [2.0, 2.0]], dtype=torch.float64) + column(1, 2, 10)[:, None] * off
    scale = torch.tensor([3.0, 2.0], dtype=torch.float64)
    errors = rolled_out_errors(
        Drift(schema),
        torch.zeros(3, 2, dtype=torch.float64),
        actions,
        truth_features=truth,
        schema=schema,
        scale=scale,
    )
    # The median is that of d = 2: the root of ((2·1)² + (2·2)²)/2, then twice that.
    assert errors.tolist() == pytest.approx([math.sqrt(10), 2 * math.sqrt(10)])


def test_errors_of_angles_go_the_short_way_round() -> None:
    data = turning()
    metric = GaussianKernel(torch.full((2,), 0.3, dtype=torch.float64))
    start, actions = column(170.0, -10.0), torch.zeros(2, 4, 1, dtype=torch.float64)
    truth = start[:, None] + 7 * column(1, 2, 3, 4) + 1.0  # one degree ahead, past the seam
    errors = rolled_out_errors(
        LocalLinearPredictor(data, metric, FitShape(12, 1e-12)),
        data.schema.encode(start),
        actions,
        truth_features=data.schema.encode(truth),
        schema=data.schema,
        scale=torch.tensor([2.0], dtype=torch.float64),
    )
    assert errors.tolist() == pytest.approx([0.5] * 4, abs=1e-5)


def test_a_prediction_that_is_not_finite_is_infinitely_wrong_from_then_on() -> None:
    schema = Schema(("x",), ("u",))
    errors = rolled_out_errors(
        Drift(schema, limit=2.5),
        column(0.0),
        torch.tensor([[1.0, 1.0, 1.0, -1.0]], dtype=torch.float64)[:, :, None],
        truth_features=torch.zeros(1, 4, 1, dtype=torch.float64),
        schema=schema,
        scale=torch.ones(1, dtype=torch.float64),
    )
    assert errors.tolist() == [1.0, 2.0, math.inf, math.inf]


# The choice.


def by_hand(data: Transitions, h: float = 0.3) -> Bandwidths:
    return Bandwidths.from_values([h] * len(data.schema.features), [h] * len(data.schema.actions))


@pytest.mark.parametrize(
    "data",
    [
        collect_uniform(Pendulum(), 300, seed=0),
        collect_grid(Pendulum(), (10, 10, 2)),
        pendulum_episodes(),
        pendulum_episodes(num_episodes=1, steps=100),
    ],
    ids=["uniform", "grid", "episodes", "one episode"],
)
def test_local_linear_is_chosen_for_a_smooth_system(data: Transitions) -> None:
    found = compare_models(data, select_bandwidths(data))
    assert found.chosen == "local-linear"
    # Five to forty times; measured on these data.
    assert found.one_step["local-linear"] < found.one_step["nadaraya-watson"] / 5
    assert (found.rolled_out is None) == (data.episodes is None)
    if found.rolled_out is not None:
        assert found.rolled_out["local-linear"] < found.rolled_out["nadaraya-watson"] / 5


def test_nadaraya_watson_is_chosen_for_a_system_of_jumps() -> None:
    data = staircase()
    found = compare_models(data, select_bandwidths(data))
    assert found.chosen == "nadaraya-watson"
    assert found.one_step["nadaraya-watson"] < found.one_step["local-linear"] / 5
    assert found.rolled_out is None


def test_a_tie_goes_to_local_linear_and_rounding_makes_no_difference() -> None:
    assert _closer({"local-linear": 0.5, "nadaraya-watson": 0.5}) == "local-linear"
    assert _closer({"local-linear": 1e-14, "nadaraya-watson": 0.0}) == "local-linear"
    assert _closer({"local-linear": math.inf, "nadaraya-watson": math.inf}) == "local-linear"
    assert _closer({"local-linear": 0.51, "nadaraya-watson": 0.5}) == "nadaraya-watson"


def test_the_longer_prediction_decides_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def errors(self: _CrossFitted, starts: torch.Tensor, horizon: int) -> dict[str, float]:
        return {"local-linear": float(horizon), "nadaraya-watson": 2.0}

    monkeypatch.setattr(_CrossFitted, "median_errors", errors)
    data = pendulum_episodes()
    assert compare_models(data, by_hand(data)).chosen == "nadaraya-watson"
    assert compare_models(replace(data, episodes=None), by_hand(data)).chosen == "local-linear"


def test_the_reason_is_one_sentence_with_the_figures() -> None:
    one_step = {"local-linear": 0.0123, "nadaraya-watson": 0.214}
    rolled_out = {"local-linear": 0.0604, "nadaraya-watson": 1.92}
    found = ModelComparison(one_step, rolled_out, 5, "local-linear", 100)
    text = "local-linear: held-out error .012 of a step against .21 of nadaraya-watson"
    assert found.reason() == f"{text} (5 steps: .06 against 1.9)"
    assert replace(found, rolled_out=None).reason() == text
    assert replace(found, rolled_out=None, chosen="nadaraya-watson").reason() == (
        "nadaraya-watson: held-out error .21 of a step against .012 of local-linear"
    )


@pytest.mark.parametrize("num_rows", [1, 2, 3, 4, 5, 19])
@pytest.mark.parametrize("episodes", [None, 1, 3])
def test_the_paper_s_model_is_chosen_where_there_are_too_few_rows(
    num_rows: int, episodes: int | None
) -> None:
    data = collect_uniform(Pendulum(), num_rows, seed=0)
    if episodes is not None:
        data = replace(data, episodes=torch.arange(num_rows) % episodes)
    # Copies make no more of them.
    for some in (data, data.take(torch.arange(num_rows).repeat(30))):
        found = compare_models(some, by_hand(data))
        assert (found.chosen, found.one_step, found.rolled_out) == ("nadaraya-watson", {}, None)
        assert found.reason().startswith(f"nadaraya-watson: {num_rows} distinct rows are too few")


@pytest.mark.parametrize("episodes", [None, 1, 2, 7])
def test_few_rows_are_compared(episodes: int | None) -> None:
    data = collect_uniform(Pendulum(), 20, seed=0)
    if episodes is not None:
        data = replace(data, episodes=torch.arange(20) * episodes // 20)
    found = compare_models(data, by_hand(data))
    assert set(found.one_step) == {"local-linear", "nadaraya-watson"}
    assert found.rolled_out is None  # no next state is the state of the next row


def test_constant_columns_are_no_obstacle() -> None:
    smooth = linear_system(100)
    load = torch.full((100, 1), 0.1, dtype=torch.float64)
    data = Transitions.from_arrays(
        torch.cat([smooth.states, load], dim=1),
        torch.cat([smooth.actions, load], dim=1),
        smooth.rewards,
        torch.cat([smooth.next_states, load], dim=1),
    )
    found = compare_models(data, by_hand(data))
    assert found.chosen == "local-linear"
    # The load is predicted exactly, so one column of three errs by nothing.
    without = compare_models(smooth, by_hand(smooth)).one_step
    share = math.sqrt(2 / 3)
    assert found.one_step["nadaraya-watson"] == pytest.approx(share * without["nadaraya-watson"], rel=1e-6)


def test_data_in_which_nothing_moves_are_predicted_alike() -> None:
    s = uniform(50, 1)
    still = Transitions.from_arrays(s, uniform(50, 1, seed=1), torch.zeros(50), torch.ones(50))
    # The unit is the spread of a step; here that is the spread of the states.
    found = compare_models(still, by_hand(still))
    assert found.one_step["nadaraya-watson"] <= 1e-12
    rest = Transitions.from_arrays([0.1] * 50, s, s[:, 0], [0.1] * 50)
    found = compare_models(rest, by_hand(rest))
    assert found.chosen == "local-linear"
    assert max(found.one_step.values()) <= 1e-12


def test_a_step_that_varies_by_rounding_only_is_in_units_of_the_column() -> None:
    s = uniform(100, 1)
    clock = Transitions.from_arrays(s, uniform(100, 1, seed=1), torch.zeros(100), s + 0.1)
    # Samples are a bandwidth of .3 away; in units of rounding that would be 10¹⁵.
    assert 1e-3 < compare_models(clock, by_hand(clock)).one_step["nadaraya-watson"] < 1.0


def test_a_horizon_of_no_step_is_refused() -> None:
    data = linear_system(30)
    with pytest.raises(ArgumentError, match=r"horizon is 0; give at least 1"):
        compare_models(data, by_hand(data), horizon=0)


def figures(found: ModelComparison) -> list[float]:
    return [*found.one_step.values(), *(found.rolled_out or {}).values()]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "data",
    [
        collect_uniform(Pendulum(), 1_500, seed=0),
        collect_grid(Pendulum(), (7, 6, 3)),
        replace(collect_uniform(Pendulum(), 200, seed=0), episodes=torch.arange(200) // 9),
        staircase(200),
    ],
    ids=["more than are asked", "grid", "episodes", "jumps"],
)
def test_the_order_of_the_rows_does_not_matter(data: Transitions, seed: int) -> None:
    h = by_hand(data)
    mixed = data.take(torch.randperm(len(data), generator=generator(seed)))
    found, again = compare_models(data, h), compare_models(mixed, h)
    assert found.chosen == again.chosen
    # Sums in another order; on a grid, equally far samples at the edge of a fit weigh 10⁻¹² of the others.
    assert figures(again) == pytest.approx(figures(found), rel=1e-6)


def test_the_order_of_the_episodes_does_not_matter() -> None:
    data = pendulum_episodes()
    assert data.episodes is not None
    backwards = data.take(data.episodes.argsort(descending=True, stable=True))
    found, again = compare_models(data, by_hand(data)), compare_models(backwards, by_hand(data))
    assert found.rolled_out is not None
    assert figures(again) == pytest.approx(figures(found), rel=1e-6)


# Who is left out.


GROUPED: dict[str, Callable[[], Transitions]] = {
    "no episodes": lambda: linear_system(43).take(torch.arange(60) % 43),
    "episodes": lambda: pendulum_episodes(num_episodes=7, steps=9),
    "two episodes": lambda: pendulum_episodes(num_episodes=2, steps=15),
    "one episode": lambda: pendulum_episodes(num_episodes=1, steps=50),
}


@pytest.mark.parametrize("name", GROUPED)
def test_no_row_is_predicted_from_rows_that_are_left_out_with_it(name: str) -> None:
    data = GROUPED[name]()
    groups = held_out_groups(data)
    models = _CrossFitted.from_data(data, by_hand(data), groups)
    assert len(models.predictors) == min(_FOLDS, len(groups.unique()))
    for fold, predictors in models.predictors.items():
        inside = set(groups[models.folds == fold].tolist())
        for predictor in predictors.values():
            assert isinstance(predictor, LocalLinearPredictor | NadarayaWatsonPredictor)
            assert len(predictor.data) == int((models.folds != fold).sum())
        assert inside.isdisjoint(groups[models.folds != fold].tolist())


@settings(deadline=None)
@given(sizes=st.lists(st.integers(1, 9), min_size=2, max_size=12))
def test_folds_hold_whole_groups_and_differ_by_no_more_than_the_largest(sizes: list[int]) -> None:
    groups = torch.tensor(np.repeat(np.arange(len(sizes)), sizes))
    folds = _folds(linear_system(len(groups)), groups)
    assert len(torch.unique(torch.stack([groups, folds]), dim=1).T) == len(sizes)
    counts = folds.bincount(minlength=_FOLDS)
    assert int(counts.max() - counts.min()) <= max(sizes)


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize("horizon", [1, 3, 5])
def test_starts_are_those_of_unbroken_runs_within_a_fold(name: str, horizon: int) -> None:
    data = GROUPED[name]()
    folds = _folds(data, held_out_groups(data))
    expected = []
    for start in range(len(data) - horizon + 1):
        rows = range(start, start + horizon)
        unbroken = data.episodes is not None and all(
            data.episodes[row] == data.episodes[row + 1]
            and torch.equal(data.next_states[row], data.states[row + 1])
            for row in rows[:-1]
        )
        if (unbroken or horizon == 1) and len({int(folds[row]) for row in rows}) == 1:
            expected.append(start)
    assert sorted(_starts(data, folds, horizon).tolist()) == expected
