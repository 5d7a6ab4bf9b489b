"""Local polynomials: exact where the plant is one, smooth, additive over groups, bounded in number."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.models import ColumnFit, LocalModel
from nopg.models._chart_fit import ChartFit
from nopg.models._charts import Charts
from nopg.models._excitation import Excitation
from nopg.models._regression_rows import RegressionRows, design
from nopg.models._sums import ChartShape, kernel_weights

A = torch.tensor([[0.9, 0.1], [-0.2, 1.05]], dtype=torch.float64)
B = torch.tensor([[0.3], [0.5]], dtype=torch.float64)


def stepped(model: LocalModel, x: FloatArray) -> FloatArray:
    """Return all numbers that a model predicts at inputs (d, m)."""
    return model.steps.step(x, None)[0]


def linear_log(rows: int = 200, *, noise: float = 0.0, seed: int = 0, episodes: int = 10) -> Transitions:
    """Return a log of s′ = A s + B a + noise with a quadratic reward."""
    rng = torch.Generator().manual_seed(seed)
    s = torch.randn(rows, 2, generator=rng, dtype=torch.float64)
    a = torch.randn(rows, 1, generator=rng, dtype=torch.float64)
    after = s @ A.T + a @ B.T + noise * torch.randn(rows, 2, generator=rng, dtype=torch.float64)
    r = -s.square().sum(dim=1) - 0.1 * a[:, 0].square()
    return Transitions.from_arrays(s, a, r, after, episodes=torch.arange(rows) % episodes)


def curved_log(rows: int = 400, seed: int = 0) -> Transitions:
    """Return a log with an angle, whose speed depends on the sine of its triple, and a column of its own."""
    rng = torch.Generator().manual_seed(seed)
    angle = (2 * torch.rand(rows, generator=rng, dtype=torch.float64) - 1) * math.pi
    speed, idle, a = torch.randn(3, rows, generator=rng, dtype=torch.float64)
    after = torch.stack(
        [angle + 0.1 * speed, speed + 0.5 * (3 * angle).sin() + 0.2 * a, 0.5 * idle - 0.3 * (2 * idle).sin()],
        dim=1,
    )
    s = torch.stack([angle, speed, idle], dim=1)
    return Transitions.from_arrays(s, a[:, None], (3 * angle).cos(), after, angles=[0])


@pytest.fixture(scope="module")
def curved() -> LocalModel:
    return LocalModel(curved_log())


def inputs_near(model: LocalModel, count: int = 40) -> torch.Tensor:
    rng = torch.Generator().manual_seed(1)
    jitter = 0.1 * torch.randn(count, model.rows.inputs.shape[1], generator=rng, dtype=torch.float64)
    return model.rows.inputs[model.rows.sample[:count]] + jitter


def test_a_linear_plant_with_a_quadratic_reward_is_predicted_exactly() -> None:
    model = LocalModel(linear_log())
    s = torch.tensor([[0.3, -0.4], [1.0, 0.2]], dtype=torch.float64)
    a = torch.tensor([[0.5], [-0.7]], dtype=torch.float64)
    found = model.predict(s, a)
    assert torch.allclose(found.displacement, s @ A.T + a @ B.T - s, atol=1e-6)
    assert torch.allclose(found.reward, -s.square().sum(dim=1) - 0.1 * a[:, 0].square(), atol=1e-3)
    assert torch.allclose(
        found.displacement_slope[0, :, :2], A - torch.eye(2, dtype=torch.float64), atol=1e-4
    )
    assert torch.allclose(found.displacement_slope[0, :, 2:], B, atol=1e-4)


def test_on_a_noisy_linear_plant_the_fit_is_as_good_as_least_squares() -> None:
    data = linear_log(300, noise=0.3)
    model = LocalModel(data)
    X = torch.cat([torch.ones(300, 1, dtype=torch.float64), data.states, data.actions], dim=1)
    fit = torch.linalg.lstsq(X, data.next_states).solution
    s, a = linear_log(500, seed=9).states, linear_log(500, seed=9).actions
    truth = s @ A.T + a @ B.T
    by_least_squares = torch.cat([torch.ones(500, 1, dtype=torch.float64), s, a], dim=1) @ fit
    ours = s + model.predict(s, a).displacement
    inside = model.predict(s, a).unknown < 0.01
    error = (ours - truth)[inside].square().mean().sqrt()
    assert error < 1.5 * (by_least_squares - truth)[inside].square().mean().sqrt()
    assert model.predict(s, a).noise[inside].mean(dim=0).tolist() == pytest.approx([0.3, 0.3], rel=0.15)


def test_inputs_that_a_column_does_not_need_are_dropped(curved: LocalModel) -> None:
    fits = {fit.name: fit for fit in curved.column_fits}
    assert "s2" not in fits["s1"].inputs
    assert fits["s2"].inputs == ("s2",)
    assert "a0" not in fits["reward"].inputs
    assert fits["s1"].error < 0.5 * fits["s1"].error_of_all_inputs
    assert all(fit.r_squared > 0.99 for fit in curved.column_fits)


@pytest.mark.parametrize("part", [None, 2])
def test_derivatives_agree_with_central_differences(curved: LocalModel, part: int | None) -> None:
    x = inputs_near(curved).T.contiguous().numpy()
    parts = None if part is None else torch.full((x.shape[1],), part).numpy()
    _, slopes = curved.steps.step(x, parts)
    for column in range(x.shape[0]):
        up, down = x.copy(), x.copy()
        up[column] += 1e-6
        down[column] -= 1e-6
        numeric = (curved.steps.step(up, parts)[0] - curved.steps.step(down, parts)[0]) / 2e-6
        apart = abs(numeric - slopes[:, column])
        # A step across the edge of a chart's box has no derivative; hardly any does that.
        assert (apart < 1e-5 * (1 + abs(numeric))).mean() > 0.97


def test_predictions_go_round_with_an_angle(curved: LocalModel) -> None:
    s = torch.tensor([[3.1, 0.5, 0.1], [3.1 - 2 * math.pi, 0.5, 0.1]], dtype=torch.float64)
    found = curved.predict(s, torch.zeros(2, 1, dtype=torch.float64))
    assert torch.allclose(found.displacement[0], found.displacement[1], atol=1e-9)
    assert float(found.displacement[0, 1]) == pytest.approx(0.5 * math.sin(9.3), abs=0.1)


@pytest.mark.parametrize("steep", [40.0, 300.0])
def test_the_small_price_of_an_action_is_kept_beside_a_steep_penalty(steep: float) -> None:
    rng = np.random.default_rng(0)
    s, a = rng.uniform(0, 1, (500, 2)), rng.normal(0.5, 0.2, (500, 1))
    s[:, 1] = rng.normal(0.5, 0.2, 500)
    rewards = -0.1 * (a[:, 0] - 0.5) ** 2 - steep * np.maximum(s[:, 0] - 0.7, 0.0) ** 2
    model = LocalModel(Transitions.from_arrays(s, a, rewards, 0.9 * s))
    states = torch.tensor([[0.3, 0.5]] * 2, dtype=torch.float64)
    dear, free = model.predict(states, torch.tensor([[0.1], [0.5]], dtype=torch.float64)).reward.tolist()
    assert free - dear == pytest.approx(0.1 * 0.4**2, rel=0.2)
    assert free == pytest.approx(0.0, abs=7.5e-5 * steep)


def test_a_part_rests_on_its_rows_alone() -> None:
    data = linear_log(150, noise=0.1)
    model = LocalModel(data)
    kept = torch.zeros(1, model.rows.num_groups, dtype=torch.bool)
    kept[0, :5] = True
    mine = kept[0][model.rows.groups[model.rows.copies]]
    wild = replace(data, next_states=torch.where(mine[:, None], data.next_states, 50.0 + data.next_states))
    x = inputs_near(model).T.contiguous().numpy()
    rows = replace(model.rows, targets=RegressionRows.of(wild).targets)
    charts = [Charts(rows, block.columns, block.shape, Excitation.of(rows)) for block in model.steps.blocks]
    other = model.with_parts(kept)
    other.steps.chart_fits = [ChartFit(one, kept) for one in charts]
    steps = slice(0, 2)
    assert abs(stepped(other, x)[steps] - stepped(model.with_parts(kept), x)[steps]).max() < 1e-9


def test_far_from_the_data_almost_everything_is_unknown_and_amid_them_nothing(curved: LocalModel) -> None:
    inside = curved.data.states[:50]
    a = torch.zeros(50, 1, dtype=torch.float64)
    far = inside + torch.tensor([0.0, 30.0, 0.0], dtype=torch.float64)
    assert float(curved.predict(inside, a).unknown.median()) < 1e-3
    assert float(curved.predict(far, a).unknown.min()) > 0.99
    assert bool(curved.predict(far, a).displacement.isfinite().all())


def test_a_reward_that_never_varies_counts_as_explained() -> None:
    data = replace(linear_log(80), rewards=torch.full((80,), -1.0, dtype=torch.float64))
    fit: ColumnFit = LocalModel(data).column_fits[-1]
    assert fit.name == "reward"
    assert fit.r_squared == 1.0
    assert float(LocalModel(data).predict(data.states[:5], data.actions[:5]).reward.std()) < 1e-9


def test_a_single_row_makes_a_model() -> None:
    data = linear_log(1, episodes=1)
    model = LocalModel(data)
    assert model.num_parts == 1
    found = model.predict(data.states, data.actions)
    assert torch.allclose(found.displacement, data.next_states - data.states, atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1_000), st.integers(3, 60))
def test_predictions_are_finite_for_any_small_log(seed: int, rows: int) -> None:
    model = LocalModel(linear_log(rows, noise=1.0, seed=seed, episodes=3))
    found = model.predict(10 * model.data.states, 10 * model.data.actions)
    for part in (found.displacement, found.reward, found.noise, found.unknown):
        assert bool(part.isfinite().all())
    assert bool((found.noise >= 0).all())


def test_a_quadratic_cost_is_exact_far_beyond_the_rows() -> None:
    model = LocalModel(linear_log())
    s = torch.tensor([[5.0, -6.0]], dtype=torch.float64)
    a = torch.tensor([[4.0]], dtype=torch.float64)
    found = model.predict(s, a)
    assert float(found.reward) == pytest.approx(-61.0 - 1.6, rel=1e-5)
    assert found.reward_slope[0].tolist() == pytest.approx([-10.0, 12.0, -0.8], rel=1e-4)
    assert model.num_charts == 0


def test_the_derivative_of_a_quadratic_fit_holds_with_angles_and_parts() -> None:
    data = curved_log(300)
    angle, speed, _ = data.states.T
    data = replace(data, rewards=angle.cos() * speed + 0.3 * angle.sin() * angle.cos() - speed.square())
    model = LocalModel(data)
    assert model.column_fits[-1].degree == 2
    x, part = inputs_near(model, 6).T.contiguous().numpy(), np.array([0, 2, 1, 1, 0, 2])
    out, slopes = model.steps.step(x, part)
    for column in range(len(x)):
        moved = [x.copy(), x.copy()]
        moved[0][column] += 1e-6
        moved[1][column] -= 1e-6
        up, down = (model.steps.step(one, part)[0] for one in moved)
        assert slopes[3, column] == pytest.approx((up[3] - down[3]) / 2e-6, abs=1e-5)
    plain, none = model.steps.step(x, part, slopes=False, noise=False)
    assert plain[:4] == pytest.approx(out[:4], abs=1e-12)
    assert none.size == 0


def test_what_leaving_costs_is_the_worst_logged_horizon_for_ever() -> None:
    n = 40
    s, a = torch.randn(n, 1, dtype=torch.float64), torch.randn(n, 1, dtype=torch.float64)
    r = torch.zeros(n, dtype=torch.float64)
    r[7], r[20:30] = -100.0, -20.0  # one bad reward, and ten of an episode that are rather bad
    data = Transitions.from_arrays(s, a, r, s, episodes=torch.arange(n) // 20)
    assert LocalModel(data).worst_value(0.9) == pytest.approx(-20.0 / 0.1)
    assert LocalModel(replace(data, episodes=None)).worst_value(0.9) == pytest.approx(-100.0 / 0.1)
    assert LocalModel(data).worst_value(0.5) == pytest.approx(-50.0 / 0.5)


def test_an_input_without_effect_may_lie_farther_beyond_the_log() -> None:
    data = linear_log(300)
    bend = 0.05 * data.states[:, :1] ** 3 * torch.tensor([[1.0, 0.0]])  # grows outwards: not followed
    data = replace(data, next_states=data.next_states + bend)
    idle = torch.rand(300, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    wide = Transitions.from_arrays(
        torch.cat([data.states, idle], dim=1),
        data.actions,
        data.rewards,
        torch.cat([data.next_states, idle], dim=1),
        episodes=data.episodes,
    )
    model, action = LocalModel(wide), torch.zeros(1, 1, dtype=torch.float64)
    low, high = wide.states.amin(dim=0), wide.states.amax(dim=0)
    for column, unknown in ((0, True), (2, False)):
        s = wide.states.mean(dim=0).clone()
        s[column] = high[column] + 0.5 * (high[column] - low[column])
        assert (float(model.predict(s[None], action).unknown) > 0.5) == unknown


def test_statistics_of_groups_add_up() -> None:
    data = linear_log(150, noise=0.1)
    rows = RegressionRows.of(data)
    used = torch.ones(3, dtype=torch.bool)
    charts = Charts(rows, [0, 1, 2], ChartShape(used, used.double(), 2, 30, 1e-4), Excitation.of(rows))
    assert charts.sums is not None
    half = torch.arange(rows.num_groups) < rows.num_groups // 2
    chart = 7
    centre = charts.centers[chart]
    offsets = (rows.inputs - centre) / rows.space.units * charts.scale[chart]
    distance = ((rows.inputs - centre) / rows.space.units).square().sum(dim=1)
    w = kernel_weights(distance, charts.radius[chart]) * rows.weights * half[rows.groups]
    phi = design(offsets, 2)
    assert torch.allclose(charts.sums.grams[0][half].sum(dim=0)[chart], (phi * w[:, None]).T @ phi, atol=1e-9)
