"""What a log tells apart: exact feedback leaves the effect of actions open, a test signal shows it."""

import numpy as np
import pytest
import torch

from nopg.data import Transitions
from nopg.models import LocalModel
from nopg.models._excitation import Excitation
from nopg.models._regression_rows import RegressionRows

GAIN = torch.tensor([[-1.0, -1.5]], dtype=torch.float64)


def feedback_log(steps_of: float, *, rows: int = 300, bend: float = 0.0, levels: bool = False) -> Transitions:
    """Return a double integrator under linear feedback with random steps added to the force."""
    rng = torch.Generator().manual_seed(3)
    s = torch.randn(rows, 2, generator=rng, dtype=torch.float64)
    steps = 2 * torch.rand(rows, 1, generator=rng, dtype=torch.float64) - 1
    a = s @ GAIN.T + steps_of * (steps.sign() if levels else steps)
    after = s @ torch.tensor([[1.0, 0.1], [0.0, 1.0]], dtype=torch.float64).T
    after = after + a @ torch.tensor([[0.005], [0.1]], dtype=torch.float64).T
    after[:, 1] += bend * (2 * s[:, 0]).sin() + 0.02 * torch.randn(rows, generator=rng, dtype=torch.float64)
    r = -s.square().sum(dim=1) - 0.01 * a[:, 0].square()
    return Transitions.from_arrays(s, a, r, after, episodes=torch.arange(rows) % 10)


def unknown(model: LocalModel, further: float) -> torch.Tensor:
    """Return the unknown shares where the force is further from the feedback's."""
    s = model.data.states[:40]
    return model.predict(s, s @ GAIN.T + further).unknown


@pytest.mark.parametrize("bend", [0.0, 0.5])
def test_under_exact_feedback_only_the_logged_actions_are_known(bend: float) -> None:
    model = LocalModel(feedback_log(0.0, bend=bend))
    assert float(unknown(model, 0.0).median()) < 1e-3
    assert float(unknown(model, 1.0).median()) > 0.5


@pytest.mark.parametrize("bend", [0.0, 0.5])
def test_random_steps_make_the_effect_of_other_actions_known(bend: float) -> None:
    model = LocalModel(feedback_log(1.0, bend=bend))
    assert float(unknown(model, 1.0).median()) < 1e-2


def test_steps_of_two_levels_leave_a_quadratic_reward_open() -> None:
    uniform, two_levels = (LocalModel(feedback_log(0.3, levels=levels)) for levels in (False, True))
    assert float(unknown(uniform, 1.2).median()) < 1e-2
    assert float(unknown(two_levels, 1.2).median()) > 0.5


def test_a_policy_near_exact_feedback_stays_known() -> None:
    assert float(unknown(LocalModel(feedback_log(0.0)), 0.01).median()) < 1e-2


@pytest.mark.parametrize("degree", [1, 2])
def test_the_variance_of_a_prediction_is_that_of_ridge_regression(degree: int) -> None:
    rows = RegressionRows.of(feedback_log(0.5))
    excitation = Excitation.of(rows, degree)
    X = rows.space.features(rows.inputs, excitation.varies, degree)[:, 1:]
    X = X - X.mean(dim=0)
    prior = torch.eye(X.shape[1], dtype=torch.float64) / 100.0
    expected = torch.einsum("mq,qr,mr->m", X, torch.linalg.inv(X.T @ X / 0.3 + prior), X)
    variance = excitation.variance(excitation.uncertainty(torch.tensor([0.3], dtype=torch.float64)))
    found, _ = variance.at(rows.inputs.T.numpy(), slopes=False)
    assert found == pytest.approx(expected.numpy(), rel=1e-9)


@pytest.mark.parametrize("degree", [1, 2])
def test_the_derivative_of_the_variance_is_that_of_differences_also_at_an_angle(degree: int) -> None:
    data = feedback_log(0.5)
    turning = Transitions.from_arrays(
        data.states, data.actions, data.rewards, data.next_states, angles=[0], episodes=data.episodes
    )
    excitation = Excitation.of(RegressionRows.of(turning), degree)
    variance = excitation.variance(excitation.uncertainty(torch.tensor([0.3, 0.01], dtype=torch.float64)))
    x = np.array([[0.4, -2.0], [1.3, 0.2], [0.5, -0.7]])
    _, slope = variance.at(x, slopes=True)
    for column in range(3):
        step = np.zeros_like(x)
        step[column] = 1e-6
        up, down = (variance.at(x + sign * step, slopes=False)[0] for sign in (1, -1))
        assert slope[column] == pytest.approx((up - down) / 2e-6, rel=1e-6)
