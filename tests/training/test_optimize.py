import logging
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch

import nopg
from flat_settings import configured
from models.test_local_model import linear_log
from nopg import Bandwidths
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_grid, simulate
from nopg.errors import ArgumentError, DataError, ObservationError, SupportWarning
from nopg.paper import PaperSolution
from nopg.policies import Deterministic, GaussianMLPPolicy, LinearPolicy, MLPPolicy
from nopg.training import Update

HANGING = [np.pi, 0.0]
GRID = Bandwidths.from_values([0.25, 0.25, 0.6], [2.0])
PAPER: dict[str, Any] = {"model": "paper", "bandwidths": GRID, "progress": False}

# Small trainings are rarely significantly better.
pytestmark = pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")


def network(data: Transitions, *, updates: int) -> nopg.TrainingResult:
    """Train a network from random weights, without judging it beside least squares and LQR."""
    config = nopg.TrainingConfig(updates=updates, seed=0, start="given", progress=False)
    return nopg.optimize(data, 0.9, policy="deterministic", config=config)


@pytest.fixture(scope="module")
def result(grid: Transitions) -> nopg.TrainingResult:
    return network(grid, updates=21)


def test_training_raises_the_expected_return(result: nopg.TrainingResult) -> None:
    history = result.history
    assert [update.number for update in history] == list(range(1, len(history) + 1))
    assert max(update.expected_return for update in history) > history[0].expected_return + 0.1


def test_what_trains_is_what_judges_and_what_is_printed(
    grid: Transitions, result: nopg.TrainingResult
) -> None:
    judged = nopg.evaluate_offline(result.policy, grid, 0.9)
    assert result.expected_return == judged.expected_return == result.evaluation.expected_return
    assert result.interval == judged.interval
    assert result.unknown_mass == judged.unknown_mass
    assert result.verdict == judged.verdict
    assert f"{result.expected_return:.6g} in [{judged.interval[0]:.6g}, " in repr(result)
    summary = result.summary()
    assert summary["expected_return"] == result.expected_return
    assert summary["interval_low"] == judged.interval[0]


def test_the_answer_is_solved_to_its_certificate(result: nopg.TrainingResult) -> None:
    proof = result.certificate
    assert proof.converged
    assert proof.return_error < 1e-9
    assert proof.duality_gap < 1e-9
    assert proof.mass_defect < 1e-9


