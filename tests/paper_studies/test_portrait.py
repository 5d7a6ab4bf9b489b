"""Portraits of the pendulum: what is counted as a visit, and how far the model is from the truth."""

import json
import math
import warnings
from collections.abc import Sequence

import pytest
import torch

from nopg import Bandwidths
from nopg._seeding import generator
from nopg.bellman import Solution
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError, SupportWarning
from nopg.evaluation import OfflineEvaluator
from nopg.evaluation._verdict import WEAK_UNKNOWN
from nopg.paper import PaperModel, PaperProblem
from nopg.policies import LinearPolicy
from studies.paper import Trial
from studies.paper._portrait import Visits, measure_portrait, portrait_summary, total_variation
from studies.records import Record

# A torque −8 sin(angle) − 2 velocity lets nothing fall that stands nearly upright.
BALANCE = LinearPolicy([[0.0, -8.0, -2.0]]).requires_grad_(False)


def visits(states: Sequence[Sequence[float]], shares: Sequence[float]) -> Visits:
    return Visits(torch.tensor(states, dtype=torch.float64), torch.tensor(shares, dtype=torch.float64))


def balancing(model: str) -> Solution:
    data = collect_grid(Pendulum(start="upright"), (21, 21, 3))
    if model == "local":
        return OfflineEvaluator(data, 0.97).problem.solve(BALANCE)
    samples = PaperModel(data, Bandwidths.from_values([0.1, 0.1, 0.3], [0.5]))
    return PaperProblem(samples, data.starts, 0.97).solve(BALANCE)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    made: list[Record] = []
    for mode in ("ours", "faithful"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)  # three updates from random weights
            results, data = measure_portrait(1800, 0, mode=mode, quick=True)
        assert len(data) == 450
        trial = Trial("pendulum-portrait", mode, "nopg-d", len(data), 0)
        made.append(trial.record(results=results))
    return made


def test_a_point_between_four_cells_is_shared_by_them_and_keeps_its_share() -> None:
    upright = visits([[0.0, 0.0]], [1.0]).shared_out()
    assert torch.allclose(upright[9:11, 9:11], torch.full((2, 2), 0.25, dtype=torch.float64))
    hanging = visits([[math.pi, 0.0], [-math.pi, 0.0]], [0.5, 0.5]).shared_out()  # the same place
    assert hanging[[0, -1]][:, 9:11].sum() == pytest.approx(1.0)


def test_shares_are_kept_wherever_the_states_are() -> None:
    states = 20 * torch.rand(1_000, 2, dtype=torch.float64, generator=generator(0, "states")) - 10
    shares = torch.rand(1_000, dtype=torch.float64, generator=generator(0, "shares"))
    everywhere = Visits(states, shares / shares.sum())
    for cells in (everywhere.in_cells(), everywhere.shared_out()):
        assert cells.min() >= 0
        assert float(cells.sum()) == pytest.approx(1.0)


def test_at_the_centre_of_a_cell_both_ways_to_count_agree() -> None:
    centre = visits([[-math.pi + 2.5 * math.pi / 10, -8 + 4.5 * 0.8]], [1.0])
    assert torch.allclose(centre.in_cells(), centre.shared_out(), atol=1e-12)
    assert float(centre.in_cells()[2, 4]) == 1.0


def test_a_small_move_changes_shares_a_little_but_may_change_the_cell() -> None:
    here, there = visits([[1e-9, 1e-9]], [1.0]), visits([[-1e-9, -1e-9]], [1.0])
    assert total_variation(here.in_cells(), there.in_cells()) == 1.0
    assert total_variation(here.shared_out(), there.shared_out()) < 1e-8


def test_visits_of_paths_are_discounted_and_sum_to_one() -> None:
    path = torch.tensor([[[math.pi, 0.0]], [[0.0, 0.0]]], dtype=torch.float64)
    assert Visits.of_paths(path, 0.5).shares.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert Visits.of_paths(path, 0.5).upright == pytest.approx(1 / 3)


def test_visits_along_rollouts_are_nearer_the_truth_than_those_of_the_papers_equation(
    records: list[Record],
) -> None:
    ours, faithful = (record.results for record in records)
    for when in ("before", "after"):
        # 450 noiseless samples: measured below 10⁻⁴ for a pendulum that hardly swings.
        assert ours[when]["total_variation"] < 0.01
        assert faithful[when]["total_variation"] > 0.5


def test_total_variation_is_what_must_be_moved() -> None:
    here, there = visits([[0.0, 0.0]], [1.0]).in_cells(), visits([[2.0, 0.0]], [1.0]).in_cells()
    assert total_variation(here, 0.9 * here + 0.1 * there) == pytest.approx(0.1)
    assert total_variation(here, here) == 0.0


@pytest.mark.parametrize("model", ["local", "paper"])
def test_a_balancing_policy_stays_upright_in_the_model_as_in_truth(model: str) -> None:
    visited = Visits.of_model(balancing(model))
    assert float(visited.shares.sum()) == pytest.approx(1.0)
    # The start has the share 1 − γ; rollouts end after γᵗ has fallen to e⁻⁵, which is shared out.
    assert float(visited.shares[0]) == pytest.approx(0.03, rel=0.01)
    assert visited.upright > 0.9


def test_a_portrait_holds_distributions_and_can_be_written(records: list[Record]) -> None:
    for record in records:
        assert len(json.dumps(record.results, indent=1, allow_nan=False)) < 100_000
        for when in ("before", "after"):
            part = record.results[when]
            assert sum(map(sum, part["visitation"])) == pytest.approx(1.0, abs=1e-3)  # rounded to 4 digits
            assert sum(map(sum, part["truth"])) == pytest.approx(1.0, abs=1e-3)
            assert 0.0 <= part["unknown_mass"] < WEAK_UNKNOWN
            assert len(part["value"]) == len(part["value"][0]) == len(part["unknown"])
            assert part["discounted_truth"] >= part["return"]
        assert record.results["path"][0] == pytest.approx([-math.pi, 0.0], abs=1e-3)


@pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")
def test_the_same_seed_gives_the_same_portrait(records: list[Record]) -> None:
    again, _ = measure_portrait(450, 0, mode="ours", quick=True)
    assert again == records[0].results


def test_a_summary_has_a_row_per_record(records: list[Record]) -> None:
    assert [record.results["updates"] for record in records] == [3, 30]
    heading, *rows = portrait_summary(records)
    assert [row[:3] for row in rows] == [["ours", "450", "0"], ["faithful", "450", "0"]]
    assert {len(row) for row in rows} == {len(heading)}


def test_sizes_and_modes_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ArgumentError, match="of 451"):
        measure_portrait(451, 0, mode="ours", quick=True)
