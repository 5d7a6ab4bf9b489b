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
from nopg.planning._planner import Plans, PlanSearch, _within
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


def some_states(solution: MultistepSolution | PlanSearch, count: int = 6) -> torch.Tensor:
    return solution.problem.nodes.states[:count]


def search_on(solution: MultistepSolution, *, tail: bool = True) -> PlanSearch:
    values = solution.values[0] if tail else torch.zeros_like(solution.values[0])
    low, high = (part.numpy() for part in solution.problem.data.actions.aminmax(dim=0))
    return PlanSearch(solution.problem, values, low, high)


def test_the_slope_of_a_plan_agrees_with_central_differences(pendulum: MultistepSolution) -> None:
    search, states = search_on(pendulum), some_states(pendulum)
    actions = np.random.default_rng(0).uniform(-1.5, 1.5, (8, len(states), 1))
    now = search._follow(states, Plans.of_actions(actions, 2), slopes=True)
    damping = 1e6 / search._reward_range  # the change is then the slope over the damping, some 10⁻⁵
    change, gains, gain = search._feedback(now, np.full(len(states), damping))
    assert np.abs(gains).max() > 0.1  # damping does not reach them
    assert np.sqrt(gain * 1e6).min() > 0.1
    around = replace(now.plans, gains=gains)
    ahead, behind = (
        search._follow(states, around, sign * change, slopes=False).plans.values for sign in (1, -1)
    )
    # Terms of third order in the change, and rounding of values of some tens.
    np.testing.assert_allclose(gain, (ahead - behind) / 2, rtol=1e-4, atol=1e-12)


def test_a_plan_is_worth_its_rewards_and_the_value_at_its_end(regulator: MultistepSolution) -> None:
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
    found = search_on(regulator).evaluate(s, Plans.of_actions(actions, 2))
    assert found.values[0] == pytest.approx(by_hand, rel=1e-4)


def test_long_plans_on_a_linear_plant_are_those_of_the_riccati_equation(regulator: MultistepSolution) -> None:
    planner = Planner(regulator, PlannerConfig(horizon=60, candidates=0, first_iterations=4))
    states = torch.tensor([[0.8, 0.0], [-0.5, 0.5], [0.2, -0.6]], dtype=torch.float64)
    plans, K = planner.plan(states), riccati_gain()
    # γ⁶⁰ = .046 of the value at the end is that of another policy, interpolated.
    np.testing.assert_allclose(plans.actions[0], -states.numpy() @ K.T, atol=0.01)
    np.testing.assert_allclose(plans.gains[0], np.broadcast_to(-K, (3, 1, 2)), atol=0.03)


def test_a_plan_is_never_worse_than_the_policy_nor_than_the_last_plan(pendulum: MultistepSolution) -> None:
    states = some_states(pendulum, 30)
    planner = Planner(pendulum, PlannerConfig(horizon=12, candidates=4, first_iterations=5, iterations=1))
    plans = planner.plan(states)
    idle = Planner(pendulum, PlannerConfig(horizon=12, candidates=0, first_iterations=0)).plan(states)
    assert (plans.values >= idle.values).all()
    assert plans.values.mean() > idle.values.mean() + 0.1
    last = Plans.of_actions(np.random.default_rng(1).uniform(-2, 2, plans.actions.shape), 2)
    left = planner.search.evaluate(states, last.after_a_step()).values
    assert (planner.plan(states, last).values >= np.maximum(left, idle.values)).all()


def unstable(rows: int = 400) -> Transitions:
    """Return rows of s′ = 1.3 s + .5 a with reward −s² − .01 a²."""
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-2, 2, (rows, 1)), rng.uniform(-3, 3, (rows, 1))
    rewards = -np.square(s[:, 0]) - 0.01 * np.square(a[:, 0])
    return Transitions.from_arrays(s, a, rewards, 1.3 * s + 0.5 * a, initial_states=[[0.5]])


