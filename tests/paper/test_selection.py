from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg import Bandwidths, Transitions, select_bandwidths
from nopg._seeding import generator
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError, DataError
from nopg.paper._selection import (
    Table,
    error_and_gradient,
    leave_one_out,
    level_spacing,
    neighbors,
)


def noise(rows: int, seed: int = 0) -> Transitions:
    rng = np.random.default_rng(seed)
    s, a = rng.normal(size=(rows, 2)), rng.uniform(-1, 1, size=(rows, 1))
    after = 0.9 * s + np.array([0.5, 0.0]) * a
    return Transitions.from_arrays(s, a, -np.square(s).sum(axis=1), after)


def test_the_held_out_error_by_hand() -> None:
    # Rows at 0, 1 and 3; each is predicted by the two others with weights exp(−½d²/h²).
    data = Transitions.from_arrays([0.0, 1.0, 3.0], [0.0, 1.0, 3.0], [0.0, 1.0, 5.0], [0.0, 1.0, 5.0])
    table = Table.of(data)
    rows = np.arange(3)
    error, _ = error_and_gradient(table, rows, neighbors(table, rows, np.ones(2)), np.zeros(2))
    x, y = table.inputs, table.targets
    missed = []
    for i in range(3):
        w = np.exp(-0.5 * np.square(x[i] - x).sum(axis=1))
        w[i] = 0.0
        missed.append(w @ y / w.sum() - y[i])
    assert error == pytest.approx(float(np.square(missed).mean()))


def test_the_slope_of_the_error_agrees_with_finite_differences() -> None:
    table, rng = Table.of(noise(80)), np.random.default_rng(1)
    rows, log_h = np.arange(80), rng.normal(size=3) * 0.3 - 0.5
    others = neighbors(table, rows, np.exp(log_h))
    _, slope = error_and_gradient(table, rows, others, log_h)
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-6
        ends = [error_and_gradient(table, rows, others, log_h + sign * step)[0] for sign in (1, -1)]
        assert slope[k] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


def test_a_column_that_predicts_nothing_gets_a_wide_kernel() -> None:
    data = noise(600)
    irrelevant = torch.randn(600, 1, generator=generator(0, "noise"), dtype=torch.float64)
    with_noise = Transitions.from_arrays(
        data.states, torch.cat([data.actions, irrelevant], dim=1), data.rewards, data.next_states
    )
    h = leave_one_out(Table.of(with_noise), np.zeros(4), np.full(4, np.inf))
    assert h[3] > 3 * h[2]


def test_neither_order_nor_copies_nor_units_matter() -> None:
    data = noise(300)
    h = select_bandwidths(data)
    rows = torch.randperm(300, generator=generator(0, "order"))
    twice = torch.cat([torch.arange(300), torch.arange(300)])
    for other in (data.take(rows), data.take(twice)):
        found = select_bandwidths(other)
        assert torch.allclose(found.states, h.states, rtol=1e-5)
        assert torch.allclose(found.actions, h.actions, rtol=1e-5)
    moved = replace(data, actions=100.0 * data.actions + 3.0)
    assert torch.allclose(select_bandwidths(moved).actions, 100.0 * h.actions, rtol=1e-4)


def test_on_a_grid_a_bandwidth_does_not_fall_below_a_share_of_its_spacing() -> None:
    data = collect_grid(Pendulum(), (15, 15, 2))
    h = select_bandwidths(data)
    states, actions = level_spacing(data)
    assert states[1] == pytest.approx(8 * 2 / 14)
    assert float(h.states[2]) >= 0.3 * states[1] * (1 - 1e-9)
    assert float(h.actions[0]) >= 0.5 * actions[0] * (1 - 1e-9)


def test_actions_without_levels_have_a_bandwidth_of_twice_their_range() -> None:
    rng = np.random.default_rng(0)
    s, a = rng.normal(size=(2_000, 1)), rng.uniform(-1, 1, size=(2_000, 1))
    a = np.where(rng.uniform(size=a.shape) < 0.7, np.sign(a), a)  # most are at a stop
    h = select_bandwidths(Transitions.from_arrays(s, a, -np.square(s[:, 0]), 0.9 * s + 2.0 * a))
    assert float(h.actions[0]) == pytest.approx(4.0)
    few = np.round(2 * a) / 2
    h = select_bandwidths(Transitions.from_arrays(s, few, -np.square(s[:, 0]), 0.9 * s + 2.0 * few))
    assert 0.25 <= float(h.actions[0]) <= 1.0


def test_what_cannot_be_selected_is_refused_in_words() -> None:
    data = noise(20)
    with pytest.raises(DataError, match="hold one value only"):
        select_bandwidths(replace(data, actions=torch.zeros_like(data.actions)))
    still = replace(data, rewards=torch.zeros(20), next_states=torch.zeros_like(data.states))
    with pytest.raises(DataError, match="nothing to predict"):
        select_bandwidths(still)
    with pytest.raises(ArgumentError, match="positive, finite"):
        Bandwidths.from_values([0.0], [1.0])
    with pytest.raises(ArgumentError, match=r"bandwidths.states has 1 numbers, the data have 2"):
        Bandwidths.from_values([1.0], [1.0]).check_columns(data.schema)
