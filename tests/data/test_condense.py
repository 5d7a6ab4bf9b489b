"""Few weighted rows for many: what they keep exactly, what they keep apart, and what they keep nearly."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._seeding import generator
from nopg.bellman import PaperProblem, solution_gradient
from nopg.data import Transitions
from nopg.envs import MountainCar, Pendulum, collect_uniform
from nopg.errors import ArgumentError
from nopg.kernels import Bandwidths
from nopg.models import PaperModel
from nopg.policies import MLPPolicy


def weights_of(data: Transitions) -> torch.Tensor:
    assert data.weights is not None
    return data.weights


def random_rows(seed: int, rows: int, *, weighted: bool = False) -> Transitions:
    rng = generator(seed, "rows")
    s, a, s_next = (torch.randn(rows, k, dtype=torch.float64, generator=rng) for k in (2, 1, 2))
    return Transitions.from_arrays(
        s,
        a,
        torch.randn(rows, generator=rng),
        s_next,
        terminated=torch.rand(rows, generator=rng) < 0.2,
        weights=0.1 + torch.rand(rows, generator=rng) if weighted else None,
    )


# What is exact.


@settings(deadline=None)
@given(seed=st.integers(0, 1000), rows=st.integers(1, 60), count=st.integers(2, 70), weighted=st.booleans())
def test_weights_and_means_add_up_to_those_of_the_data(
    seed: int, rows: int, count: int, weighted: bool
) -> None:
    data = random_rows(seed, rows, weighted=weighted)
    few = data.condense(count)
    assert len(few) == min(rows, count)
    w = torch.ones(rows, dtype=torch.float64) if data.weights is None else data.weights
    few_w = torch.ones(rows, dtype=torch.float64) if few.weights is None else few.weights
    # Sums of sixty numbers of about 1, up to rounding.
    for ended in (False, True):
        mine, theirs = data.terminated == ended, few.terminated == ended
        torch.testing.assert_close(few_w[theirs].sum(), w[mine].sum(), rtol=1e-12, atol=0)
        for name in ("states", "actions", "rewards", "next_states"):
            total = few_w[theirs] @ getattr(few, name)[theirs]
            torch.testing.assert_close(total, w[mine] @ getattr(data, name)[mine], rtol=0, atol=1e-12)


def test_data_with_no_more_rows_are_returned_as_they_are() -> None:
    data = random_rows(0, 20)
    assert data.condense(20) is data


def test_copies_become_one_row_to_the_bit_that_counts_them() -> None:
    distinct = collect_uniform(Pendulum(), 40, seed=0)
    counts = torch.randint(1, 6, (40,), generator=generator(0, "counts"))
    mixed = torch.repeat_interleave(counts)[torch.randperm(int(counts.sum()), generator=generator(1))]
    few = distinct.take(mixed).condense(60)
    assert len(few) == 40
    order, few_order = distinct.actions[:, 0].argsort(), few.actions[:, 0].argsort()
    for name in ("states", "actions", "rewards", "next_states"):
        assert torch.equal(getattr(few, name)[few_order], getattr(distinct, name)[order]), name
    assert torch.equal(weights_of(few)[few_order], counts[order].double())


def test_the_model_of_condensed_copies_is_that_of_the_copies() -> None:
    distinct = collect_uniform(MountainCar(), 60, seed=0)
    copies = distinct.take(torch.arange(60).repeat_interleave(torch.arange(60) % 4 + 1))
    h = Bandwidths.from_values([0.2, 0.02], [0.5])
    results = []
    for data in (copies, copies.condense(60)):
        problem = PaperProblem.build(
            PaperModel(data, h, prior_mass=0.1), distinct.states, discount=0.9, unknown_value=-50.0
        )
        policy = MLPPolicy.from_data(distinct.features, distinct.actions, rng=generator(0, "policy"))
        solution = problem.equation(policy, generator(0, "actions")).solve(tolerance=1e-13)
        results.append(
            (solution.expected_return, torch.cat([g.ravel() for g in solution_gradient(solution)]))
        )
    (J, gradient), (J_few, gradient_few) = results
    # Solves end at 10⁻¹³ of the right-hand side, times 1/(1 − γ) and a condition of a few.
    assert J_few == pytest.approx(J, rel=1e-10)
    torch.testing.assert_close(gradient_few, gradient, rtol=0, atol=1e-9 * float(gradient.abs().max()))


# What is kept apart.


def test_the_widest_gap_is_cut_first() -> None:
    x = [0.0, 0.1, 0.2, 9.0, 9.1, 4.0]
    few = Transitions.from_arrays(x, [0.0] * 6, x, x).condense(3)
    assert sorted(
        zip(few.states[:, 0].round(decimals=9).tolist(), weights_of(few).tolist(), strict=True)
    ) == [
        (0.1, 3.0),
        (4.0, 1.0),
        (9.05, 2.0),
    ]


def test_a_crowd_in_one_place_does_not_use_up_the_rows() -> None:
    crowd = 1e-3 * torch.randn(950, 1, dtype=torch.float64, generator=generator(0))
    few_elsewhere = torch.linspace(1.0, 50.0, 50, dtype=torch.float64)[:, None]
    x = torch.cat([crowd, few_elsewhere])
    data = Transitions.from_arrays(x, torch.zeros_like(x), torch.zeros(1000), x + 1.0)
    assert weights_of(data.condense(60)).tolist().count(1.0) >= 40


def test_ends_of_the_task_are_never_mixed_with_steps_that_go_on() -> None:
    x = [0.0] * 5
    data = Transitions.from_arrays(x, x, [0.0, 0.0, 1.0, 1.0, 1.0], x, terminated=[0, 0, 1, 1, 1])
    few = data.condense(2)
    assert few.terminated.tolist() == [False, True]
    assert few.rewards.tolist() == [0.0, 1.0]
    assert weights_of(few).tolist() == [2.0, 3.0]
    with pytest.raises(ArgumentError, match="keep 2 at least"):
        data.condense(1)


def test_angles_meet_across_their_seam_and_keep_their_turn() -> None:
    degrees = [350.0, 10.0, 720.0 + 80.0, 720.0 + 100.0]
    data = Transitions.from_arrays(degrees, [0.0] * 4, [0.0] * 4, degrees, angles={"s0": 360.0})
    few = data.condense(2)
    assert sorted(few.states[:, 0].remainder(360.0).round(decimals=9).remainder(360.0).tolist()) == [
        0.0,
        90.0,
    ]
    assert torch.equal(few.states, few.next_states)
    assert few.states.max() > 720.0


def test_the_scale_says_which_differences_count() -> None:
    s, a = [0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]
    data = Transitions.from_arrays(s, a, [0.0] * 4, s)
    by_state, by_action = data.condense(2, [0.1, 1.0]), data.condense(2, scale=[1.0, 0.1])
    assert sorted(by_state.states[:, 0].tolist()) == [0.0, 1.0]
    assert by_state.actions[:, 0].tolist() == [0.5, 0.5]
    assert sorted(by_action.actions[:, 0].tolist()) == [0.0, 1.0]


@pytest.mark.parametrize(("scale", "shift"), [(1e3, -20.0), (1e-4, 1e-2)])
def test_units_do_not_matter(scale: float, shift: float) -> None:
    data = collect_uniform(MountainCar(), 300, seed=0)
    by, plus = torch.tensor([[1.0, scale], [0.0, shift]], dtype=torch.float64)
    changed = replace(
        data,
        states=data.states * by + plus,
        next_states=data.next_states * by + plus,
        actions=scale * data.actions + shift,
        rewards=scale * data.rewards + shift,
    )
    few, few_changed = data.condense(50), changed.condense(50)
    assert torch.equal(weights_of(few_changed), weights_of(few))
    torch.testing.assert_close(few_changed.states, few.states * by + plus)


# What becomes of the rest.


def test_starts_stay_and_rows_are_unconnected() -> None:
    data = replace(random_rows(1, 40), episodes=torch.arange(40) // 10)
    few = data.condense(15)
    assert few.episodes is None
    assert not few.truncated.any()
    assert torch.equal(few.starts, data.starts)
    declared = data.starting_at([[1.0, 2.0], [3.0, 4.0]])
    assert torch.equal(declared.condense(15).starts, declared.starts)
    assert few.schema == data.schema


def test_where_every_state_is_a_start_as_many_are_drawn_evenly() -> None:
    x = torch.cat([torch.zeros(900), torch.linspace(10.0, 20.0, 100)]).double()
    data = Transitions.from_arrays(x, torch.zeros(1000), torch.zeros(1000), x)
    for whole in (data, replace(data.condense(500), initial_states=None)):
        starts = whole.condense(50).starts[:, 0]
        assert len(starts) == 50
        # Forty-five of fifty stand for nine tenths; one more or less at the border of the cells.
        assert abs(int((starts == 0.0).sum()) - 45) <= 1
        assert float(starts.mean()) == pytest.approx(float(x.mean()), rel=0.1)


def test_what_is_condensed_twice_stands_for_all() -> None:
    data = collect_uniform(Pendulum(), 2_000, seed=0)
    once, twice = data.condense(100), data.condense(500).condense(100)
    assert len(twice) == 100
    assert float(weights_of(twice).sum()) == pytest.approx(2_000)
    for few in (once, twice):
        assert float(weights_of(few) @ few.rewards) == pytest.approx(float(data.rewards.sum()), rel=1e-12)


def test_a_state_that_mostly_rests_and_constant_columns_are_no_obstacle() -> None:
    x = torch.arange(20.0)
    data = Transitions.from_arrays(x, torch.ones(20), torch.zeros(20), x)
    assert len(data.condense(7)) == 7
    same = Transitions.from_arrays(torch.ones(9), torch.ones(9), torch.ones(9), torch.ones(9))
    assert weights_of(same.condense(3)).tolist() == [9.0]


@pytest.mark.parametrize("count", [0, -3])
def test_no_row_at_all_cannot_stand_for_any(count: int) -> None:
    with pytest.raises(ArgumentError, match="keep at least 1 row"):
        random_rows(0, 5).condense(count)


@pytest.mark.parametrize("scale", [[1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 1.0, math.nan]])
def test_a_scale_has_a_positive_number_per_feature_and_action(scale: Any) -> None:
    with pytest.raises(ArgumentError, match="give a positive number for each of s0, s1, a0"):
        random_rows(0, 5).condense(2, scale)


# What is nearly the same.


def test_condensed_rows_tell_more_than_as_many_random_ones() -> None:
    data = collect_uniform(Pendulum(), 4_000, seed=0)
    data = data.starting_at(data.states[:50])
    h = Bandwidths.from_values([0.2, 0.2, 0.8], [1.0])  # 40 rows within a bandwidth, 8 of a fifth of them
    policy = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))

    def expected_return(some: Transitions) -> float:
        problem = PaperProblem.build(
            PaperModel(some, h), data.schema.encode(data.starts), discount=0.9, unknown_value=0.0
        )
        return float(problem.equation(policy, generator(0, "actions")).solve().expected_return)

    whole = expected_return(data)
    drawn = [torch.randperm(4_000, generator=generator(seed, "rows"))[:800] for seed in range(3)]
    error = abs(expected_return(data.condense(800)) - whole)
    assert error < 0.5 * min(abs(expected_return(data.take(rows)) - whole) for rows in drawn)
    assert error < 5e-3 * abs(whole)