def test_feedback_keeps_a_plan_where_the_plant_is_unstable() -> None:
    data = unstable()
    problem = MultistepProblem.build(LocalModel(data), data.starts, GAMMA)
    planner = Planner(problem.solve(LinearPolicy([[0.0]])), PlannerConfig(horizon=25, end_value=False))
    plans = planner.plan(torch.tensor([[0.5]], dtype=torch.float64))
    assert plans.values[0] > -0.5  # −.25 in the first step
    # 1.3²⁵ = 706: without feedback an error of .02 leaves the data.
    disturbed = torch.as_tensor(plans.states[1]) + 0.02
    left = plans.after_a_step()
    followed, replayed = (
        planner.search.evaluate(disturbed, one).values[0] for one in (left, Plans.of_actions(left.actions, 1))
    )
    assert followed > -0.2  # of which −.11 leaves the data, at 10⁻⁴ of a mass of −80 in every step
    assert replayed < followed - 10.0


@pytest.mark.parametrize("actions", [1, 2, 3])
def test_a_step_within_limits_is_the_best_one(actions: int) -> None:
    rng = np.random.default_rng(actions)
    q, root = rng.standard_normal((200, actions)), rng.standard_normal((200, actions, actions))
    Q = -root @ root.swapaxes(1, 2) - 0.1 * np.eye(actions)
    Q_as = rng.standard_normal((200, actions, 2))
    room = -rng.uniform(0, 1, q.shape), rng.uniform(0, 1, q.shape)
    k, K = _within(room, q, Q_as, Q, np.zeros((200, 1, 1)))
    assert ((k >= room[0]) & (k <= room[1])).all()
    at_a_limit = (k == room[0]) | (k == room[1])
    assert 0.2 < at_a_limit.mean() < 0.9
    assert (K[at_a_limit] == 0).all()
    # At the optimum the slope is 0 where an action is free and points outwards at a limit.
    slope = q + np.einsum("mab,mb->ma", Q, k)
    outwards = np.where(k == room[0], slope <= 0, slope >= 0)
    solved = np.where(at_a_limit, outwards, np.abs(slope) < 1e-8).all(axis=1)
    assert solved.mean() > (0.99 if actions < 3 else 0.9)
    gain = (q * k).sum(axis=1) + 0.5 * np.einsum("ma,mab,mb->m", k, Q, k)
    assert gain.min() >= 0.0


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
        problem.solve(LinearPolicy([[0.0, 0.0]])),
        PlannerConfig(horizon=8, candidates=0, first_iterations=3),
    )
    inside, outside = torch.tensor([[[0.0, 0.0]], [[1.9, 1.9]]], dtype=torch.float64)
    still = Plans.of_actions(np.zeros((8, 1, 1)), 2)
    leaving = planner.search.evaluate(outside, still)
    assert leaving.states.shape == planner.search.evaluate(inside, still).states.shape == (9, 1, 2)
    np.testing.assert_array_equal(leaving.states[1:], np.broadcast_to(leaving.states[-1], (8, 1, 2)))
    assert planner.plan(torch.cat([inside, outside])).states.shape == (9, 2, 2)
    assert planner.plan(outside).states.shape == (9, 1, 2)


def test_planning_is_a_function_of_the_seed(pendulum: MultistepSolution) -> None:
    states = some_states(pendulum)
    settings = [PlannerConfig(horizon=10, first_iterations=0, seed=seed) for seed in (0, 0, 1)]
    one, same, other = (Planner(pendulum, config).plan(states).actions for config in settings)
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_a_controller_goes_on_from_its_last_plan_until_it_is_reset(pendulum: MultistepSolution) -> None:
    planner = Planner(pendulum, PlannerConfig(horizon=8, candidates=2, first_iterations=2, iterations=1))
    controller, state = planner.controller(), np.array([3.0, 0.5])
    first = controller.act(state)
    assert first.shape == (1,)
    np.testing.assert_array_equal(first, planner(state))
    controller.act(state)
    np.testing.assert_array_equal(controller.reset().act(state), first)
    with pytest.raises(ArgumentError, match="call reset first"):
        controller.act(np.stack([state, state]))


def test_a_planner_is_evaluated_like_any_controller_and_beats_its_policy(
    regulator: MultistepSolution,
) -> None:
    data, planner = (
        regulator.problem.data,
        Planner(regulator, PlannerConfig(horizon=4, candidates=0, first_iterations=1)),
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


@pytest.mark.parametrize("field", ["horizon", "candidates", "first_iterations", "iterations"])
def test_settings_that_mean_nothing_are_refused(field: str) -> None:
    with pytest.raises(ArgumentError, match=f"{field} = -1"):
        PlannerConfig(**{field: -1})  # type: ignore[arg-type]
