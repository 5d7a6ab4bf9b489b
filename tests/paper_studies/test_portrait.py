"""Portraits of the pendulum: visits, how far one distribution is from another, claims."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg import Bandwidths
from nopg._seeding import generator
from nopg.bellman import Solution
from nopg.envs import Pendulum, collect_grid
from nopg.evaluation import OfflineEvaluator
from nopg.paper import PaperModel, PaperProblem
from nopg.policies import LinearPolicy
from studies.paper import EXPERIMENTS
from studies.paper._portrait import (
    cells_of,
    total_variation,
    upright_share,
    visits_of_paths,
)
from studies.records import Record

STUDY = EXPERIMENTS["pendulum-portrait"]


def cells(states: Sequence[Sequence[float]], shares: Sequence[float]) -> torch.Tensor:
    return cells_of(torch.tensor(states, dtype=torch.float64), torch.tensor(shares, dtype=torch.float64))


def test_a_point_between_four_cells_is_shared_by_them_and_keeps_its_share() -> None:
    upright = cells([[0.0, 0.0]], [1.0])
    assert torch.allclose(upright[9:11, 9:11], torch.full((2, 2), 0.25, dtype=torch.float64))
    hanging = cells([[math.pi, 0.0], [-math.pi, 0.0]], [0.5, 0.5])  # the same place
    assert hanging[[0, -1]][:, 9:11].sum() == pytest.approx(1.0)
    assert float(cells([[-math.pi + 2.5 * math.pi / 10, -8 + 4.5 * 0.8]], [1.0])[2, 4]) == pytest.approx(1.0)


def test_shares_are_kept_wherever_the_states_are() -> None:
    states = 20 * torch.rand(1_000, 2, dtype=torch.float64, generator=generator(0, "states")) - 10
    shares = torch.rand(1_000, dtype=torch.float64, generator=generator(0, "shares"))
    found = cells_of(states, shares / shares.sum())
    assert found.min() >= 0
    assert float(found.sum()) == pytest.approx(1.0)


def test_visits_of_paths_are_discounted_and_sum_to_one() -> None:
    path = torch.tensor([[[math.pi, 0.0]], [[0.0, 0.0]]], dtype=torch.float64)
    visits = visits_of_paths(path, 0.5)
    assert visits[1].tolist() == pytest.approx([2 / 3, 1 / 3])
    assert upright_share(*visits) == pytest.approx(1 / 3)


def test_total_variation_is_what_must_be_moved() -> None:
    here, there = cells([[0.0, 0.0]], [1.0]), cells([[2.0, 0.0]], [1.0])
    assert total_variation(here, 0.9 * here + 0.1 * there) == pytest.approx(0.1)
    assert total_variation(here, here) == 0.0


# Claims, from records by hand


def by_hand(*, upright: float = 0.16, apart: float = 0.3) -> Record:
    shares = np.full((20, 20), 1 / 400).tolist()
    after = {
        "visitation": shares,
        "truth": shares,
        "value": np.linspace(-300.0, 0.0, 25).reshape(5, 5).tolist(),
        "unknown": np.zeros((5, 5)).tolist(),
        "upright_mass": upright,
        "upright_mass_truth": 0.15,
        "total_variation": apart,
        "expected_return": -180.0,
        "discounted_truth": -187.0,
    }
    path = [[3.1, 0.0], [3.14, 1.0], [-3.1, 1.0], [0.0, 0.0]]
    results = {"before": {**after, "upright_mass": 0.01}, "after": after, "path": path, "updates": 10}
    return replace(STUDY.run("nopg-d", 800, 3), results=results)


@pytest.mark.parametrize(
    ("upright", "apart", "verdict"),
    [(0.2, 0.05, "kept"), (0.05, 0.4, "missed"), (None, None, "not run in full")],
)
def test_portraits_are_judged_by_the_upright_and_by_total_variation(
    upright: float | None, apart: float | None, verdict: str
) -> None:
    records = [] if upright is None or apart is None else [by_hand(upright=upright, apart=apart)]
    assert [finding.verdict for finding in STUDY.findings(records)] == [verdict] * 2


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
    visits = balancing(model).visited()
    assert float(visits[1].sum()) == pytest.approx(1.0)
    # The start has the share 1 − γ; rollouts end after γᵗ has fallen to e⁻⁵, which is shared out.
    assert float(visits[1][0]) == pytest.approx(0.03, rel=0.01)
    assert upright_share(*visits) > 0.9
