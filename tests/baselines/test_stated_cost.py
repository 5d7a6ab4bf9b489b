"""LQR by the errors of a stated reward, and actions up to their declared bounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nopg._expressions import Expression
from nopg.baselines._regulator import LinearQuadraticFit
from nopg.data import Transitions
from nopg.data._bounds import action_limits
from nopg.models import LocalModel


def log(reward: str, rows: int = 300) -> Transitions:
    """A level that follows a valve slowly, with a goal that is held; logged within half the valve's range."""
    rng = np.random.default_rng(0)
    level, valve = rng.uniform(0.0, 2.0, rows), rng.uniform(0.25, 0.75, rows)
    goal = rng.choice([0.6, 1.0, 1.4], rows)
    after = level + 0.2 * (2.0 * valve - level)
    return Transitions.from_arrays(
        np.stack([level, goal], axis=1),
        valve,
        np.zeros(rows),
        np.stack([after, goal], axis=1),
        state_names=["level", "goal"],
        action_names=["valve"],
        bounds={"valve": (0.0, 1.0)},
        exogenous={"goal": "hold"},
    ).with_reward(reward)


@pytest.mark.parametrize(
    ("formula", "parts"),
    [
        ("-(x - y)**2 - 0.1*u**2", [(0.0, {"x": 1.0, "y": -1.0}), (0.0, {"u": 1.0})]),
        ("-log(abs(next(x) - 3)/2 + 0.01) - 5*u", [(-3.0, {"next(x)": 1.0})]),
        ("max(2*(x - 1), 0)**2", [(-2.0, {"x": 2.0})]),
        ("x*y - 3*u + 1", [(0.0, {"x": 1.0}), (0.0, {"y": 1.0})]),
    ],
)
def test_errors_of_a_formula_are_what_functions_are_taken_of(
    formula: str, parts: list[tuple[float, dict[str, float]]]
) -> None:
    assert Expression(formula).affine_parts() == parts


def test_a_logarithmic_cost_gives_the_regulator_of_its_error() -> None:
    fits = [
        LinearQuadraticFit.of(log(cost)) for cost in ("-(level - goal)**2", "-log(abs(level - goal) + 0.01)")
    ]
    laws = [fit.regulator(0.95) for fit in fits if fit is not None]
    quadratic, logarithmic = (law for law in laws if law is not None)
    assert logarithmic.gain[0].tolist() == pytest.approx(quadratic.gain[0].tolist(), rel=1e-2)


def test_moves_of_an_action_and_of_a_state_cost_what_their_columns_do() -> None:
    rng = np.random.default_rng(0)
    level, valve = np.ones(301), rng.uniform(0.25, 0.75, 300)
    for t, opened in enumerate(valve):
        level[t + 1] = level[t] + 0.2 * (2.0 * opened - level[t])
    data = Transitions.from_arrays(
        level[:-1],
        valve,
        np.zeros(300),
        level[1:],
        state_names=["level"],
        action_names=["valve"],
        episodes=np.zeros(300, dtype=int),
    ).derive(lags={"valve": 1})
    laws = []
    for reward in (
        "-(level - 1)**2 - 0.5*diff(valve)**2 - diff(level)**2",
        "-(level - 1)**2 - 0.5*(valve - valve_lag1)**2 - (next(level) - level)**2",
    ):
        fit = LinearQuadraticFit.of(data.with_reward(reward))
        assert fit is not None
        laws.append(fit.regulator(0.95))
    one, other = (law for law in laws if law is not None)
    assert one.gain[0].tolist() == pytest.approx(other.gain[0].tolist(), rel=1e-6)
    assert abs(float(one.gain[0, data.schema.states.index("valve_lag1")])) > 0.3


def test_the_price_of_actions_leaves_the_set_point_where_it_is() -> None:
    fit = LinearQuadraticFit.of(log("-(level - goal)**2"))
    assert fit is not None
    for price in (0.0, 0.1, 10.0):
        law = fit.regulator(0.95, price=price)
        assert law is not None
        for goal in (0.6, 1.4):  # the valve that holds the level is half of it
            assert float(law(torch.tensor([[goal, goal]], dtype=torch.float64))) == pytest.approx(
                goal / 2, abs=2e-3
            )


def test_controllers_act_up_to_declared_bounds_and_without_them_as_was_logged() -> None:
    data = log("-(level - goal)**2")
    assert [limit.tolist() for limit in action_limits(data)] == [[0.0], [1.0]]
    assert LocalModel(data).action_limits[:, 0].tolist() == pytest.approx([0.0, 1.0])
    bare = Transitions.from_arrays(data.states, data.actions, data.rewards, data.next_states)
    logged = [float(data.actions.min()), float(data.actions.max())]
    assert LocalModel(bare).action_limits[:, 0].tolist() == logged
