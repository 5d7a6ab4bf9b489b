"""The limits of a local model by hand: each number here decides an answer."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from models.test_local_model import linear_log
from nopg.data import Transitions
from nopg.models import LocalModel
from nopg.models._limits import highest_reward, input_range, state_bounds
from nopg.models._local_model import _halves
from nopg.models._regression_rows import RegressionRows
from nopg.models._rollout import leaving_share


def test_the_rate_of_leaving_is_20_times_the_unknown_share_per_horizon_and_at_most_10() -> None:
    # −log(1 − m) = .1, so the rate is 2 per 1/(1 − γ) = 100 steps.
    known = math.exp(-0.1)
    share, slope = leaving_share(np.array([math.log((1 - known) / known)]), 0.99)
    assert share == pytest.approx(1 - math.exp(-0.02))
    assert slope > 0
    share, slope = leaving_share(np.array([30.0]), 0.99)
    assert share == pytest.approx(1 - math.exp(-0.1))
    assert slope == 0.0
    # The cap begins at −log(1 − m) = ½.
    below, above = (leaving_share(np.log(np.array([math.exp(m) - 1])), 0.99)[1] for m in (0.499, 0.501))
    assert below.item() > 0
    assert above.item() == 0


@pytest.mark.parametrize(
    ("rewards", "limit"),
    [
        ([0.0, 9.99, 10.0], 10.0 + 19 * 0.01),  # by Robson and Whitlock
        ([0.0, 9.0, 10.0], 10.5),  # at most 5 % of the range
        ([0.0, 10.0, 10.0], 10.0),
        ([10.0], 10.0),
    ],
)
def test_the_highest_reward_by_hand(rewards: list[float], limit: float) -> None:
    assert highest_reward(torch.tensor(rewards, dtype=torch.float64), 10.0) == pytest.approx(limit)


def test_a_rollout_leaves_the_logged_states_by_at_most_their_range() -> None:
    s = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    low, high = state_bounds(Transitions.from_arrays(s, s, [0.0, 0.0], s + 1))
    assert (low.item(), high.item()) == (-2.0, 4.0)


def test_a_margin_is_a_tenth_of_the_range_and_wider_where_errors_grow_slowly() -> None:
    s = torch.tensor([[0.0], [4.0]], dtype=torch.float64)
    rows = RegressionRows.of(Transitions.from_arrays(s, s / 2, [0.0, 0.0], s), None)
    low, high, margin = input_range(
        rows.space, rows.extremes, torch.tensor([1.0, 0.04]), np.zeros(1, dtype=np.bool_)
    )
    assert (low.tolist(), high.tolist()) == ([0.0, 0.0], [4.0, 2.0])
    assert margin.tolist() == pytest.approx([0.4, 1.0])


def test_a_predicted_reward_is_below_the_lowest_by_at_most_the_logged_range() -> None:
    s = torch.arange(4.0, dtype=torch.float64)[:, None]
    model = LocalModel(Transitions.from_arrays(s, s, [2.0, 5.0, 4.0, 5.0], s))
    assert model.reward_clamp == (2.0 - 3.0, 5.0)


def test_a_column_with_r_squared_below_a_half_is_fitted_poorly(monkeypatch: pytest.MonkeyPatch) -> None:
    model = LocalModel(linear_log(40))
    fits = tuple(SimpleNamespace(name=str(r), r_squared=r) for r in (0.49, 0.5, 0.51))
    monkeypatch.setattr(LocalModel, "column_fits", fits)
    assert [fit.name for fit in model.poor_fits] == ["0.49"]


def test_the_error_of_a_model_comes_from_four_halves_and_their_complements() -> None:
    kept = cast(Any, _halves(10, 0))
    assert kept.shape == (9, 10)
    assert kept[0].all()
    assert torch.equal(kept[1::2], ~kept[2::2])
    assert LocalModel(linear_log(200)).num_parts == 9


def test_amid_its_rows_one_part_in_ten_thousand_is_unknown_and_more_by_the_square_of_the_distance() -> None:
    # A single row has no range: its margin is one unit of each column.
    model = LocalModel(Transitions.from_arrays([[0.0]], [[0.0]], [1.0], [[0.0]]))
    units = model.rows.space.units
    x = torch.stack([0 * units, units])
    unknown = model.predict(x[:, :1], x[:, 1:]).unknown
    assert float(unknown[0]) == pytest.approx(1e-4, rel=1e-3)
    odds = 1e-4 * math.exp(2.0 * (1 + 1))
    assert float(unknown[1]) == pytest.approx(odds / (1 + odds))
