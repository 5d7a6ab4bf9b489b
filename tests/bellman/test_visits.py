"""States that a solution says are visited, on a pendulum that stays upright."""

import math

import pytest
import torch

from nopg import Bandwidths
from nopg.bellman import Solution
from nopg.envs import Pendulum, collect_grid
from nopg.evaluation import OfflineEvaluator
from nopg.paper import PaperModel, PaperProblem
from nopg.policies import LinearPolicy

# A torque −8 sin(angle) − 2 velocity lets nothing fall that stands nearly upright.
BALANCE = LinearPolicy([[0.0, -8.0, -2.0]]).requires_grad_(False)


def balancing(model: str) -> Solution:
    data = collect_grid(Pendulum(start="upright"), (21, 21, 3))
    if model == "local":
        return OfflineEvaluator(data, 0.97).problem.solve(BALANCE)
    samples = PaperModel(data, Bandwidths.from_values([0.1, 0.1, 0.3], [0.5]))
    return PaperProblem(samples, data.starts, 0.97).solve(BALANCE)


@pytest.mark.parametrize("model", ["local", "paper"])
def test_a_balancing_policy_stays_upright_in_the_model_as_in_truth(model: str) -> None:
    states, shares = balancing(model).visited()
    assert float(shares.sum()) == pytest.approx(1.0)
    # The start has the share 1 − γ; rollouts end after γᵗ has fallen to e⁻⁵, which is shared out.
    assert float(shares[0]) == pytest.approx(0.03, rel=0.01)
    angles = torch.remainder(states[:, 0] + math.pi, 2 * math.pi) - math.pi
    assert float(shares[angles.abs() <= 0.5].sum()) > 0.9
