"""The held-out error against its definition, its gradient against differences, and who is left out."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.optimize import check_grad

from kernels.bandwidth_cases import pendulum_episodes
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_grid, collect_uniform
from nopg.errors import DataError
from nopg.kernels import _leave_one_out
from nopg.kernels._leave_one_out import _error_and_gradient, _Pairs, _pairs, leave_one_out
from nopg.kernels._table import RegressionTable

Floats = npt.NDArray[np.float64]


def repeated_rows() -> Transitions:
    """Forty random rows of which some stand there two to five times, in a mixed order."""
    rows = torch.cat([torch.arange(40), torch.tensor([3] * 4 + [5] * 2 + [7, 11, 20])])
    return collect_uniform(Pendulum(), 40, seed=2).take(
        rows[torch.randperm(len(rows), generator=generator(0))]
    )


DATASETS: dict[str, Callable[[], Transitions]] = {
    "grid": lambda: collect_grid(Pendulum(), (5, 4, 2)),
    "scattered": lambda: collect_uniform(Pendulum(), 50, seed=1),
    "repeated": repeated_rows,
    "episodes": lambda: pendulum_episodes(num_episodes=5, steps=10),
}
every_dataset = pytest.mark.parametrize("name", DATASETS)


def held_out_error(data: Transitions, h: Floats) -> float:
    """The error by definition, on the raw rows: predict each distinct row from all that is not left out.

    Left out are the row's own copies or, where there are episodes, its own episode. Every copy of another
    row counts. h is in the units of the data, one number per feature and action.
    """
    x = torch.cat([data.features, data.actions], dim=1).numpy()
    y = torch.cat([data.rewards[:, None], data.next_features], dim=1).numpy()
    # Variance 1 for the reward and for the velocity; cosine and sine share theirs.
    variance = y.var(axis=0)
    y = (y - y.mean(axis=0)) / np.sqrt([variance[0], *[variance[1:3].mean()] * 2, variance[3]])
    rows = np.concatenate([x, y], axis=1)

    total, distinct = 0.0, list[int]()
    for i in range(len(rows)):
        if any(np.allclose(rows[i], rows[k], rtol=0, atol=1e-9) for k in distinct):
            continue
        distinct.append(i)
        numerator, denominator = np.zeros(y.shape[1]), 0.0
        for j in range(len(rows)):
            if data.episodes is None:
                together = np.allclose(rows[i], rows[j], rtol=0, atol=1e-9)
            else:
                together = bool(data.episodes[i] == data.episodes[j])
            if not together:
                w = math.exp(-0.5 * sum((x[i, k] - x[j, k]) ** 2 / h[k] ** 2 for k in range(len(h))))
                numerator, denominator = numerator + w * y[j], denominator + w
        total += float(((numerator / denominator - y[i]) ** 2).mean())
    return total / len(distinct)


def log_bandwidths(table: RegressionTable, h: Floats) -> Floats:
    """Return the free log bandwidths, in units of the table's scale."""
    log_h = np.empty(table.num_bandwidths)
    log_h[table.columns.numpy()] = np.log(h / table.scale.numpy())
    return log_h


# The error and its gradient.


@every_dataset
@pytest.mark.parametrize("h", [[0.3, 0.3, 1.5, 1.0], [1.0, 1.0, 4.0, 10.0]])
def test_the_error_is_that_of_the_definition_on_the_raw_rows(name: str, h: list[float]) -> None:
    data = DATASETS[name]()
    table = RegressionTable.from_data(data)
    log_h = log_bandwidths(table, np.array(h))
    error, _ = _error_and_gradient(table, _pairs(table, torch.as_tensor(np.exp(log_h))), log_h)
    # Sums of some dozens of terms in another order.
    assert error == pytest.approx(held_out_error(data, np.array(h)), rel=1e-10)


def test_the_error_of_three_rows_by_hand() -> None:
    # Standardised targets are those given: mean 0, variance 1. Row 0 sees rows 1 and 2 at distances 1 and 2.
    a = math.sqrt(1.5)
    table = RegressionTable(
        inputs=torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64),
        targets=torch.tensor([[-a], [0.0], [a]], dtype=torch.float64),
        log_counts=torch.zeros(3, dtype=torch.float64),
        held_out_with=torch.arange(3),
        scale=torch.ones(1, dtype=torch.float64),
        columns=torch.zeros(1, dtype=torch.int64),
        num_state_features=1,
    )
    share = math.exp(-2.0) / (math.exp(-0.5) + math.exp(-2.0))  # of the row at distance 2
    expected = (2 * (a * share + a) ** 2 + 0.0) / 3

    error, _ = _error_and_gradient(table, _pairs(table, torch.ones(1)), np.zeros(1))
    assert error == pytest.approx(expected, rel=1e-14)


