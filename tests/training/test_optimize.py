import logging
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import pytest
import torch

import nopg
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.environments import Pendulum
from nopg.errors import ArgumentError, DataError, SolverError
from nopg.gradients import GradientEstimate
from nopg.graph import MonteCarlo
from nopg.kernels import Bandwidths
from nopg.policies import GaussianMLPPolicy, LinearPolicy, MLPPolicy, Policy, VarianceDecay
from nopg.rollouts import collect_grid, simulate
from nopg.solvers import FixedPoint
from nopg.training import Update, ascend

HANGING = [np.pi, 0.0]
GRID = Bandwidths.from_values([0.25, 0.25, 0.6], [2.0])
Model = Literal["nadaraya-watson", "local-linear"]
MODELS: tuple[Model, ...] = get_args(Model)


@pytest.fixture(scope="module")
def grid() -> Transitions:
    return collect_grid(Pendulum(), (8, 8, 2))


@pytest.fixture(scope="module")
def result(grid: Transitions) -> nopg.TrainingResult:
    return nopg.optimize(grid, 0.9, start="given", updates=30, progress=False)


def test_training_raises_the_expected_return(result: nopg.TrainingResult) -> None:
    history = result.history
    assert [update.number for update in history] == list(range(1, 31))
    assert result.expected_return > history[0].expected_return + 0.1


def test_the_answer_is_solved_to_its_certificate(result: nopg.TrainingResult) -> None:
    proof = result.certificate
    assert proof.converged
    # Ten relative digits of values of order 100.
    assert proof.return_error < 1e-6
    assert proof.duality_gap < 1e-9
    assert proof.mass_defect < 1e-9


def test_one_seed_reproduces_everything_and_another_changes_it(
    grid: Transitions, result: nopg.TrainingResult
) -> None:
    again = nopg.optimize(grid, 0.9, start="given", updates=30, progress=False)
    other = nopg.optimize(grid, 0.9, start="given", updates=30, progress=False, seed=1)
    assert again.history == result.history
    assert np.array_equal(again.policy(HANGING), result.policy(HANGING))
    assert other.history != result.history


def test_a_training_leaves_the_global_random_state_alone(grid: Transitions) -> None:
    before = torch.get_rng_state()
    nopg.optimize(grid, 0.9, start="given", updates=2, policy="gaussian", progress=False)
    assert torch.equal(before, torch.get_rng_state())


def test_the_controller_takes_one_observation_or_a_batch_and_returns_the_same_kind(
    result: nopg.TrainingResult,
) -> None:
    one = result.policy(np.array(HANGING))
    batch = result.policy(np.array([HANGING, [0.0, 0.0]]))
    assert isinstance(one, np.ndarray)
    assert one.shape == (1,)
    assert batch.shape == (2, 1)
    assert np.array_equal(batch[0], one)
    assert isinstance(result.policy(torch.tensor([HANGING])), torch.Tensor)


def test_the_controller_names_the_columns_of_a_wrong_observation(result: nopg.TrainingResult) -> None:
    with pytest.raises(DataError, match=r"2 numbers \(angle, velocity\).*shape \(3,\)"):
        result.policy([1.0, 2.0, 3.0])


def test_a_full_turn_is_the_same_place(result: nopg.TrainingResult) -> None:
    turned = [HANGING[0] + 2 * np.pi, 0.0]
    # cos and sin of shifted angles agree to rounding.
    assert result.policy(turned) == pytest.approx(result.policy(HANGING), abs=1e-12)
    assert result.value([turned]) == pytest.approx(result.value([HANGING]), abs=1e-9)


def test_the_result_answers_at_raw_states(grid: Transitions, result: nopg.TrainingResult) -> None:
    states = grid.states[:5]
    # One fixed start: Ĵ is its value.
    assert result.value([HANGING])[0] == pytest.approx(result.expected_return, rel=1e-12)
    action = np.atleast_2d(result.policy(np.array(HANGING)))
    assert result.action_value([HANGING], action)[0] == pytest.approx(result.expected_return, rel=1e-12)
    for answer in (result.visitation(states), result.unknown_at(states), result.support(states)):
        assert answer.shape == (5,)
        assert np.isfinite(answer).all()
    assert repr(result).startswith(f"TrainingResult(return {result.expected_return:.6g} ± ")


