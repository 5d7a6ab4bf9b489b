"""How far beyond its rows a fit is followed, by what one of the inner rows misses in the outer ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nopg.data import Transitions
from nopg.models import LocalModel
from nopg.models._reach import LEAST_GROWTH

ROWS = 400


def log(bend: float = 0.0, noise: float = 0.01, kink: float = np.inf, rows: int = ROWS) -> Transitions:
    """A plant of two states, linear but for a bend of the first displacement or a kink beyond a place."""
    rng = np.random.default_rng(0)
    s, a = rng.normal(size=(rows, 2)), rng.uniform(-1.0, 1.0, size=(rows, 1))
    step = 0.1 * (s @ np.array([[-1.0, 0.5], [0.2, -0.6]]).T) + 0.1 * a * [0.0, 1.0]
    step[:, 0] += bend * s[:, 0] ** 3 + 0.5 * np.maximum(s[:, 0] - kink, 0.0)
    step += noise * rng.normal(size=s.shape)
    data = Transitions.from_arrays(s, a, np.zeros(rows), s + step, state_names=["x", "y"], action_names=["u"])
    return data.with_reward("-x**2 - y**2 - 0.1*u**2")


def growths(data: Transitions) -> list[float]:
    return [charts.growth for charts in LocalModel(data).steps.blocks]


def beyond(data: Transitions, ranges: float) -> float:
    """Return the unknown share where the first state lies so many ranges above its logged range."""
    low, high = data.states[:, 0].aminmax()
    place = torch.tensor([[float(high + ranges * (high - low)), 0.0, 0.0]])
    return float(LocalModel(data).support.unknown(place)[0])


def test_a_linear_plant_is_followed_beyond_the_log_but_not_to_where_rollouts_hold_the_states() -> None:
    assert max(growths(log())) == LEAST_GROWTH
    assert beyond(log(), 0.4) < 0.01
    assert beyond(log(), 0.9) > 0.99  # they hold them at one range beyond


def test_a_fit_whose_error_grows_outwards_is_not_followed() -> None:
    bent = log(bend=0.1)
    assert max(growths(bent)) > 0.3
    assert beyond(bent, 0.5) > 0.9


def test_a_kink_in_the_outer_rows_is_noticed() -> None:
    assert max(growths(log(kink=1.2))) > 5 * LEAST_GROWTH


def test_noise_and_few_rows_hide_the_growth_so_it_is_taken_to_be_larger() -> None:
    noisy = [max(growths(log(noise=0.3, rows=rows))) for rows in (120, 2_000)]
    assert noisy[0] > noisy[1] >= LEAST_GROWTH


def test_units_and_offsets_of_columns_do_not_matter() -> None:
    data = log(bend=0.05)
    s, after, a = data.states.numpy(), data.next_states.numpy(), data.actions.numpy()
    scaled = Transitions.from_arrays(1e3 * s + 50.0, 1e-2 * a - 3.0, np.zeros(ROWS), 1e3 * after + 50.0)
    plain = Transitions.from_arrays(s, a, np.zeros(ROWS), after)
    assert growths(scaled) == pytest.approx(growths(plain), rel=1e-5)