@every_dataset
@pytest.mark.parametrize("log_h", [[-1.0, -1.0, 0.0], [0.0, 0.5, 1.0]])
def test_the_gradient_agrees_with_finite_differences(name: str, log_h: list[float]) -> None:
    table = RegressionTable.from_data(DATASETS[name]())
    x = np.array(log_h)
    pairs = _pairs(table, torch.as_tensor(np.exp(x)))
    difference = check_grad(
        lambda x: _error_and_gradient(table, pairs, x)[0],
        lambda x: _error_and_gradient(table, pairs, x)[1],
        x,
        epsilon=1e-6,
    )
    gradient = _error_and_gradient(table, pairs, x)[1]
    # A forward difference of step 10⁻⁶ errs by half of it times a second derivative of order 1.
    assert np.linalg.norm(gradient) > 1e-2
    assert difference < 1e-5


def test_blocks_of_rows_add_up_to_the_whole() -> None:
    # 700² pairs are three blocks; the second implementation knows none.
    table = RegressionTable.from_data(collect_uniform(Pendulum(), 700, seed=0))
    h = np.array([0.3, 0.4, 2.0])
    x, y = table.inputs.numpy() / h[table.columns.numpy()], table.targets.numpy()
    logits = -0.5 * np.square(x[:, None] - x).sum(axis=-1)
    np.fill_diagonal(logits, -np.inf)
    w = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected = float(np.square(w @ y / w.sum(axis=1, keepdims=True) - y).mean())

    error, _ = _error_and_gradient(table, _pairs(table, torch.ones(3)), np.log(h))
    assert error == pytest.approx(expected, rel=1e-11)  # a sum of 700 · 4 terms in another order


# Neighbour lists.


def complete_lists(monkeypatch: pytest.MonkeyPatch, **constants: int) -> None:
    """Take the road of large datasets, with every row sampled and lists that hold everyone."""
    values = {"_ALL_PAIRS_UP_TO": 0, "_ROWS_SAMPLED": 10_000, "_NEIGHBORS": 10_000} | constants
    for constant, value in values.items():
        monkeypatch.setattr(_leave_one_out, constant, value)


def error_gradient(table: RegressionTable, h: Floats) -> tuple[float, Floats]:
    return _error_and_gradient(table, _pairs(table, torch.as_tensor(h)), np.log(h))


@every_dataset
def test_complete_lists_give_the_error_and_the_gradient_of_all_pairs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, h = RegressionTable.from_data(DATASETS[name]()), np.array([0.3, 0.4, 2.0])
    error, gradient = error_gradient(table, h)
    complete_lists(monkeypatch)
    listed_error, listed_gradient = error_gradient(table, h)
    # The same sums in another order.
    assert listed_error == pytest.approx(error, rel=1e-12)
    np.testing.assert_allclose(listed_gradient, gradient, rtol=1e-10, atol=1e-12)


def test_complete_lists_from_the_other_episodes_give_the_error_and_the_gradient_of_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, h = RegressionTable.from_data(DATASETS["episodes"]()), np.array([0.3, 0.4, 2.0])
    error, gradient = error_gradient(table, h)
    complete_lists(monkeypatch, _LONG_EPISODE=0, _EPISODES_SAMPLED=100)
    listed_error, listed_gradient = error_gradient(table, h)
    assert listed_error == pytest.approx(error, rel=1e-12)
    np.testing.assert_allclose(listed_gradient, gradient, rtol=1e-10, atol=1e-12)


def test_short_lists_find_nearly_the_bandwidths_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    table = RegressionTable.from_data(collect_uniform(Pendulum(), 500, seed=0))
    expected = leave_one_out(table)
    complete_lists(monkeypatch, _NEIGHBORS=256)
    found = leave_one_out(table)
    # Half of the rows, the far ones, carry little of the weight; a flat optimum moves by more than its error.
    torch.testing.assert_close(found.bandwidths, expected.bandwidths, rtol=0.05, atol=0)
    assert found.error == pytest.approx(expected.error, rel=0.01)


