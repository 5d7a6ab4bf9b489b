import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nopg.errors import ArgumentError
from studies.paper._scores import Scores, summarize


def test_last_best_and_selected_are_three_things() -> None:
    scores = Scores(returns=(-300.0, -900.0, -400.0), judged=(-5.0, -1.0, -2.0))
    assert (scores.last, scores.best, scores.selected) == (-400.0, -300.0, -900.0)


def test_of_equal_judgements_the_latest_is_selected() -> None:
    assert Scores(returns=(1.0, 2.0, 3.0), judged=(7.0, 7.0, 0.0)).selected == 2.0


def test_scores_need_a_judgement_each() -> None:
    with pytest.raises(ArgumentError, match="2 returns and 1 judgements"):
        Scores(returns=(1.0, 2.0), judged=(1.0,))


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12))
def test_a_summary_lies_in_its_intervals(scores: list[float]) -> None:
    summary = summarize(scores)
    slack = 1e-9 * (1 + max(map(abs, scores)))
    assert min(scores) - slack <= summary.mean_interval[0] <= summary.mean + slack
    assert summary.mean - slack <= summary.mean_interval[1] <= max(scores) + slack
    assert min(scores) - slack <= summary.iqm <= max(scores) + slack
    assert summary.count == len(scores)


def test_the_interval_of_the_mean_has_the_width_it_should() -> None:
    x = np.random.default_rng(0).normal(5.0, 2.0, 400)
    low, high = summarize(list(x)).mean_interval
    assert high - low == pytest.approx(2 * 1.96 * x.std() / 20, rel=0.1)
    assert low < 5.0 < high


def test_scores_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ArgumentError, match="give finite numbers"):
        summarize([1.0, float("nan")])
    with pytest.raises(ArgumentError, match="at least one"):
        summarize([])
