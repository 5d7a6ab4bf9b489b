"""Plans on the local model: their gradient, their value, and the controllers made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg import Transitions, evaluate_offline
from nopg._seeding import generator
from nopg.bellman import MultistepProblem
from nopg.bellman._multistep_solution import MultistepSolution
from nopg.envs import Pendulum, collect_grid
from nopg.errors import ArgumentError
from nopg.models import LocalModel
from nopg.planning import Planner, PlannerConfig
from nopg.planning._plan import OpenLoop, Plans, drawn, improved
from nopg.policies import LinearPolicy, MLPPolicy

GAMMA = 0.95
A = np.array([[1.0, 0.1], [0.0, 1.0]])
B = np.array([[0.005], [0.1]])
EFFORT = 0.1


def regulated(rows: int = 400) -> Transitions:
    """Return rows of a double integrator whose reward is −‖s‖² − .1 a²; actions are multiples of .1."""
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-2, 2, (rows, 2)), rng.integers(-30, 31, (rows, 1)) / 10
    rewards = -np.square(s).sum(axis=1) - EFFORT * np.square(a[:, 0])
    return Transitions.from_arrays(s, a, rewards, s @ A.T + a @ B.T, initial_states=[[1.0, 0.0]])


def reward(states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
    del next_states
    return -states.square().sum(dim=1) - EFFORT * actions.square().sum(dim=1)


def riccati_gain() -> np.ndarray:
    """Return K of a = −K s, the optimum of the discounted task."""
    P = np.eye(2)
    for _ in range(2_000):
        K = np.linalg.solve(EFFORT * np.eye(1) + GAMMA * B.T @ P @ B, GAMMA * B.T @ P @ A)
        P = np.eye(2) + GAMMA * A.T @ P @ (A - B @ K)
    return K


@pytest.fixture(scope="module")
def regulator() -> MultistepSolution:
    data = regulated()
    problem = MultistepProblem.build(LocalModel(data, reward=reward), data.starts, GAMMA)
    return problem.solve(LinearPolicy([[-0.5, -0.5]]))


@pytest.fixture(scope="module")
def pendulum() -> MultistepSolution:
    data = collect_grid(Pendulum(), points=(10, 10, 2))
    problem = MultistepProblem.build(LocalModel(data), data.starts, GAMMA, num_nodes=100)
    return problem.solve(MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy")))


def some_states(solution: MultistepSolution, count: int = 6) -> torch.Tensor:
    return solution.problem.nodes.states[:count]


def test_the_gradient_of_a_plan_agrees_with_central_differences(pendulum: MultistepSolution) -> None:
    task, states = OpenLoop(pendulum.problem, pendulum.values[0]), some_states(pendulum)
    actions = np.random.default_rng(0).uniform(-1.5, 1.5, (8, len(states), 1))
    slopes = task.evaluate(states, actions).slopes
    assert np.abs(slopes).max() > 0.1
    for t in (0, 3, 7):
        moved = np.zeros_like(actions)
        moved[t] = h = 1e-5
        ahead, behind = (task.evaluate(states, actions + sign * moved).values for sign in (1, -1))
        # Second-order differences of a smooth function: errors of some 10⁻⁸ of the values, over 2h.
        np.testing.assert_allclose(slopes[t, :, 0], (ahead - behind) / (2 * h), rtol=1e-4, atol=1e-5)


def test_a_plan_is_worth_its_rewards_and_the_value_at_its_end(regulator: MultistepSolution) -> None:
    task = OpenLoop(regulator.problem, regulator.values[0])
    s, actions = torch.tensor([[0.5, -0.4]], dtype=torch.float64), np.array([[[1.0]], [[-0.5]]])
    first = s.numpy()[0]
    second = A @ first + B @ actions[0, 0]
    third = A @ second + B @ actions[1, 0]
    rewards = [-(x @ x) - EFFORT * a**2 for x, a in ((first, 1.0), (second, -0.5))]
    end = regulator.problem.nodes.interpolate(torch.as_tensor(third)[None])
    tail = float(end.values(regulator.values[0][end.near]))
    # At the centre of a chart the unknown share is 10⁻⁴; 20 times that leaves per effective horizon of 20.
    leaves, v = 1e-4, regulator.problem.unknown_value
    later = (1 - leaves) * (rewards[1] + GAMMA * tail) + leaves * v
    by_hand = (1 - leaves) * (rewards[0] + GAMMA * later) + leaves * v
    assert v < -100  # so what leaves is seen
    # The model fits this plant with a ridge of 10⁻⁶.
    assert task.evaluate(s, actions).values[0] == pytest.approx(by_hand, rel=1e-4)


def test_long_plans_on_a_linear_plant_are_those_of_the_riccati_equation(regulator: MultistepSolution) -> None:
    planner = Planner(regulator, PlannerConfig(horizon=60, candidates=0, iterations=100))
    states = torch.tensor([[0.8, 0.0], [-0.5, 0.5], [0.2, -0.6]], dtype=torch.float64)
    wanted = -states.numpy() @ riccati_gain().T
    # γ⁶⁰ = .046 of the value at the end is that of another policy, interpolated; the largest error is .004.
    np.testing.assert_allclose(planner(states.numpy()), wanted, atol=0.01)


def test_a_plan_is_never_worse_than_the_policy_nor_than_the_last_plan(pendulum: MultistepSolution) -> None:
    states = some_states(pendulum, 30)
    planner = Planner(pendulum, PlannerConfig(horizon=12, candidates=4, iterations=5))
    plans = planner.plan(states)
    idle = Planner(pendulum, PlannerConfig(horizon=12, candidates=0, iterations=0)).plan(states)
    assert (plans.values >= idle.values).all()
    assert plans.values.mean() > idle.values.mean() + 0.1
    last = np.random.default_rng(1).uniform(-2, 2, plans.actions.shape)
    shifted = planner.task.evaluate(states, np.concatenate([last[1:], last[-1:]])).values
    assert (planner.plan(states, last).values >= shifted).all()


def test_without_a_value_at_its_end_a_plan_is_worth_its_rewards(pendulum: MultistepSolution) -> None:
    states = some_states(pendulum)
    plans = Planner(pendulum, PlannerConfig(horizon=3, rounds=0, iterations=0, end_value=False)).plan(states)
    bare = OpenLoop(pendulum.problem, torch.zeros_like(pendulum.values[0]))
    np.testing.assert_array_equal(plans.values, bare.evaluate(states, plans.actions).values)
    ended = OpenLoop(pendulum.problem, pendulum.values[0]).evaluate(states, plans.actions).values
    assert np.abs(plans.values - ended).min() > 1.0


def test_plans_that_all_end_early_have_as_many_states_as_others() -> None:
    data = regulated()
    ended = data.next_states[:, 0].abs() > 1.5
    data = Transitions.from_arrays(
        data.states,
        data.actions,
        data.rewards,
        data.next_states,
        terminated=ended,
        initial_states=data.starts,
    )
    problem = MultistepProblem.build(LocalModel(data), data.starts, GAMMA)
    planner = Planner(
        problem.solve(LinearPolicy([[0.0, 0.0]])), PlannerConfig(horizon=8, rounds=0, iterations=3)
    )
    inside, outside = torch.tensor([[[0.0, 0.0]], [[1.9, 1.9]]], dtype=torch.float64)
    still = np.zeros((8, 1, 1))
    leaving = planner.task.evaluate(outside, still)
    assert leaving.states.shape == planner.task.evaluate(inside, still).states.shape == (9, 1, 2)
    np.testing.assert_array_equal(leaving.states[1:], np.broadcast_to(leaving.states[-1], (8, 1, 2)))
    assert planner.plan(torch.cat([inside, outside])).states.shape == (9, 2, 2)
    assert planner.plan(outside).states.shape == (9, 1, 2)


def test_every_state_is_planned_for_itself(pendulum: MultistepSolution) -> None:
    planner, states = Planner(pendulum, PlannerConfig(horizon=10)), some_states(pendulum, 12)
    together = planner.plan(states).values
    alone = np.concatenate([planner.plan(state[None]).values for state in states])
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def test_search_keeps_actions_between_their_limits(pendulum: MultistepSolution) -> None:
    planner = Planner(pendulum, PlannerConfig(horizon=10, iterations=20))
    actions = planner.plan(some_states(pendulum, 30)).actions
    assert (actions >= planner.low).all()
    assert (actions <= planner.high).all()
    assert (np.isclose(actions, planner.low) | np.isclose(actions, planner.high)).any()


def test_without_iterations_a_search_returns_what_it_was_given(pendulum: MultistepSolution) -> None:
    planner, states = Planner(pendulum), some_states(pendulum)
    given: Plans = planner.task.evaluate(states, np.zeros((4, len(states), 1)))
    assert improved(planner.task, states, given, low=planner.low, high=planner.high, iterations=0) is given


def test_random_changes_never_lead_down_and_find_more_with_every_round(pendulum: MultistepSolution) -> None:
    planner, states = Planner(pendulum), some_states(pendulum, 20)
    draws = np.random.default_rng(0).standard_normal((6, 30, 4, 1))

    def found(rounds: int) -> np.ndarray:
        plans = drawn(
            planner.task,
            states,
            np.zeros((10, len(states), 1)),
            low=planner.low,
            high=planner.high,
            draws=draws[:rounds],
            hold=3,
            spread=0.5,
        )
        assert (plans >= planner.low).all()
        assert (plans <= planner.high).all()
        return planner.task.evaluate(states, plans, slopes=False).values

    none, one, six = found(0), found(1), found(6)
    np.testing.assert_array_equal(none, planner.task.evaluate(states, np.zeros((10, 20, 1))).values)
    assert (one >= none).all()
    assert (six >= one).all()
    assert six.mean() > one.mean() > none.mean() + 0.1


def test_random_changes_find_plans_that_the_gradient_misses(pendulum: MultistepSolution) -> None:
    states = some_states(pendulum, 30)
    with_draws, without = (
        Planner(pendulum, PlannerConfig(horizon=25, rounds=rounds, iterations=20)).plan(states).values
        for rounds in (2, 0)
    )
    assert with_draws.mean() > without.mean()
    assert (with_draws > without + 1.0).any()


def test_planning_is_a_function_of_the_seed(pendulum: MultistepSolution) -> None:
    states = some_states(pendulum)
    settings = [PlannerConfig(horizon=10, iterations=0, seed=seed) for seed in (0, 0, 1)]
    one, same, other = (Planner(pendulum, config).plan(states).actions for config in settings)
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_a_controller_goes_on_from_its_last_plan_until_it_is_reset(pendulum: MultistepSolution) -> None:
    planner = Planner(pendulum, PlannerConfig(horizon=8, candidates=2, iterations=1))
    controller, state = planner.controller(), np.array([3.0, 0.5])
    first = controller.act(state)
    assert first.shape == (1,)
    np.testing.assert_array_equal(first, planner(state))
    controller.act(state)
    np.testing.assert_array_equal(controller.reset().act(state), first)
    with pytest.raises(ArgumentError, match="call reset first"):
        controller.act(np.stack([state, state]))


def test_a_planner_slower_than_the_plant_is_refused(pendulum: MultistepSolution) -> None:
    planner = Planner(pendulum, PlannerConfig(horizon=5, candidates=0, iterations=0))
    assert planner.seconds_per_action() > 0
    with pytest.raises(ArgumentError, match=r"takes .* s here, longer than the sampling interval of 1e-07 s"):
        planner.controller(interval=1e-7)
    planner.controller(interval=60.0)


def test_a_planner_is_evaluated_like_any_controller_and_beats_its_policy(
    regulator: MultistepSolution,
) -> None:
    data, planner = (
        regulator.problem.data,
        Planner(regulator, PlannerConfig(horizon=8, candidates=0, iterations=3)),
    )
    planned, own = evaluate_offline(planner, data, GAMMA), evaluate_offline(regulator.policy, data, GAMMA)
    assert planned.interval[0] > own.interval[0]


def test_actions_with_levels_are_refused() -> None:
    data = regulated()
    levels = {data.schema.actions[0]: tuple(k / 10 for k in range(-30, 31))}
    data = replace(data, schema=replace(data.schema, levels=levels))
    problem = MultistepProblem.build(LocalModel(data), data.starts, GAMMA)
    with pytest.raises(ArgumentError, match="does not keep the levels"):
        Planner(problem.solve(LinearPolicy([[-0.5, -0.5]])))


@pytest.mark.parametrize("field", ["horizon", "hold", "candidates", "rounds", "iterations"])
def test_settings_that_mean_nothing_are_refused(field: str) -> None:
    with pytest.raises(ArgumentError, match=f"{field} = -1"):
        PlannerConfig(**{field: -1})  # type: ignore[arg-type]
