"""Greedy starts of the local-linear model: rehearsed, with actions that last where one step is too short."""

import copy
from types import SimpleNamespace

import pytest
import torch

from nopg._seeding import generator
from nopg.bellman import ControlProblem, action_candidates
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.graph import FitShape, LocalLinear, NadarayaWatson
from nopg.kernels import Bandwidths, GaussianKernel
from nopg.policies import MLPPolicy
from nopg.solvers import DenseLU
from nopg.training import _greedy_start
from nopg.training._greedy_start import GreedyStart, hold_actions, keep_the_better, start_greedily
from nopg.training._rehearsal import predict_paths, rehearse, value_range

GAMMA = 0.9


def line(rows: int = 80) -> Transitions:
    """Return steps s′ = s + a/10 on a line, each for the reward −|s|, starting at 1/2."""
    rng = generator(0, "line")
    s = 2 * torch.rand(rows, 1, generator=rng, dtype=torch.float64) - 1
    a = 2 * torch.rand(rows, 1, generator=rng, dtype=torch.float64) - 1
    return Transitions.from_arrays(s, a, -s[:, 0].abs(), s + 0.1 * a).starting_at([[0.5]])


def problem_of(data: Transitions, prior_mass: float | None = None) -> tuple[ControlProblem, LocalLinear]:
    metric = GaussianKernel(torch.tensor([0.05], dtype=torch.float64))
    model = LocalLinear(data, metric, shape=FitShape(12), prior_mass=prior_mass)
    return ControlProblem.build(model, data.schema.encode(data.starts), discount=GAMMA), model


def network(data: Transitions) -> MLPPolicy:
    return MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))


def started() -> tuple[GreedyStart, ControlProblem, MLPPolicy, ControlProblem]:
    """Return the start, the problem to ascend in, the policy and the problem of single steps."""
    data = line()
    problem, _ = problem_of(data)
    policy = network(data)
    start, held = start_greedily(policy, problem, action_candidates(data.actions), solver=DenseLU(), seed=0)
    return start, held, policy, problem


def test_a_rehearsal_is_the_return_of_the_plant_where_the_fits_are_right() -> None:
    problem, model = problem_of(line(400), prior_mass=0.0)
    towards_zero = SimpleNamespace(mode=lambda features: -features)
    # s falls by a tenth in every step. The fits bend the kink of |s| at 0; all else is linear.
    expected = -0.5 / (1 - GAMMA * 0.9)
    assert rehearse(problem, model, towards_zero) == pytest.approx(expected, rel=0.02)  # type: ignore[arg-type]


def test_a_rehearsal_that_begins_where_nothing_is_known_is_worth_the_unknown_value() -> None:
    data = line().starting_at([[40.0]])
    problem, model = problem_of(data)
    # One part in a million is known.
    assert rehearse(problem, model, network(data)) == pytest.approx(problem.unknown_value, rel=1e-4)
    assert value_range(problem, model) == pytest.approx(float(data.rewards.max() - data.rewards.min()) * 10)


def test_predicted_paths_go_where_the_plant_goes_and_keep_count_of_what_is_left() -> None:
    problem, _ = problem_of(line(400), prior_mass=0.0)
    towards_zero = SimpleNamespace(mode=lambda features: -features)
    paths = predict_paths(problem, towards_zero, problem.initial.features, 20)  # type: ignore[arg-type]
    assert paths.states.shape == (20, 1, 1)
    expected = 0.5 * 0.9 ** torch.arange(20, dtype=torch.float64)
    # All is linear; the ridge of the fits draws a little.
    assert torch.allclose(paths.states[:, 0, 0], expected, atol=1e-3)
    assert torch.allclose(paths.actions, -paths.states)
    assert bool((paths.left == 1).all())


def test_a_path_that_starts_where_nothing_is_known_is_soon_gone() -> None:
    data = line().starting_at([[40.0]])
    problem, _ = problem_of(data)
    paths = predict_paths(problem, network(data), problem.initial.features, 5)
    assert paths.left[:, 0].tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0, 0.0], abs=1e-5)
    with pytest.raises(ArgumentError, match="at least 1"):
        predict_paths(problem, network(data), problem.initial.features, 0)


def test_the_papers_model_predicts_no_paths() -> None:
    data = line()
    model = NadarayaWatson(data, Bandwidths.from_values([0.05], [0.5]))
    problem = ControlProblem.build(model, data.features[:1], discount=GAMMA)
    with pytest.raises(ArgumentError, match="only the local-linear model"):
        predict_paths(problem, network(data), data.features[:1], 5)


def test_actions_last_one_step_where_the_policy_earns_what_the_equation_says() -> None:
    start, held, policy, problem = started()
    assert start.hold == 1
    assert held is problem
    assert rehearse(problem, problem.model, policy) == start.rehearsed  # type: ignore[arg-type]


def test_actions_last_longer_where_it_earns_less_and_the_best_rehearsed_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    earned = iter([-50.0, -30.0, -40.0])
    monkeypatch.setattr(_greedy_start, "rehearse", lambda *_: next(earned))
    start, held, policy, problem = started()
    assert start.hold == 2
    assert start.rehearsed == -30.0
    assert held.discount == hold_actions(problem, 2).discount == GAMMA**2
    assert held.unknown_value == problem.unknown_value
    for name, value in policy.state_dict().items():
        assert torch.equal(value, start.parameters[name])
    assert "each for 2 steps" in str(start)


@pytest.mark.parametrize("better", [False, True])
def test_a_policy_that_rehearses_worse_than_its_start_is_put_back(
    monkeypatch: pytest.MonkeyPatch, better: bool
) -> None:
    start, _, policy, problem = started()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.5)
    moved = copy.deepcopy(policy.state_dict())
    monkeypatch.setattr(_greedy_start, "rehearse", lambda *_: start.rehearsed + (1.0 if better else -1.0))
    assert keep_the_better(policy, problem, start) is not better
    expected = moved if better else start.parameters
    assert all(torch.equal(value, expected[name]) for name, value in policy.state_dict().items())