def test_lists_hold_the_nearest_of_those_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    table, h = RegressionTable.from_data(DATASETS["episodes"]()), torch.tensor([0.3, 0.4, 2.0])
    x = table.inputs / h[table.columns]
    for long_episode in (10_000, 0):
        complete_lists(monkeypatch, _NEIGHBORS=7, _LONG_EPISODE=long_episode, _EPISODES_SAMPLED=100)
        pairs = _pairs(table, h)
        assert sorted(pairs.rows.tolist()) == list(range(len(x)))
        for i, others in zip(pairs.rows, pairs.others, strict=True):
            distances = (x - x[i]).square().sum(dim=1)
            distances[table.held_out_with == table.held_out_with[i]] = math.inf
            nearest = distances.sort().values[:7]
            torch.testing.assert_close(distances[others].sort().values, nearest, rtol=1e-12, atol=0)


def test_a_sample_of_rows_is_predicted_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    table = RegressionTable.from_data(DATASETS["scattered"]())
    complete_lists(monkeypatch, _ROWS_SAMPLED=20)
    pairs = _pairs(table, torch.ones(3))
    assert len(pairs.rows.unique()) == 20
    assert torch.equal(pairs.rows, _pairs(table, torch.ones(3)).rows)


def test_one_long_episode_among_short_ones_leaves_rows_to_predict(monkeypatch: pytest.MonkeyPatch) -> None:
    data = collect_uniform(Pendulum(), 400, seed=0)
    episodes = torch.arange(400)
    episodes[:60] = 0
    table = RegressionTable.from_data(replace(data, episodes=episodes))
    # Two of 341 episodes are asked: rows drawn from all the data would miss them.
    complete_lists(monkeypatch, _LONG_EPISODE=50, _ROWS_SAMPLED=20, _EPISODES_SAMPLED=2)
    pairs = _pairs(table, torch.ones(3))
    assert len(table.held_out_with[pairs.rows].unique()) == 2
    assert excluded(table, pairs)
    assert bool(leave_one_out(table).bandwidths.isfinite().all())


# Who is left out.


def excluded(table: RegressionTable, pairs: _Pairs) -> bool:
    """Tell whether exactly those are excluded that are left out with the row itself."""
    together = table.held_out_with[pairs.others] == table.held_out_with[pairs.rows][:, None]
    return torch.equal(together, pairs.log_weights.isneginf())


