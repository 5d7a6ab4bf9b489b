"""Portraits of the pendulum: visits, how far the model is from the truth, claims and figure."""

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch

from nopg import Bandwidths, TrainingConfig
from nopg._seeding import generator
from nopg.bellman import Solution
from nopg.envs import Pendulum, collect_grid
from nopg.errors import SupportWarning
from nopg.evaluation import OfflineEvaluator
from nopg.paper import PaperModel, PaperProblem
from nopg.policies import LinearPolicy
from studies.paper import EXPERIMENTS
from studies.paper._experiment import Mode
from studies.paper._portrait import (
    cells_of,
    measure_portrait,
    total_variation,
    upright_share,
    visits_of_paths,
)
from studies.records import Record

STUDY = EXPERIMENTS["pendulum-portrait"]
# A torque −8 sin(angle) − 2 velocity lets nothing fall that stands nearly upright.
BALANCE = LinearPolicy([[0.0, -8.0, -2.0]]).requires_grad_(False)


def cells(states: Sequence[Sequence[float]], shares: Sequence[float]) -> torch.Tensor:
    return cells_of(torch.tensor(states, dtype=torch.float64), torch.tensor(shares, dtype=torch.float64))


def balancing(model: str) -> Solution:
    data = collect_grid(Pendulum(start="upright"), (21, 21, 3))
    if model == "local":
        return OfflineEvaluator(data, 0.97).problem.solve(BALANCE)
    samples = PaperModel(data, Bandwidths.from_values([0.1, 0.1, 0.3], [0.5]))
    return PaperProblem(samples, data.starts, 0.97).solve(BALANCE)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    made: list[Record] = []
    modes: tuple[tuple[Mode, int], ...] = (("ours", 2), ("faithful", 5))
    for mode, updates in modes:
        config = TrainingConfig(updates=updates, start="given", progress=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)  # two updates from random weights
            results, data = measure_portrait(450, 0, mode, config=config)
        run = STUDY.run("nopg-d", len(data), 0, mode)
        made.append(replace(run, results=results))
    return made


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


def test_visits_along_rollouts_are_nearer_the_truth_than_those_of_the_papers_equation(
    records: list[Record],
) -> None:
    ours, faithful = (record.results for record in records)
    for when in ("before", "after"):
        # 450 noiseless samples: measured below 10⁻⁴ for a pendulum that hardly swings.
        assert ours[when]["total_variation"] < 0.01
        assert faithful[when]["total_variation"] > 0.5


def test_total_variation_is_what_must_be_moved() -> None:
    here, there = cells([[0.0, 0.0]], [1.0]), cells([[2.0, 0.0]], [1.0])
    assert total_variation(here, 0.9 * here + 0.1 * there) == pytest.approx(0.1)
    assert total_variation(here, here) == 0.0


@pytest.mark.parametrize("model", ["local", "paper"])
def test_a_balancing_policy_stays_upright_in_the_model_as_in_truth(model: str) -> None:
    visits = balancing(model).visited()
    assert float(visits[1].sum()) == pytest.approx(1.0)
    # The start has the share 1 − γ; rollouts end after γᵗ has fallen to e⁻⁵, which is shared out.
    assert float(visits[1][0]) == pytest.approx(0.03, rel=0.01)
    assert upright_share(*visits) > 0.9


def test_a_portrait_holds_distributions_and_can_be_written(records: list[Record]) -> None:
    for record in records:
        assert len(json.dumps(record.results, indent=1, allow_nan=False)) < 100_000
        for when in ("before", "after"):
            part = record.results[when]
            assert sum(map(sum, part["visitation"])) == pytest.approx(1.0, abs=1e-3)  # rounded to 4 digits
            assert sum(map(sum, part["truth"])) == pytest.approx(1.0, abs=1e-3)
            assert len(part["value"]) == len(part["value"][0]) == len(part["unknown"])
        assert record.results["path"][0] == pytest.approx([-math.pi, 0.0], abs=1e-3)


def test_the_table_has_a_row_per_record(records: list[Record]) -> None:
    assert [record.results["updates"] for record in records] == [2, 5]
    _, _, *rows = STUDY.tables(records)
    assert [row.split(" | ")[:3] for row in rows] == [["| ours", "450", "0"], ["| faithful", "450", "0"]]


# Claims and figure, from records by hand


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


def test_predicted_visits_stand_beside_the_true_ones() -> None:
    figure: Any = STUDY.draw([by_hand()])
    found = [axes.get_title(loc="left") for axes in figure.axes]
    assert len(found) == 8  # six panels and two colour bars
    assert "before" in found[0]
    assert "1 % within .5 rad" in found[0]
    assert "true visits; total variation 0.300" in found[1]
    assert "true path" in found[5]
    with BytesIO() as file:
        figure.savefig(file, format="png", dpi=40)
        assert file.getvalue().startswith(b"\x89PNG")
