"""Policy iteration on the nodes against value iteration on dense matrices."""

import pytest
import torch

from nopg.bandwidths import select_bandwidths
from nopg.bellman import BestActions, ControlProblem, action_candidates, best_actions
from nopg.environments import Pendulum
from nopg.errors import ArgumentError
from nopg.graph import LocalLinear, NadarayaWatson, TransitionModel
from nopg.rollouts import collect_uniform
from nopg.solvers import DenseLU

DISCOUNT = 0.95


def problem(kind: str) -> ControlProblem:
    data = collect_uniform(Pendulum(), 300, seed=0)
    h = select_bandwidths(data)
    model: TransitionModel = (
        LocalLinear(data, h.state_kernel)
        if kind == "local-linear"
        else NadarayaWatson(data, h, prior_mass=1e-3)
    )
    assert data.initial_states is not None
    return ControlProblem.build(model, data.schema.encode(data.initial_states), discount=DISCOUNT)


def optimal_return(task: ControlProblem, candidates: torch.Tensor) -> float:
    """Return the best Ĵ by repeated maximisation over the candidates, on dense matrices."""
    model, v = task.model, task.unknown_value

    def rows(queries: object) -> list[tuple[torch.Tensor, torch.Tensor]]:
        answers = []
        for action in candidates:
            backup = queries.backup(action.expand(1, len(queries.features), -1))  # type: ignore[attr-defined]
            answers.append((backup.reward + backup.unknown * v, backup.weights.to_dense()))
        return answers

    nodes, starts = rows(model.node_queries), rows(task.initial)
    x = torch.zeros(model.num_nodes, dtype=torch.float64)
    for _ in range(1_000):
        best = torch.stack([c + W @ x for c, W in nodes]).amax(dim=0)
        x = model.node_rewards + DISCOUNT * model.continues * best
    return float(torch.stack([c + W @ x for c, W in starts]).amax(dim=0).mean())


@pytest.mark.parametrize("kind", ["local-linear", "nadaraya-watson"])
def test_policy_iteration_reaches_the_optimum_of_the_model(kind: str) -> None:
    task = problem(kind)
    candidates = torch.tensor([[-2.0], [0.0], [2.0]], dtype=torch.float64)
    found = best_actions(task, candidates, solver=DenseLU())
    # It may end with a thousandth of the actions unsettled.
    assert found.expected_return == pytest.approx(optimal_return(task, candidates), rel=1e-3)
    assert 2 <= found.rounds <= 15
    assert found.actions.shape == (len(task.model.node_queries.features), 1)
    assert set(found.actions[:, 0].tolist()) == {-2.0, 0.0, 2.0}
    assert float(found.visits.sum()) > 1.0


def test_more_candidates_are_never_worse() -> None:
    task = problem("nadaraya-watson")
    few, more = (
        best_actions(task, torch.linspace(-2, 2, k, dtype=torch.float64)[:, None]).expected_return
        for k in (1, 5)
    )
    assert more > few + 1.0


def test_candidates_fill_the_box_of_the_actions() -> None:
    rng = torch.Generator().manual_seed(0)
    for d, count in ((1, 5), (2, 25), (3, 27), (5, 32), (6, 32)):
        actions = torch.randn(50, d, generator=rng, dtype=torch.float64)
        candidates = action_candidates(actions)
        assert candidates.shape == (count, d)
        assert bool((candidates >= actions.amin(dim=0) - 1e-12).all())
        assert bool((candidates <= actions.amax(dim=0) + 1e-12).all())
        if d < 6:
            assert torch.allclose(candidates.amin(dim=0), actions.amin(dim=0))
            assert torch.allclose(candidates.amax(dim=0), actions.amax(dim=0))


def test_candidates_of_another_shape_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"candidates have shape \(3,\); give \(c, 1\)"):
        best_actions(problem("nadaraya-watson"), torch.zeros(3))


def test_what_it_returns_says_whether_an_action_is_best() -> None:
    """At the states that are visited, no other candidate is better."""
    task = problem("nadaraya-watson")
    candidates = torch.tensor([[-2.0], [0.0], [2.0]], dtype=torch.float64)
    found: BestActions = best_actions(task, candidates, solver=DenseLU())
    queries = task.model.node_queries
    system = queries.backup(found.actions[None])
    P = task.model.operator(system)
    b = task.model.node_rewards + DISCOUNT * P.continues * (
        system.reward + system.unknown * task.unknown_value
    )
    q = torch.linalg.solve(torch.eye(len(b), dtype=torch.float64) - DISCOUNT * P.to_dense(), b)
    chosen = system.values(q, task.unknown_value)
    for action in candidates:
        other = queries.backup(action.expand(1, len(b), -1)).values(q, task.unknown_value)
        better = other > chosen + 1e-6 * chosen.abs().max()
        assert float(better.double().mean()) <= 0.01