def test_one_seed_reproduces_everything_and_another_or_another_start_changes_it(grid: Transitions) -> None:
    settings: tuple[dict[str, Any], ...] = ({}, {}, {"seed": 1}, {"initial_states": [0.0, 0.0]})
    first, again, other, upright = (
        nopg.optimize(grid, 0.9, **configured(**PAPER, updates=2, start="given", **one)) for one in settings
    )
    assert again.history == first.history
    assert np.array_equal(again.policy(HANGING), first.policy(HANGING))
    assert other.history[0].expected_return != first.history[0].expected_return
    assert upright.expected_return > first.expected_return + 10.0
    with pytest.raises(DataError, match="initial_states have 3 columns, states have 2"):
        nopg.optimize(grid, 0.9, initial_states=[[0.0, 0.0, 0.0]])


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
    for answer in (result.policy, result.value):
        with pytest.raises(DataError, match=r"2 numbers \(angle, velocity\).*shape \(3,\)"):
            answer([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "observation",
    [[0.0, np.nan], [np.inf, 0.0], [1e17, 0.0], np.ma.MaskedArray([0.0, 1.0], mask=[False, True])],
)
def test_what_no_controller_may_act_on_is_refused_before_it_is_saved_too(
    result: nopg.TrainingResult, observation: Any
) -> None:
    asked = (result.policy, result.value, result.unknown_at)
    for answer in asked:
        with pytest.raises(ObservationError, match=r"no controller may act|no direction"):
            answer(observation)


@pytest.mark.parametrize("observation", [["a", "b"], [None, 0.0], [[0.0], [0.0, 1.0]], [1j, 0.0]])
def test_what_is_no_number_is_refused(result: nopg.TrainingResult, observation: Any) -> None:
    for answer in (result.policy, result.value):
        with pytest.raises(ArgumentError, match="not an array of real numbers"):
            answer(observation)


def test_a_full_turn_is_the_same_place(result: nopg.TrainingResult) -> None:
    turned = [HANGING[0] + 2 * np.pi, 0.0]
    # cos and sin of shifted angles agree to rounding.
    assert result.policy(turned) == pytest.approx(result.policy(HANGING), abs=1e-12)
    assert result.value([turned]) == pytest.approx(result.value([HANGING]), abs=1e-9)


def test_the_result_answers_at_raw_states(grid: Transitions, result: nopg.TrainingResult) -> None:
    states = grid.states[:5]
    # One fixed start: Ĵ of the equation is its value, and that of the rollouts is near.
    equation = result.solution.expected_return
    value = result.value([HANGING])[0]
    assert value == pytest.approx(equation, rel=1e-3)  # which counts the noise of the plant
    assert equation == pytest.approx(result.evaluation.pessimistic_return, rel=0.1)
    unknown = result.unknown_at(states)
    assert unknown.shape == (5,)
    assert np.isfinite(unknown).all()


def test_callbacks_hear_every_update_and_can_stop_the_training(grid: Transitions) -> None:
    heard: list[Update] = []

    def stop_at_three(update: Update) -> bool:
        heard.append(update)
        return update.number == 3

    silent: list[int] = []
    result = nopg.optimize(
        grid,
        0.9,
        model=nopg.PaperModel.Config(bandwidths=GRID),
        config=nopg.TrainingConfig(
            updates=10, callbacks=[stop_at_three, lambda update: silent.append(update.number)], progress=False
        ),
    )
    assert [update.number for update in heard] == [1, 2, 3]
    assert silent == [1, 2, 3]
    assert result.history == tuple(heard)


def test_a_training_prints_nothing_into_a_log(
    grid: Transitions, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="nopg"):
        nopg.optimize(grid, 0.9, model="paper", config=nopg.TrainingConfig(updates=2))
    assert capfd.readouterr() == ("", "")
    assert "bandwidths by leave-one-out" in caplog.text


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"discount": 1.0}, r"discount is 1\.0"),
        ({"policy": "random"}, "no policy 'random'"),
        ({"updates": 0}, "updates = 0"),
        ({"model": "linear"}, "no model 'linear'"),
        ({"model": "paper", "prior_mass": -1.0}, r"prior_mass is -1\.0"),
        ({"policy": LinearPolicy(torch.zeros(2, 3))}, "the policy has 2 actions, the data have 1"),
        (
            {"policy": torch.nn.Linear(3, 1)},
            r"a Linear is not a policy of nopg; .* wrap it in .* nopg.policies.Deterministic: with "
            r"num_actions, and mode\(features\)",
        ),
        ({"start": "warm"}, "there is no start 'warm'; choose 'auto' or 'given'"),
    ],
)
def test_a_setting_outside_its_range_is_refused_with_what_it_was(
    grid: Transitions, setting: dict[str, object], message: str
) -> None:
    arguments: dict[str, object] = {"discount": 0.9, "progress": False, **setting}
    with pytest.raises(ArgumentError, match=message):
        nopg.optimize(grid, **configured(**arguments))


def test_gaussian_policies_train_on_the_papers_model(grid: Transitions) -> None:
    result = nopg.optimize(grid, 0.9, policy="gaussian", **configured(**PAPER, updates=5))
    assert result.expected_return > result.history[0].expected_return
    assert isinstance(result.policy.policy, GaussianMLPPolicy)


class Wrapped(Deterministic):
    """What the message on a plain module says to write."""

    num_actions = 1

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, self.module(features))


def test_a_wrapped_module_is_trained_in_place(grid: Transitions) -> None:
    module = torch.nn.Linear(3, 1, dtype=torch.float64)
    before = module.weight.detach().clone()
    result = nopg.optimize(grid, 0.9, policy=Wrapped(module), **configured(**PAPER, updates=2))
    assert not torch.equal(module.weight, before)
    with torch.no_grad():
        expected = module(grid.schema.encode(torch.tensor([HANGING], dtype=torch.float64)))
    assert result.policy([HANGING]) == pytest.approx(expected.numpy())


def test_a_network_of_another_size_begins_with_the_best_start_too() -> None:
    data = linear_log(120)
    policy = MLPPolicy.from_data(
        data.features, data.actions, hidden=7, linear=True, rng=generator(0, "policy")
    )
    result = nopg.optimize(data, 0.9, policy=policy, config=nopg.TrainingConfig(updates=1, progress=False))
    assert result.start != "initial policy"
    assert result.policy.policy is policy
    assert policy.network.hidden.out_features == 7


def test_the_return_is_foreseen(result: nopg.TrainingResult) -> None:
    run = simulate(Pendulum(), result.policy, steps=200)
    came = float(run.discounted_returns(0.9)[0])
    assert result.certificate.converged
    assert result.expected_return == pytest.approx(came, rel=0.07)  # 128 transitions
    assert result.interval is not None
    low, high = result.interval
    assert low <= came <= high


def test_a_gaussian_policy_trains_on_the_local_model_and_leaves_the_global_random_state_alone(
    grid: Transitions,
) -> None:
    before = torch.get_rng_state()
    result = nopg.optimize(
        grid, 0.9, policy="gaussian", config=nopg.TrainingConfig(updates=11, start="given", progress=False)
    )
    assert result.history[-1].expected_return > result.history[0].expected_return
    assert torch.equal(before, torch.get_rng_state())