def test_callbacks_hear_every_update_and_can_stop_the_training(grid: Transitions) -> None:
    heard: list[Update] = []

    def stop_at_three(update: Update) -> bool:
        heard.append(update)
        return update.number == 3

    silent: list[int] = []
    result = nopg.optimize(
        grid,
        0.9,
        start="given",
        bandwidths=GRID,
        updates=10,
        callbacks=[stop_at_three, lambda update: silent.append(update.number)],
        progress=False,
    )
    assert [update.number for update in heard] == [1, 2, 3]
    assert silent == [1, 2, 3]
    assert result.history == tuple(heard)


def test_a_training_prints_nothing_into_a_log(
    grid: Transitions, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="nopg"):
        nopg.optimize(grid, 0.9, start="given", updates=2)
    assert capfd.readouterr() == ("", "")
    assert "held-out error" in caplog.text


def test_declared_initial_states_replace_those_of_the_data(grid: Transitions) -> None:
    upright = nopg.optimize(
        grid, 0.9, start="given", bandwidths=GRID, initial_states=[0.0, 0.0], updates=1, progress=False
    )
    hanging = nopg.optimize(grid, 0.9, start="given", bandwidths=GRID, updates=1, progress=False)
    assert upright.expected_return > hanging.expected_return + 10.0


def test_wrong_initial_states_are_refused_before_any_work(grid: Transitions) -> None:
    with pytest.raises(DataError, match="initial_states have 3 columns, states have 2"):
        nopg.optimize(grid, 0.9, bandwidths=GRID, initial_states=[[0.0, 0.0, 0.0]])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("solver", ["lu", "bicgstab", "fixed-point", FixedPoint()])
def test_every_solver_gives_the_same_answer(
    grid: Transitions, solver: str | FixedPoint, model: Model
) -> None:
    result = nopg.optimize(
        grid, 0.9, start="given", bandwidths=GRID, model=model, solver=solver, updates=1, progress=False
    )
    reference = nopg.optimize(
        grid, 0.9, start="given", bandwidths=GRID, model=model, updates=1, progress=False
    )
    # One step of Adam from gradients that differ by the training tolerance hardly moves Ĵ.
    assert result.expected_return == pytest.approx(reference.expected_return, rel=1e-3)


def test_a_solver_that_stops_short_is_an_error_and_not_an_answer(grid: Transitions) -> None:
    with pytest.raises(SolverError, match="stopped at a residual"):
        nopg.optimize(
            grid,
            0.9,
            start="given",
            bandwidths=GRID,
            solver=FixedPoint(max_steps=3),
            updates=1,
            progress=False,
        )


def test_conjugate_gradient_is_refused_before_any_work(grid: Transitions) -> None:
    with pytest.raises(SolverError, match="not symmetric"):
        nopg.optimize(grid, 0.9, solver="cg")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"discount": 1.0}, r"discount is 1\.0"),
        ({"policy": "random"}, "no policy 'random'"),
        ({"updates": 0}, "updates = 0"),
        ({"model": "linear"}, "no model 'linear'"),
        ({"model": "local-linear", "integration": MonteCarlo(2)}, "predicts a point"),
        ({"prior_mass": -1.0}, r"prior_mass is -1\.0"),
        ({"policy": LinearPolicy(torch.zeros(2, 3))}, "the policy has 2 actions, the data have 1"),
    ],
)
def test_a_setting_outside_its_range_is_refused_with_what_it_was(
    grid: Transitions, setting: dict[str, object], message: str
) -> None:
    arguments: dict[str, object] = {"discount": 0.9, "bandwidths": GRID, "progress": False, **setting}
    with pytest.raises(ArgumentError, match=message):
        nopg.optimize(grid, **arguments)  # type: ignore[arg-type]


def test_monte_carlo_next_states_and_gaussian_policies_train(grid: Transitions) -> None:
    result = nopg.optimize(
        grid,
        0.9,
        start="given",
        bandwidths=GRID,
        policy="gaussian",
        integration=MonteCarlo(2),
        updates=5,
        progress=False,
    )
    assert result.expected_return > result.history[0].expected_return
    assert isinstance(result.policy.policy, GaussianMLPPolicy)