@pytest.mark.parametrize("constants", [{"_ALL_PAIRS_UP_TO": 1000}, {}, {"_LONG_EPISODE": 0}])
def test_no_row_is_predicted_from_its_own_episode(
    constants: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DATASETS["episodes"]()
    table = RegressionTable.from_data(data)
    complete_lists(monkeypatch, **constants)
    pairs = _pairs(table, torch.ones(3))
    assert table.held_out_with.bincount().tolist() == [10] * 5
    assert excluded(table, pairs)
    # Forty rows of four other episodes are left to predict from.
    assert (~pairs.log_weights.isneginf()).sum(dim=1).tolist() == [40] * 50


def test_the_targets_of_an_episode_do_not_reach_its_own_predictions() -> None:
    table = RegressionTable.from_data(DATASETS["episodes"]())
    pairs = _pairs(table, torch.ones(3))
    (first, *rest) = (table.held_out_with == 2).nonzero()[:, 0].tolist()
    alone = _Pairs(pairs.rows[[first]], pairs.others[[first]], pairs.log_weights[[first]])
    assert len(rest) == 9

    changed = table.targets.clone()
    changed[rest] = 100.0
    elsewhere = table.targets.clone()
    elsewhere[table.held_out_with == 1] = 100.0

    before, _ = _error_and_gradient(table, alone, np.zeros(3))
    assert _error_and_gradient(replace(table, targets=changed), alone, np.zeros(3))[0] == before
    assert _error_and_gradient(replace(table, targets=elsewhere), alone, np.zeros(3))[0] != before


def test_copies_are_one_row_left_out_together_and_counted_when_they_predict() -> None:
    data = repeated_rows()
    table = RegressionTable.from_data(data)
    assert len(table.inputs) == 40
    assert sorted(table.log_counts.exp().round().int().tolist())[-5:] == [2, 2, 2, 3, 5]
    assert int(table.log_counts.exp().sum().round()) == len(data)
    assert excluded(table, _pairs(table, torch.ones(3)))
    assert len(table.held_out_with.unique()) == 40


def test_a_single_episode_is_left_out_by_tenths_in_the_order_of_time() -> None:
    data = pendulum_episodes(num_episodes=1, steps=60)
    table = RegressionTable.from_data(data)
    time = [int((data.rewards == r).nonzero()) for r in _rewards(table, data)]
    assert [time[i] // 6 for i in range(60)] == table.held_out_with.tolist()


def _rewards(table: RegressionTable, data: Transitions) -> list[float]:
    """The raw rewards of the rows of the table, found among those of the data."""
    raw = table.targets[:, 0] * data.rewards.std(correction=0) + data.rewards.mean()
    nearest = (raw[:, None] - data.rewards).abs().argmin(dim=1)
    rewards: list[float] = data.rewards[nearest].tolist()
    return rewards


# The search.


@every_dataset
def test_the_bandwidths_found_are_a_minimum_of_the_error_they_report(name: str) -> None:
    data = DATASETS[name]()
    table = RegressionTable.from_data(data)
    found = leave_one_out(table)
    h, widest = found.bandwidths.numpy(), _leave_one_out._WIDEST * table.scale.numpy()
    # The search is in the units of the spread; here the definition on the raw rows.
    assert found.error == pytest.approx(held_out_error(data, h), rel=1e-10)
    for group in ([0, 1], [2], [3]):
        for factor in (0.98, 1.02):
            moved = h.copy()
            moved[group] = np.minimum(factor * h[group], widest[group])
            assert held_out_error(data, moved) >= found.error * (1 - 1e-9)


def test_both_features_of_an_angle_share_a_bandwidth() -> None:
    h = leave_one_out(RegressionTable.from_data(DATASETS["scattered"]())).bandwidths
    assert h[0] == h[1]


def test_bounds_are_kept_and_met_where_they_bind() -> None:
    table = RegressionTable.from_data(DATASETS["scattered"]())
    free = leave_one_out(table)
    narrowest = free.bandwidths * torch.tensor([0.0, 0.0, 1.5, 0.0])
    widest = free.bandwidths * torch.tensor([0.5, 0.5, math.inf, math.inf])
    bound = leave_one_out(table, narrowest=narrowest, widest=widest)
    # A bound is exponentiated and scaled back: two roundings.
    torch.testing.assert_close(bound.bandwidths[:2], widest[:2], rtol=1e-14, atol=0)
    torch.testing.assert_close(bound.bandwidths[2], narrowest[2], rtol=1e-14, atol=0)
    assert bound.error > free.error


def test_loose_bounds_change_nothing() -> None:
    table = RegressionTable.from_data(DATASETS["scattered"]())
    free = leave_one_out(table).bandwidths
    # The search passes by other points, and ends where its gradient of 10⁻⁹ or its error of 10⁻¹³ does.
    loose = leave_one_out(table, narrowest=free / 5, widest=free * 5).bandwidths
    torch.testing.assert_close(loose, free, rtol=1e-4, atol=0)


def test_where_the_bounds_contradict_each_other_the_lower_one_wins() -> None:
    table = RegressionTable.from_data(DATASETS["scattered"]())
    h = torch.tensor([0.5, 0.5, 2.0, 1.0], dtype=torch.float64)
    found = leave_one_out(table, narrowest=h, widest=h / 2).bandwidths
    torch.testing.assert_close(found, h, rtol=1e-14, atol=0)


def irrelevant_input(n: int = 200) -> Transitions:
    """Next states and rewards that depend on the first state column and on nothing else."""
    x = torch.rand(n, 2, dtype=torch.float64, generator=generator(0, "inputs"))
    u = torch.rand(n, 1, dtype=torch.float64, generator=generator(1, "inputs"))
    moved = torch.stack([torch.sin(6 * x[:, 0]), torch.cos(6 * x[:, 0])], dim=1)
    return Transitions.from_arrays(x, u, moved[:, 0], moved)


def test_an_input_that_decides_nothing_gets_a_wide_bandwidth() -> None:
    # All three inputs spread over .29. Beyond two spreads hardly any row differs from another by its column;
    # chance keeps a finite sample from infinity.
    h = leave_one_out(RegressionTable.from_data(irrelevant_input())).bandwidths
    assert float(h[0]) < 0.1 * 0.29
    assert float(h[1:].min()) > 2 * 0.29


def test_rows_without_another_to_compare_with_are_refused() -> None:
    table = RegressionTable.from_data(DATASETS["scattered"]())
    alone = replace(table, held_out_with=torch.zeros_like(table.held_out_with))
    with pytest.raises(DataError, match=r"at least two distinct transitions .* Bandwidths.from_values"):
        leave_one_out(alone)


def test_data_in_which_nothing_happens_are_refused() -> None:
    data = DATASETS["scattered"]()
    still = replace(
        data, rewards=torch.zeros_like(data.rewards), next_states=torch.zeros_like(data.next_states)
    )
    with pytest.raises(DataError, match="nothing to predict"):
        RegressionTable.from_data(still)


def test_a_constant_target_takes_no_part() -> None:
    data = DATASETS["scattered"]()
    table = RegressionTable.from_data(replace(data, rewards=torch.full((50,), -0.1, dtype=torch.float64)))
    whole = RegressionTable.from_data(data)
    # The rows of the two tables stand in different orders.
    order, whole_order = table.inputs[:, 0].argsort(), whole.inputs[:, 0].argsort()
    assert table.targets.shape == (50, 3)
    torch.testing.assert_close(table.targets[order], whole.targets[whole_order][:, 1:])


def test_the_search_repeats_and_leaves_the_global_generator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    table = RegressionTable.from_data(DATASETS["scattered"]())
    complete_lists(monkeypatch, _NEIGHBORS=20, _ROWS_SAMPLED=30)
    before = torch.get_rng_state()
    assert torch.equal(leave_one_out(table).bandwidths, leave_one_out(table).bandwidths)
    assert torch.equal(torch.get_rng_state(), before)


# The table.


def test_inputs_and_targets_are_in_units_of_their_spread() -> None:
    table = RegressionTable.from_data(DATASETS["scattered"]())
    spread = table.inputs.var(dim=0, correction=0)
    one = torch.ones((), dtype=torch.float64)
    # Cosine and sine share one unit, in which their mean variance is 1.
    torch.testing.assert_close(spread[:2].mean(), one)
    torch.testing.assert_close(spread[2:], one.expand(2))
    torch.testing.assert_close(table.targets.mean(dim=0), torch.zeros(4, dtype=torch.float64))
    variance = table.targets.var(dim=0, correction=0)
    torch.testing.assert_close(variance[1:3].mean(), one)
    torch.testing.assert_close(variance[[0, 3]], one.expand(2))
    assert (table.num_bandwidths, table.num_state_features) == (3, 3)
    assert table.columns.tolist() == [0, 0, 1, 2]


def test_the_rows_of_the_table_stand_in_an_order_of_their_own() -> None:
    data = repeated_rows()
    table = RegressionTable.from_data(data)
    other = RegressionTable.from_data(data.take(torch.randperm(len(data), generator=generator(9))))
    # Means of the columns are summed in another order.
    torch.testing.assert_close(other.inputs, table.inputs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(other.targets, table.targets, rtol=1e-12, atol=1e-12)
    assert torch.equal(other.log_counts, table.log_counts)


@every_dataset
def test_a_row_that_stands_for_several_counts_as_its_copies_would(name: str) -> None:
    data = DATASETS[name]()
    counts = torch.randint(1, 5, (len(data),), generator=generator(0, "counts"))
    copies = RegressionTable.from_data(data.take(torch.repeat_interleave(counts)))
    weighted = RegressionTable.from_data(replace(data, weights=counts.double()))
    for part in ("inputs", "targets", "log_counts", "scale"):
        # Means over a few hundred rows, added in another order.
        torch.testing.assert_close(getattr(weighted, part), getattr(copies, part), rtol=1e-10, atol=1e-12)
    assert torch.equal(
        weighted.held_out_with == weighted.held_out_with[0], copies.held_out_with == copies.held_out_with[0]
    )
    found, expected = leave_one_out(weighted), leave_one_out(copies)
    assert found.error == pytest.approx(expected.error, rel=1e-9)
