"""Baselines by name: made of a log, judged as any controller, the same for the same seed."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from nopg.baselines import BASELINES, NeuralConfig, baseline
from nopg.data import Transitions
from nopg.envs import LQR, UniformAgent, collect
from nopg.errors import DataError, MissingExtraError
from nopg.evaluation import OfflineEvaluator

FEW = NeuralConfig(members=2, hidden=8, model_updates=20, policy_updates=3, rollout=5)
SEEDED: dict[str, dict[str, Any]] = {
    "cloning": {},
    "neural": {"config": FEW},
    "td3bc": {"updates": 20},
    "iql": {"updates": 20},
    "cql": {"updates": 20},
}


@pytest.fixture(scope="module")
def data() -> Transitions:
    return collect(LQR(), UniformAgent.within(LQR()), episodes=10, steps=20, seed=0)


@pytest.fixture(scope="module")
def evaluator(data: Transitions) -> OfflineEvaluator:
    return OfflineEvaluator(data, 0.9)


@pytest.mark.parametrize("name", [name for name in BASELINES if name != "simc"])  # the plant has two actions
def test_every_baseline_is_judged_as_any_controller(name: str, evaluator: OfflineEvaluator) -> None:
    law = baseline(name, evaluator.data, 0.9, **SEEDED.get(name, {}))
    found = evaluator.compare({name: law})
    low, high = found.evaluations[name].interval
    assert low < found.evaluations[name].expected_return < high
    assert found.gains[name].mean != 0.0


@pytest.mark.parametrize("name", SEEDED)
def test_the_same_seed_gives_the_same_actions_within_the_logged_range(name: str, data: Transitions) -> None:
    first, again, other = (baseline(name, data, 0.9, seed=seed, **SEEDED[name]) for seed in (1, 1, 2))
    far = 3.0 * data.states
    if name == "cloning":
        first, again, other = (one.mode for one in (first, again, other))
    assert torch.equal(first(far), again(far))
    assert not torch.equal(first(far), other(far))
    assert bool((first(far) >= data.actions.amin(dim=0)).all())
    assert bool((first(far) <= data.actions.amax(dim=0)).all())


def test_training_leaves_the_number_of_threads(data: Transitions) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        baseline("td3bc", data, 0.9, updates=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_without_d3rlpy_a_comparison_names_the_extra(
    evaluator: OfflineEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    with pytest.raises(MissingExtraError, match=r"needs d3rlpy.*pip install 'nopg\[baselines\]'"):
        evaluator.compare({}, baselines=["lqr", "td3bc"])


@pytest.mark.parametrize("name", ["neural", "td3bc"])
def test_weighted_rows_are_refused_where_they_would_not_count(name: str, data: Transitions) -> None:
    with pytest.raises(DataError, match="give data without weights"):
        baseline(name, replace(data, weights=torch.ones(len(data), dtype=torch.float64)), 0.9)


def test_neural_models_find_the_way_to_the_middle_of_a_line() -> None:
    rng = torch.Generator().manual_seed(0)
    x, u = 2 * torch.rand(2, 400, 1, generator=rng, dtype=torch.float64) - 1
    data = Transitions.from_arrays(x, u, -(x + 0.3 * u).square()[:, 0], x + 0.3 * u)
    config = NeuralConfig(members=2, hidden=16, model_updates=400, policy_updates=60, rollout=10)
    law, states = baseline("neural", data, 0.9, config=config), x
    for _ in range(12):
        states = states + 0.3 * law(states)
    # Without acting they stay where they are, .58 from the middle on average.
    assert float(states.square().mean().sqrt()) < 0.1
