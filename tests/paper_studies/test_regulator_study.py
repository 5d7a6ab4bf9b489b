"""The paper's figure on the regulator: the rule of support, measurements and what they say."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from nopg import Bandwidths
from nopg.data import Transitions
from nopg.envs import LQR
from studies.paper import EXPERIMENTS
from studies.paper._experiment import Mode
from studies.paper._regulator import (
    LOGS,
    Support,
    measure_regulator,
    rows_within,
)
from studies.paper._regulator_study import cosines_of
from studies.paper.bandwidths import released_bandwidths
from studies.records import Record

STUDY = EXPERIMENTS["lqr-gradient"]


def test_the_released_cross_validation_nearly_gives_those_of_the_gaussian_log_within_3() -> None:
    h = released_bandwidths(rows_within(LOGS["gaussian"].data(0), 3.0)).states
    assert h.tolist() == pytest.approx([0.0075, 0.0035], abs=5e-5)  # .008 and .003 in the supplement


# Support


def _rows(states: list[list[float]], actions: list[list[float]]) -> Transitions:
    lqr, x, u = LQR(), torch.tensor(states).double(), torch.tensor(actions).double()
    following = lqr.step(x, u)
    return Transitions.from_arrays(
        states=x, actions=u, rewards=lqr.reward(x, u, following), next_states=following
    )


def test_support_is_the_discounted_share_of_visits_with_three_rows() -> None:
    # Under (-2, -.5) the state stays at (1, 1). A thin and a thick log of that state and action, and rows far
    # away that make the plant identifiable.
    far = (
        [[-2.0, 0.0], [0.0, -2.0], [0.0, 0.0], [2.0, 2.0]],
        [[0.0, 0.0], [0.0, 0.0], [5.0, 5.0], [-9.0, 9.0]],
    )
    h = Bandwidths.from_values([0.1, 0.1], [0.1, 0.1], source="by hand")
    for count, share in ((2, 0.0), (3, 1.0)):
        log = _rows([[1.0, 1.0]] * count + far[0], [[-2.0, -0.5]] * count + far[1])
        assert Support(log, h).share([-2.0, -0.5]) == share
    # Under (-1.9, -.5) the state moves on to (1.01, 1), ten of these bandwidths away from all rows.
    narrow = Bandwidths.from_values([0.001, 0.1], [10.0, 10.0], source="by hand")
    log = _rows([[1.0, 1.0]] * 4 + far[0], [[-2.0, -0.5]] * 4 + far[1])
    first = 0.1 / (1 - 0.9**10)
    assert Support(log, narrow).share([-1.9, -0.5]) == pytest.approx(first)


# Measurements


@pytest.mark.parametrize("method", ["nopg-d", "local-covering", "dpg", "nopg-s", "pwis"])
def test_results_are_numbers_for_a_file(method: str) -> None:
    results, data = measure_regulator(method, 0, "ours", points=2)
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    assert (len(data) == 3_000) == (method == "pwis")
    assert len(results["shares"]) == len(results["cosines"]) == len(results["support"]) == 2
    assert ("close" in results) == (method in {"nopg-s", "pwis"})


# What records say


def _record(
    method: str,
    cosines: Sequence[float | None] = (0.9, 0.1),
    support: Sequence[float] = (0.9, 0.1),
    seed: int = 0,
    mode: Mode = "ours",
    **more: Any,
) -> Record:
    gaussian = method in {"nopg-s", "pwis"}
    gains = [[0.35, -0.35] if gaussian else [0.7, -0.7], [-3.0, -2.0]]
    line = {"shares": [0.0, 0.5], "cosines": list(cosines), "support": list(support), "gains": gains}
    close = {"close": {**line, "shares": [-0.01, 0.01]}} if gaussian else {}
    return replace(STUDY.run(method, 3_000, seed, mode), results={**line, **close, **more})


def test_cosines_are_split_by_the_rule_and_no_direction_counts_as_the_wrong_one() -> None:
    found = cosines_of([_record("dpg", [1.0, 0.5, None], [0.5, 0.49, 0.0])], "dpg")
    assert found == ([1.0], [0.5, -1.0], [1.0, 0.5, -1.0])


@pytest.mark.parametrize(("least", "verdict"), [(0.96, "kept"), (0.94, "missed")])
def test_a_claim_is_judged_by_mean_and_least(least: float, verdict: str) -> None:
    records = [_record("nopg-d", [least, *[1.0] * 9], [0.9] * 10, seed) for seed in (0, 20)]
    found = STUDY.findings(records)[0]
    assert (found.verdict, f"least {least:.2f}" in found.found) == (verdict, True)


def test_a_claim_that_held_out_datasets_refute_is_missed() -> None:
    records = [_record("local-covering", [1.0], [1.0], 0), _record("local-covering", [0.5], [1.0], 20)]
    found = next(f for f in STUDY.findings(records) if "≥ .99" in f.claim and "LocalModel" in f.claim)
    assert found.verdict == "missed"
    assert "held out: 0.500" in found.found


def test_the_papers_estimator_points_uphill_at_the_behaviour() -> None:
    assert measure_regulator("nopg-d", 0, "ours", points=2)[0]["cosines"][0] > 0.5
