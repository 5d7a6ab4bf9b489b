"""Declared bounds that the log does not keep: an error wherever a controller would rest on both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import nopg
from nopg import TrainingConfig, Transitions
from nopg.data._bounds import check_bounds
from nopg.errors import DataError
from nopg.training import TrainingResult

SHORT = TrainingConfig(updates=1, seed=0, progress=False)


def tank(bounds: dict[str, tuple[float, float]], *, top: float = 1.0, level: float = 2.0) -> Transitions:
    """Return rows of a tank whose valve lies in [−1, 1] but for the last rows, whose level in [0, 2]."""
    rng = np.random.default_rng(0)
    levels, valve = rng.uniform(0.0, 2.0, 100), rng.uniform(-1.0, 1.0, 100)
    valve[[3, 7]] = 1.0 + 0.5 * (top - 1.0), top
    levels[5] = level
    return Transitions.from_arrays(
        levels,
        valve,
        -((levels - 1) ** 2),
        0.9 * levels + 0.3 * valve,
        state_names=["level"],
        action_names=["valve"],
        bounds=bounds,
    )


def trained(data: Transitions) -> TrainingResult:
    return nopg.optimize(data, 0.9, model="paper", config=SHORT)


def test_optimize_says_which_logged_actions_lie_outside_and_by_how_much() -> None:
    message = (
        r"bounds of 'valve' are \[-1, 1\], but 2 of 100 logged rows lie outside, by up to 0.5 \(row 7 has "
        r"1.5\); correct the bounds, or store the action as it was applied"
    )
    with pytest.raises(DataError, match=message):
        trained(tank({"valve": (-1.0, 1.0)}, top=1.5))


@pytest.mark.parametrize(("top", "refused"), [(1.0 + 1e-6, False), (1.0 + 4e-6, True)])
def test_a_rounding_of_a_millionth_of_the_width_is_allowed(top: float, refused: bool) -> None:
    data = tank({"valve": (-1.0, 1.0)}, top=top)
    if refused:
        with pytest.raises(DataError, match="1 of 100"):
            check_bounds(data)
    else:
        check_bounds(data)


@pytest.mark.parametrize(("level", "refused"), [(2.09, False), (2.11, True)])
def test_a_state_may_leave_its_bounds_by_the_noise_of_a_sensor(level: float, refused: bool) -> None:
    data = tank({"level": (0.0, 2.0)}, level=level)
    if refused:
        with pytest.raises(DataError, match=r"bounds of 'level' .* 1 of 100 .* if the sensor erred"):
            check_bounds(data)
    else:
        check_bounds(data)


def test_an_open_bound_and_an_angle_are_not_left() -> None:
    check_bounds(tank({"valve": (-1.0, np.inf)}, top=50.0))
    data = tank({"level": (0.0, 1.0)})
    check_bounds(replace(data, schema=replace(data.schema, angles={"level": 1.0})))


def test_bounds_that_are_narrowed_after_training_are_not_saved(tmp_path: Path) -> None:
    result = trained(tank({}))
    narrow = replace(result.policy, schema=replace(result.policy.schema, bounds={"valve": (-0.5, 0.5)}))
    with pytest.raises(DataError, match="bounds of 'valve'"):
        replace(result, policy=narrow).save(tmp_path / "narrow")
    assert not (tmp_path / "narrow").exists()


def test_too_few_rows_and_a_constant_action_are_refused_by_name_before_training() -> None:
    data = tank({})
    with pytest.raises(DataError, match=r"3 rows are too few .* it needs 6"):
        nopg.optimize(data.take(torch.arange(3)), 0.9, config=SHORT)
    still = replace(data, actions=torch.full_like(data.actions, 0.25))
    with pytest.raises(DataError, match=r"the action 'valve' is 0\.25 in every row"):
        nopg.optimize(still, 0.9, config=SHORT)