def test_doubt_is_said_before_the_result_is_returned() -> None:
    rng = torch.Generator().manual_seed(0)
    s, a, noise = torch.randn(3, 60, 1, generator=rng, dtype=torch.float64)
    lost = Transitions.from_arrays(s, a, noise[:, 0], 0.5 * s + 0.1 * a, episodes=torch.arange(60) // 20)
    with pytest.warns(SupportWarning) as caught:
        nopg.optimize(lost, 0.9, config=nopg.TrainingConfig(updates=1, start="given", progress=False))
    text = " ".join(str(warning.message) for warning in caught)
    assert "the controller is not significantly better than what was logged" in text
    assert "held-out rows are predicted badly, R²: reward" in text


def test_a_regulator_that_may_do_better_is_named() -> None:
    rng = generator(0, "log")
    s = 2 * torch.rand(300, 1, generator=rng, dtype=torch.float64) - 1
    a = 0.2 * torch.rand(300, 1, generator=rng, dtype=torch.float64)
    log = Transitions.from_arrays(s, a, -s.square()[:, 0], s + a, initial_states=[[-0.9]])
    lazy = LinearPolicy([[1e-3]])  # hardly does anything
    with pytest.warns(SupportWarning, match="least squares and LQR may do better"):
        nopg.optimize(
            log, 0.9, policy=lazy, config=nopg.TrainingConfig(updates=1, start="given", progress=False)
        )


def test_terminal_rows_need_no_next_value(grid: Transitions) -> None:
    ends = replace(grid, terminated=torch.ones(len(grid), dtype=torch.bool))
    paper = nopg.optimize(ends, 0.9, **configured(**PAPER, prior_mass=0.0, updates=2))
    assert isinstance(paper.solution, PaperSolution)
    assert torch.equal(paper.solution.q, grid.rewards)
    local = network(ends, updates=2)
    # What the start expects is its own reward.
    assert float(grid.rewards.min()) <= local.expected_return <= float(grid.rewards.max())


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "points"), [(200, (10, 10, 2)), (450, (15, 15, 2))])
def test_an_untuned_user_swings_the_pendulum_up(samples: int, points: tuple[int, ...]) -> None:
    environment = Pendulum()
    result = nopg.optimize(
        collect_grid(environment, points), 0.97, config=nopg.TrainingConfig(progress=False)
    )
    returned = float(simulate(environment, result.policy, steps=500).returns[0])
    assert returned > {200: -480, 450: -450}[samples]


@pytest.mark.slow
def test_a_policy_new_or_given_starts_at_the_best_proposal(grid: Transitions) -> None:
    def first(**settings: Any) -> float:
        return (
            nopg.optimize(grid, 0.9, **configured(**settings, updates=1, progress=False))
            .history[0]
            .expected_return
        )

    def fresh() -> MLPPolicy:
        rng = generator(0, "policy")
        return MLPPolicy.from_data(grid.features, grid.actions, rng=rng, linear=True)

    assert first() > first(start="given") + 1.0
    assert first(policy=fresh(), start="given") == first(start="given")
    assert first(policy=fresh()) == first()


@pytest.mark.slow
def test_one_seed_reproduces_a_portfolio_too(grid: Transitions) -> None:
    first, again = (
        nopg.optimize(grid, 0.9, config=nopg.TrainingConfig(updates=10, progress=False)) for _ in range(2)
    )
    assert first.history == again.history
    assert first.expected_return == again.expected_return


@pytest.mark.parametrize("switched_off", [torch.no_grad, torch.inference_mode])
def test_a_training_where_gradients_are_switched_off_is_the_same(
    grid: Transitions, switched_off: type[torch.no_grad]
) -> None:
    settings = configured(**PAPER, updates=2)
    plain = nopg.optimize(grid, 0.9, **settings)
    with switched_off():
        inside = nopg.optimize(grid, 0.9, **settings)
        found = simulate(Pendulum(), inside.policy, steps=2)
    assert found.returns.isfinite().all()
    assert inside.expected_return == plain.expected_return
    assert inside.history[-1].gradient_norm == plain.history[-1].gradient_norm > 0


def test_a_policy_that_cannot_be_trained_is_refused(grid: Transitions) -> None:
    with torch.inference_mode():
        policy = MLPPolicy.from_data(grid.features, grid.actions, rng=generator(0, "policy"))
    with pytest.raises(ArgumentError, match=r"made under torch\.inference_mode"):
        nopg.optimize(grid, 0.9, policy=policy, **configured(**PAPER, updates=1))
