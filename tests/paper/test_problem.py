from pathlib import Path
from typing import Literal

import pytest
import torch

import nopg
from nopg import PaperModel, TrainingConfig
from nopg._seeding import generator
from nopg.bellman import ControlProblem
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError
from nopg.paper import NOPG, PaperProblem, PaperSolution
from paper.dense import flat, random_case


def test_the_estimate_is_the_gradient_of_the_solution() -> None:
    case = random_case(63, policy="gaussian", prior_mass=0.1)
    problem = case.problem()
    estimate = NOPG(problem).estimate(case.policy, rng=generator(5))
    solution = problem.equation(case.policy, generator(5)).solve()
    assert estimate.expected_return == solution.expected_return
    assert torch.equal(flat(estimate.direction), flat(solution.gradient()))
    assert [part.shape for part in estimate.direction] == [p.shape for p in case.policy.parameters()]
    assert estimate.norm == pytest.approx(float(flat(estimate.direction).norm()))
    assert estimate.diagnostics["unknown_mass"] == solution.unknown_mass


def test_a_step_along_the_estimate_raises_the_return_by_its_norm() -> None:
    case = random_case(64)
    problem = case.problem()
    estimate = NOPG(problem).estimate(case.policy, rng=generator(0))
    step = 1e-5 / estimate.norm
    with torch.no_grad():
        for parameter, part in zip(case.policy.parameters(), estimate.direction, strict=True):
            parameter.add_(step * part)
    gain = NOPG(problem).estimate(case.policy, rng=generator(0)).expected_return - estimate.expected_return
    assert gain == pytest.approx(step * estimate.norm**2, rel=1e-3)


@pytest.mark.parametrize("policy", ["deterministic", "gaussian"])
def test_the_paper_model_learns_the_grid_and_is_saved(
    policy: Literal["deterministic", "gaussian"], tmp_path: Path
) -> None:
    data = collect_grid(Pendulum(), (10, 10, 2))
    config = TrainingConfig(updates=12, progress=False, seed=1)
    result = nopg.optimize(data, 0.95, model="paper", policy=policy, config=config)
    assert result.history[-1].expected_return > result.history[0].expected_return
    assert isinstance(result.problem, PaperProblem)
    again = nopg.load(result.save(tmp_path / "saved"))
    assert again.expected_return == result.expected_return
    assert isinstance(again.solution, PaperSolution)
    assert isinstance(result.solution, PaperSolution)
    assert torch.equal(again.solution.q, result.solution.q)
    assert "Nadaraya-Watson" in again.problem.description


def test_settings_are_checked() -> None:
    with pytest.raises(ArgumentError, match="prior_mass is -1"):
        PaperModel.Config(prior_mass=-1.0)
    with pytest.raises(ArgumentError, match="there is no model 'papers'"):
        ControlProblem.config("papers")
    data = collect_grid(Pendulum(), (5, 5, 2))
    with pytest.raises(ArgumentError, match="fits no costs"):
        ControlProblem.from_data(data, 0.9, model="paper", costs=torch.zeros(50, 1))
