"""The regulator against the supplement's numbers."""

import math
from typing import Any, cast

import numpy as np
import pytest
import torch

from nopg.envs import LQR
from nopg.errors import ArgumentError


def random_rows(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return torch.as_tensor(rng.uniform(-3, 3, (count, 2))), torch.as_tensor(rng.uniform(-20, 20, (count, 2)))


def scalar_step(x: list[float], u: list[float], r: float = -0.01) -> tuple[list[float], float]:
    """The supplement's numbers, written out."""
    reward = 0.5 * (-0.5 * x[0] ** 2 - 0.25 * x[1] ** 2 + r * u[0] ** 2 + r * u[1] ** 2)
    return [1.2 * x[0] + 0.1 * u[0], 1.1 * x[1] + 0.2 * u[1]], reward


@pytest.mark.parametrize(("lqr", "r"), [(LQR(), -0.01), (LQR.as_printed(), 0.01)])
def test_ten_thousand_random_steps_equal_the_supplements(lqr: LQR, r: float) -> None:
    states, actions = random_rows(10_000)
    next_states = lqr.step(states, actions)
    rewards = lqr.reward(states, actions, next_states)

    rows = zip(states.tolist(), actions.tolist(), strict=True)
    expected = [scalar_step(x, u, r) for x, u in rows]
    # Sums of four products of order 10 round below 10⁻¹⁴.
    np.testing.assert_allclose(next_states, [state for state, _ in expected], rtol=0, atol=1e-12)
    np.testing.assert_allclose(rewards, [reward for _, reward in expected], rtol=0, atol=1e-12)


def test_actions_are_never_clipped() -> None:
    actions = torch.tensor([[1e6, -1e6]], dtype=torch.float64)
    assert torch.equal(LQR().applied(actions), actions)
    assert LQR().step(torch.zeros(1, 2, dtype=torch.float64), actions).tolist() == [[1e5, -2e5]]


def test_every_start_is_the_same_and_no_state_is_terminal() -> None:
    assert LQR().initial(2).tolist() == [[1.0, 1.0]] * 2
    assert LQR().terminal(random_rows(3)[0]).tolist() == [False] * 3


def test_the_description_names_every_dimension() -> None:
    lqr = LQR()
    assert (lqr.state_names, lqr.action_names) == (("x1", "x2"), ("u1", "u2"))
    assert dict(lqr.angles) == {}
    assert lqr.state_low.tolist() == [-2.0, -2.0]
    assert lqr.state_high.tolist() == [2.0, 2.0]
    assert lqr.action_low.tolist() == [-15.0, -15.0]
    assert lqr.action_high.tolist() == [15.0, 15.0]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"dynamics": ((1.0, 0.0),)}, "dynamics has shape"),
        ({"control": ((1.0,), (1.0, 2.0))}, "control has rows of different lengths"),
        ({"state_reward": ((-1.0, 0.2), (0.0, -1.0))}, "state_reward must be symmetric"),
        ({"action_reward": ((math.nan, 0.0), (0.0, -1.0))}, "action_reward holds NaN"),
        ({"initial_state": ()}, "initial_state has shape"),
        ({"discount": 1.0}, "discount"),
        ({"state_bound": 0.0}, "state_bound"),
        ({"action_bound": math.inf}, "action_bound"),
    ],
)
def test_impossible_parameters_are_refused_by_name(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        LQR(**setting)


def test_an_impossible_count_is_refused() -> None:
    with pytest.raises(ArgumentError, match="num_states"):
        LQR().initial(cast(Any, 0))
