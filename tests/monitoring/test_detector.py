"""The sequential test: its recursion by hand, and its rate of false alarms."""

import numpy as np
import pytest

from nopg._typing import FloatArray
from nopg.monitoring._detector import Detector


def no_shift(rows: int, columns: int) -> FloatArray:
    """Faults that show in nothing but an offset of each column."""
    return np.broadcast_to(np.eye(columns), (rows, columns, columns)).copy()


def ranks_of(uniform: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    return 2 * uniform - 1, 2 * uniform - 1, 2 * np.abs(2 * uniform - 1) - 1


def test_the_statistic_sums_products_of_factors_since_every_possible_change() -> None:
    detector = Detector(1, 0, np.empty(0))
    factors = np.log([[1.5] * 6, [0.5] * 6, [1.2] * 6])
    found = [np.exp(detector.update(row)) for row in factors]
    assert found == pytest.approx([1.5, 2.5 * 0.5, (1 + 1.25) * 1.2])
    # One by one: the products that begin at step 1, 2 and 3.
    assert found[2] == pytest.approx(1.5 * 0.5 * 1.2 + 0.5 * 1.2 + 1.2)


def test_the_change_is_dated_by_the_step_since_which_the_strongest_bet_has_won() -> None:
    detector = Detector(1, 0, np.empty(0))
    for factor in (0.5, 0.5, 0.5, 1.9, 1.9, 1.9):
        detector.update(np.full(6, np.log(factor)))
    assert detector.since == 4


def test_the_bet_on_a_shift_is_the_best_one_for_normal_errors() -> None:
    # e = 1 + g·ρ with g = 3δ/√π for an offset of δ = .5, and at most .9 for 1.5; ρ = 1.
    detector, one = Detector(1, 0, np.empty(0)), np.ones((1, 1))
    log_e = detector.factors(no_shift(1, 1), np.zeros((1, 1)), (one, one, one), np.array([True]))
    g = 3 * 0.5 / np.sqrt(np.pi)
    assert np.exp(log_e[0]) == pytest.approx([1 + g, 1 - g, 1.9, 0.1, 1.3, 1.8])


def test_an_allowance_is_taken_off_the_shift_that_is_bet_on() -> None:
    detector, one = Detector(1, 0, np.empty(0)), np.ones((1, 1))
    log_e = detector.factors(no_shift(1, 1), np.full((1, 1), 0.5), (one, one, one), np.array([True]))
    assert np.exp(log_e[0, :2]) == pytest.approx([1.0, 1.0])


def test_rows_outside_the_log_leave_all_bets_as_they_are() -> None:
    detector, one = Detector(1, 0, np.empty(0)), np.ones((2, 1))
    log_e = detector.factors(no_shift(2, 1), np.zeros((2, 1)), (one, one, one), np.array([False, True]))
    assert (log_e[0] == 0).all()
    assert (log_e[1] != 0).all()


def test_no_factor_is_ever_zero_however_large_the_expected_shifts() -> None:
    rng = np.random.default_rng(0)
    detector = Detector(3, 2, np.ones(3))
    shifts = 1e9 * rng.standard_normal((50, 8, 3))
    log_e = detector.factors(
        shifts, np.zeros((50, 3)), ranks_of(rng.integers(0, 2, (50, 3)).astype(float)), np.ones(50, bool)
    )
    assert np.isfinite(log_e).all()
    assert np.exp(log_e).min() >= 0.1 - 1e-12


def test_uniform_ranks_reach_the_threshold_as_rarely_as_the_bound_says() -> None:
    runs, steps, false_alarms = 300, 400, 0.2
    rng, alarms, means = np.random.default_rng(1), 0, []
    for _ in range(runs):
        detector = Detector(2, 1, np.ones(1))
        shifts = np.concatenate([no_shift(steps, 2), rng.standard_normal((steps, 2, 2))], axis=1)
        ranks = ranks_of(rng.random((steps, 2)))
        log_e = detector.factors(shifts, np.zeros((steps, 2)), ranks, np.ones(steps, bool))
        evidence = np.exp([detector.update(row) for row in log_e])
        alarms += evidence.max() >= steps / false_alarms
        means.append(evidence[-1])
    assert alarms / runs <= false_alarms
    assert alarms > 0  # the bound is not so wide that nothing ever happens
    assert np.median(means) < steps  # the mean is at most the number of steps


def test_a_shift_of_one_standard_deviation_is_found_within_a_hundred_steps() -> None:
    from scipy.stats import norm

    delays = []
    for seed in range(20):
        rng, detector = np.random.default_rng(seed), Detector(2, 1, np.ones(1))
        u = norm.cdf(rng.standard_normal((200, 2)) + np.array([1.0, 0.0]))
        shifts = np.concatenate([no_shift(200, 2), np.zeros((200, 2, 2))], axis=1)
        log_e = detector.factors(shifts, np.zeros((200, 2)), ranks_of(u), np.ones(200, bool))
        evidence = np.array([detector.update(row) for row in log_e])
        delays.append(int(np.argmax(evidence >= np.log(200_000))) or 999)
    assert np.quantile(delays, 0.9) <= 100
