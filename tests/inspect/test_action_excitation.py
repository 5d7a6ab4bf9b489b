"""`describe` says whether a log tells what an action does, and what to do if it does not."""

import math
import re

import pytest
import torch

from nopg.data import Transitions
from nopg.inspect import Grade, describe
from nopg.inspect._excitation import ActionExcitation, excitation_finding


def tank_log(steps_of: float, *, rows: int = 400, noise: float = 0.1) -> Transitions:
    """Return a level and a flow with a valve that follows the level, and random steps."""
    rng = torch.Generator().manual_seed(0)
    s = torch.randn(rows, 2, generator=rng, dtype=torch.float64)
    a = -2.0 * s[:, :1] + steps_of * (2 * torch.rand(rows, 1, generator=rng, dtype=torch.float64) - 1)
    after = 0.9 * s + torch.tensor([[0.2, 0.1]]) * a
    after = after + noise * torch.randn(rows, 2, generator=rng, dtype=torch.float64)
    return Transitions.from_arrays(
        s,
        a,
        -s[:, 0].square(),
        after,
        episodes=torch.arange(rows) % 10,
        state_names=("level", "flow"),
        action_names=("valve",),
    )


def test_a_valve_that_always_follows_the_level_stops_and_says_so() -> None:
    finding = describe(tank_log(0.0)).finding("excitation")
    assert finding is not None
    assert finding.grade is Grade.ERROR
    assert "valve is a function of level (0 % independent variation): its effect on" in finding.what
    assert "cannot be identified" in finding.what


@pytest.mark.parametrize(("steps", "grade"), [(0.02, Grade.ERROR), (0.3, Grade.WARNING), (2.0, Grade.OK)])
def test_the_grade_follows_the_size_of_the_steps(steps: float, grade: Grade) -> None:
    finding = excitation_finding(ActionExcitation.of(tank_log(steps)))
    assert finding is not None
    assert finding.grade is grade


def test_the_advised_steps_remove_the_doubt() -> None:
    finding = excitation_finding(ActionExcitation.of(tank_log(0.0)))
    assert finding is not None
    size = re.search(r"±([\d.]+)", finding.advice)
    assert size is not None
    better = excitation_finding(ActionExcitation.of(tank_log(float(size[1]))))
    assert better is not None
    assert better.grade is Grade.OK


def test_the_doubt_is_the_standard_error_of_regression() -> None:
    data = tank_log(0.5)
    (found,) = ActionExcitation.of(data)
    X = torch.cat([torch.ones(400, 1, dtype=torch.float64), data.states, data.actions], dim=1)
    errors = []
    for column in range(2):
        y = data.next_states[:, column] - data.states[:, column]
        fit = torch.linalg.lstsq(X, y[:, None]).solution
        residual = (y - (X @ fit)[:, 0]).square().sum() / (400 - 4)
        error = (residual * torch.linalg.inv(X.T @ X)[3, 3]).sqrt()
        errors.append(float(error * data.actions.std(correction=0) / y.std(correction=0)))
    assert found.doubt == pytest.approx(max(errors), rel=1e-3)
    assert found.own == pytest.approx(0.5 / math.sqrt(3), rel=0.1)
    assert found.follows == ("level",)


def test_bounds_of_an_action_are_no_excitation_at_other_places() -> None:
    data = tank_log(0.0)
    limited = data.actions.clamp(-3.0, 3.0)
    moved = 0.9 * data.states + torch.tensor([[0.2, 0.1]]) * limited
    held = Transitions.from_arrays(
        data.states, limited, data.rewards, moved, episodes=data.episodes, action_names=("valve",)
    )
    (found,) = ActionExcitation.of(held)
    assert found.own < 1e-9
    finding = excitation_finding((found,))
    assert finding is not None
    assert finding.grade is Grade.ERROR


def test_a_set_point_that_moves_is_no_effect_of_the_action_to_be_found() -> None:
    log = tank_log(2.0)
    goal = torch.randn(len(log), 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    followed = Transitions.from_arrays(
        torch.cat([log.states, goal], dim=1),
        log.actions,
        log.rewards,
        torch.cat([log.next_states, goal.roll(-1, 0)], dim=1),
        state_names=("level", "flow", "goal"),
        exogenous=["goal"],
    )
    plain, found = ActionExcitation.of(log)[0], ActionExcitation.of(followed)[0]
    assert found.column in {"level", "flow"}
    assert found.doubt == pytest.approx(plain.doubt, rel=0.1)
