"""Rows that nothing foretells, and whether a controller comes near to them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import ndtri

from nopg._typing import FloatArray
from nopg.data import Transitions
from nopg.models import LocalModel
from nopg.models._regression_rows import InputSpace
from nopg.models._residuals import RareRows, Residuals

ROWS = 401


def runaways() -> Transitions:
    """Return episodes of s′ = .9 s + .3 a + w, five of which run away from above 2 and end there."""
    rng, rows, left = np.random.default_rng(0), list[tuple[float, ...]](), 5
    for episode in range(40):
        s = rng.uniform(-3, 3)
        for _ in range(15):
            a, runs = rng.uniform(-1, 1), s > 2.0 and left > 0
            after = 0.9 * s + 0.3 * a + 0.15 * rng.normal() + 9.0 * runs
            rows.append((s, a, after, episode))
            s, left = after, left - runs
            if runs:
                break
    states, actions, after, episodes = np.array(rows).T
    return Transitions.from_arrays(
        states, actions, -np.square(states), after, episodes=episodes.astype(int), state_names=["level"]
    )


def around(level: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a hundred weighted states near a level."""
    return torch.linspace(level - 0.2, level + 0.2, 100, dtype=torch.float64)[:, None], torch.ones(100)


def test_paths_near_five_runaways_are_flagged_and_those_that_stay_far_are_not() -> None:
    model = LocalModel(runaways())
    assert model.residuals is not None
    found = RareRows.of(model.residuals, model.state_space, 0.9)
    assert found.count >= 5  # rows beside them are predicted by them
    assert found.names == ("level",)
    assert found.near(*around(2.5))
    assert not found.near(*around(-1.0))


def test_a_log_of_noise_has_no_rare_rows() -> None:
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-3, 3, (600, 1)), rng.uniform(-1, 1, (600, 1))
    data = Transitions.from_arrays(s, a, -np.square(s[:, 0]), 0.9 * s + 0.3 * a + rng.normal(size=(600, 1)))
    model = LocalModel(data)
    assert model.residuals is not None
    found = RareRows.of(model.residuals, model.state_space, 0.9)
    assert found.count == 0
    assert not found.near(*around(0.0))


# The constants that decide, by hand


def residuals_of(errors: FloatArray, *, step: float = 0.0, linked: bool = False) -> Residuals:
    """Return residuals (n,) at the states 0, 1, …, n − 1, whose steps have a standard deviation."""
    states = np.arange(float(len(errors)))[:, None]
    after = states + step * np.where(np.arange(len(errors)) % 2 == 0, 1.0, -1.0)[:, None]
    log = Transitions.from_arrays(states, 0.0 * states, 0.0 * errors, after)
    follows = np.full(len(errors), linked)
    follows[0] = False
    return Residuals(log, follows, errors[:, None], 0.0 * errors, np.ones(1))


def rare(errors: FloatArray, *, discount: float = 0.5, **settings: float) -> RareRows:
    found = residuals_of(errors, **settings)  # type: ignore[arg-type]
    return RareRows.of(found, InputSpace.of(found.log.schema, found.log.states), discount)


def normal_errors(far: float, at: int = 200) -> FloatArray:
    """Return quantiles of the normal distribution in which one row is so far off."""
    errors: FloatArray = ndtri((np.arange(ROWS) + 0.5) / ROWS)
    errors[at] = far
    return errors


@pytest.mark.parametrize(("far", "count"), [(14.8, 0), (15.2, 1), (-15.2, 1)])
def test_a_row_is_rare_beyond_fifteen_robust_deviations(far: float, count: int) -> None:
    assert rare(normal_errors(far)).count == count


@pytest.mark.parametrize(("far", "count"), [(0.74, 0), (0.76, 1)])
def test_a_deviation_is_at_least_a_twentieth_of_that_of_the_steps(far: float, count: int) -> None:
    assert rare(1e-6 * normal_errors(0.0) + far * (np.arange(ROWS) == 9), step=1.0).count == count


@pytest.mark.parametrize(("share", "near"), [(0.0099, False), (0.0101, True)])
def test_a_hundredth_of_the_weight_of_paths_may_be_near(share: float, *, near: bool) -> None:
    found = rare(normal_errors(30.0))
    states = torch.tensor([[200.0], [0.0]], dtype=torch.float64)
    assert found.near(states, torch.tensor([share, 1.0 - share], dtype=torch.float64)) is near


def test_the_margin_is_that_of_the_farthest_row_that_led_there_within_a_horizon() -> None:
    found = rare(normal_errors(30.0), linked=True, discount=0.8)  # five steps
    unit = float(found.space.units[0])
    assert found.margin == pytest.approx(5.0 / unit)
    for level, near in ((194.9, False), (195.1, True), (205.1, False)):
        states = torch.tensor([[level]], dtype=torch.float64)
        assert found.near(states, torch.ones(1, dtype=torch.float64)) is near


def test_rows_that_do_not_follow_led_nowhere() -> None:
    assert rare(normal_errors(30.0), discount=0.8).margin == 0.0


def test_a_far_reward_is_named() -> None:
    found = residuals_of(normal_errors(0.0))
    far = Residuals(found.log, found.linked, 0.0 * found.states, normal_errors(40.0), found.spread)
    every = RareRows.of(far, InputSpace.of(far.log.schema, far.log.states), 0.5)
    assert (every.count, every.names) == (1, ("reward",))