def test_the_local_linear_model_trains_and_foresees_the_return(grid: Transitions) -> None:
    result = nopg.optimize(grid, 0.9, bandwidths=GRID, model="local-linear", updates=100, progress=False)
    run = simulate(Pendulum(), result.policy, steps=200)
    assert result.certificate.converged
    # 128 transitions: 3 % off what happens, where the paper's model is 11 % off.
    assert result.expected_return == pytest.approx(float(run.discounted_returns(0.9)[0]), rel=0.05)


def test_the_variance_has_decayed_at_the_end_of_the_training(grid: Transitions) -> None:
    policy = GaussianMLPPolicy.from_data(
        grid.features, grid.actions, rng=generator(0, "policy"), decay=VarianceDecay(final=0.25)
    )
    nopg.optimize(grid, 0.9, bandwidths=GRID, policy=policy, updates=5, progress=False)
    assert float(policy.decay.factor) == pytest.approx(0.5)


def test_terminal_rows_need_no_next_value(grid: Transitions) -> None:
    ends = replace(grid, terminated=torch.ones(len(grid), dtype=torch.bool))
    paper, sharper = (
        nopg.optimize(
            ends, 0.9, start="given", bandwidths=GRID, model=model, updates=2, prior_mass=0.0, progress=False
        )
        for model in MODELS
    )
    assert torch.equal(paper.solution.q, grid.rewards[paper.rows])
    # Its nodes carry what comes after them: nothing. What the start expects is its own reward.
    assert not sharper.solution.q.any()
    assert float(grid.rewards.min()) <= sharper.expected_return <= float(grid.rewards.max())


def test_ascend_follows_any_estimator_uphill() -> None:
    class Parabola:
        def estimate(self, policy: Policy, *, rng: torch.Generator) -> GradientEstimate:
            gap = next(policy.parameters()).detach() - 3
            return GradientEstimate((-2 * gap,), -float(gap.square().sum()), {})

    policy = LinearPolicy([[0.0]])
    ascend(Parabola(), policy, updates=300, learning_rate=0.05, seed=0)
    assert policy.gain.item() == pytest.approx(3.0, abs=0.05)


def test_an_untrained_policy_is_the_same_for_the_same_seed(grid: Transitions) -> None:
    first, again = (
        MLPPolicy.from_data(grid.features, grid.actions, rng=generator(3, "policy")) for _ in range(2)
    )
    assert torch.equal(first.mode(grid.features), again.mode(grid.features))


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "points"), [(200, (10, 10, 2)), (450, (15, 15, 2))])
def test_an_untuned_user_swings_the_pendulum_up(samples: int, points: tuple[int, ...]) -> None:
    environment = Pendulum()
    result = nopg.optimize(collect_grid(environment, points), 0.97, progress=False)
    returned = float(simulate(environment, result.policy, steps=500).returns[0])
    assert returned > {200: -480, 450: -450}[samples]


@pytest.mark.parametrize("model", MODELS)
def test_a_greedy_start_begins_where_policy_iteration_ends(grid: Transitions, model: Model) -> None:
    given, greedy = (
        nopg.optimize(grid, 0.9, model=model, start=start, updates=5, progress=False).history[0]
        for start in ("given", "greedy")
    )
    assert greedy.expected_return > given.expected_return + 0.3


def test_a_built_policy_starts_greedily_and_a_given_one_as_it_is(grid: Transitions) -> None:
    def first(**settings: object) -> float:
        found = nopg.optimize(grid, 0.9, model="nadaraya-watson", updates=1, progress=False, **settings)  # type: ignore[arg-type]
        return found.history[0].expected_return

    def fresh() -> MLPPolicy:
        return MLPPolicy.from_data(grid.features, grid.actions, rng=generator(0, "policy"))

    assert first() == first(start="greedy") > first(start="given")
    assert first(policy=fresh()) == first(policy=fresh(), start="given") == first(start="given")


@pytest.mark.slow
def test_one_seed_reproduces_a_greedy_start_too(grid: Transitions) -> None:
    first, again = (nopg.optimize(grid, 0.9, updates=10, progress=False) for _ in range(2))
    assert first.history == again.history
    assert first.expected_return == again.expected_return


def test_a_start_that_does_not_exist_is_refused(grid: Transitions) -> None:
    with pytest.raises(ArgumentError, match="there is no start 'warm'; choose 'auto', 'given' or 'greedy'"):
        nopg.optimize(grid, 0.9, start="warm")  # type: ignore[arg-type]
