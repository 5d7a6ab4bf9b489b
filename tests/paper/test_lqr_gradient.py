"""The paper's figure on the regulator: every method gives numbers that a file can hold."""

import json

import pytest
import torch

from nopg._seeding import generator
from nopg.bellman import GradientEstimate
from nopg.envs import LQR
from nopg.errors import ArgumentError, SolverError
from nopg.policies import GaussianPolicy, LinearPolicy, Policy
from studies.baselines import ExactLQR
from studies.paper._lqr_gradient import (
    LQRMethod,
    _Compared,
    lqr_summary,
    measure_lqr_gradient,
)
from studies.records import Record

METHODS: tuple[LQRMethod, ...] = ("nopg-d", "dpg", "nopg-s", "pwis")


class _Silent:
    """An estimator without an answer."""

    def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
        raise SolverError("the critic diverged")


@pytest.mark.parametrize("method", METHODS)
def test_results_are_numbers_for_a_file(method: LQRMethod) -> None:
    results, data = measure_lqr_gradient(method, 0, mode="faithful", quick=True)
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    assert len(data) == 3_000
    assert len(results["shares"]) == len(results["cosines"]) == len(results["relative_errors"]) == 2
    assert len(results["own_path"]) == 1 + len(results["own_cosines"]) == 3
    assert results["own_path"][0] == results["gains"][0]


def test_a_measurement_can_be_repeated() -> None:
    first, again = (measure_lqr_gradient("nopg-s", 1, mode="faithful", quick=True)[0] for _ in range(2))
    assert first == again


def test_the_papers_estimator_points_uphill_at_the_behaviour_and_improves_on_it() -> None:
    results, _ = measure_lqr_gradient("nopg-d", 0, mode="faithful", quick=True)
    assert results["cosines"][0] > 0.5
    assert results["final_return"] > results["start_return"]


@pytest.mark.parametrize("std", [None, 0.1])
def test_the_exact_gradient_has_cosine_one_with_itself(std: float | None) -> None:
    compared = _Compared(ExactLQR(LQR(), horizon=30))
    mean = LinearPolicy([-2.0, -1.0])
    compared.try_at(mean if std is None else GaussianPolicy(mean, std), seed=0)
    assert compared.cosines == [pytest.approx(1.0)]
    assert compared.relative_errors == [0.0]
    assert compared.gains == [[-2.0, -1.0]]


def test_no_direction_is_none() -> None:
    compared = _Compared(_Silent())
    compared.try_at(LinearPolicy([-2.0, -1.0]), seed=0)
    assert compared.cosines == compared.relative_errors == [None]
    with pytest.raises(SolverError):  # an ascent hears of it
        compared.estimate(LinearPolicy([-2.0, -1.0]), rng=generator(0))


def test_the_summary_counts_by_hand() -> None:
    def record(seed: int, cosines: list[float | None], final: float) -> Record:
        results = {
            "cosines": cosines,
            "relative_errors": [None if c is None else 1.0 for c in cosines],
            "own_cosines": [1.0, None],
            "final_return": final,
        }
        return Record(
            study="paper", benchmark="lqr-gradient", method="dpg", seed=seed, commit="", results=results
        )

    (row,) = lqr_summary([record(0, [1.0, 0.5], -3.0), record(1, [0.0, None], -1.0)])
    assert (row.method, row.mode, row.datasets) == ("dpg", "ours", 2)
    assert row.cosine == pytest.approx(0.5)
    assert row.spread == pytest.approx(0.5**0.5)  # of 1 and 0; one value alone has none
    assert row.without_direction == pytest.approx(0.25)
    assert (row.own_cosine, row.updates, row.relative_error) == (1.0, 1, 1.0)
    assert (row.final_return, row.final_returns) == (-2.0, (-3.0, -1.0))


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ArgumentError, match="choose of"):
        measure_lqr_gradient("sac", 0, mode="ours", quick=True)  # type: ignore[arg-type]
