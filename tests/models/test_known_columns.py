"""Derived and exogenous columns in a model: computed along rollouts, never learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nopg._typing import FloatArray
from nopg.bellman import MultistepProblem
from nopg.data import Transitions
from nopg.models import LocalModel
from nopg.models._known_columns import ExogenousMoves, ExogenousPaths, KnownColumns
from nopg.models._rollout import rollout

_DELAY = 3


def tank(rows: int = 400, *, noise: float = 0.0, seed: int = 0) -> Transitions:
    """Return the log of a level that follows the valve of three steps ago, and a set-point that steps."""
    rng = np.random.default_rng(seed)
    valve, level = rng.uniform(-1, 1, rows + 1), np.zeros(rows + 1)
    setpoint = rng.uniform(-1, 1, rows // 25 + 2).repeat(25)[: rows + 1]
    for t in range(rows):
        late = valve[t - _DELAY] if t >= _DELAY else 0.0
        level[t + 1] = 0.9 * level[t] + 0.3 * late + noise * rng.normal()
    states = np.column_stack([level, setpoint])
    data = Transitions.from_arrays(
        *(states[:-1], valve[:-1], "-(level - setpoint) ** 2", states[1:]),
        state_names=["level", "setpoint"],
        action_names=["valve"],
        episodes=np.zeros(rows),
        exogenous=["setpoint"],
    )
    return data.derive(lags={"valve": _DELAY}, integrals={"total": "level - setpoint"})


@pytest.fixture(scope="module")
def model() -> LocalModel:
    return LocalModel(tank())


def test_only_measured_columns_that_actions_move_are_learned(model: LocalModel) -> None:
    assert [fit.name for fit in model.learned_fits] == ["level"]
    assert model.learned_fits[0].r_squared == pytest.approx(1.0)
    assert model.learned_fits[0].inputs == ("level", "valve_lag3")


def test_a_step_predicts_derived_columns_exactly(model: LocalModel) -> None:
    data = model.data
    found = data.states + model.predict(data.states, data.actions).displacement
    derived = slice(len(data.schema.measured), None)
    torch.testing.assert_close(found[:, derived], data.next_states[:, derived], rtol=0, atol=1e-12)


def test_lags_and_integrals_along_a_rollout_are_earlier_values(model: LocalModel) -> None:
    path = rollout(model, lambda features, t: 0.1 * t - features[:, :1], model.data.states[:5], 8)
    s, a = path.states, path.actions
    np.testing.assert_allclose(s[1:, :, 2], a[..., 0], rtol=0, atol=0)
    np.testing.assert_allclose(s[3:, :, 4], a[:-2, :, 0], rtol=0, atol=0)
    np.testing.assert_allclose(np.diff(s[..., 5], axis=0), s[:-1, :, 0] - s[:-1, :, 1], atol=1e-12)
    np.testing.assert_allclose(s[..., 1], np.broadcast_to(s[0, :, 1], s.shape[:2]))  # held without noise


@pytest.mark.parametrize("noisy", [False, True])
def test_slopes_along_rollouts_are_those_of_finite_differences(noisy: bool) -> None:
    model = LocalModel(tank(noise=0.05))
    start, gain = model.data.states[10:11].clone(), torch.tensor([[-0.5, 0.3, 0.1, 0.0, -0.2, 0.05]]).double()
    steps, rng = 6, np.random.default_rng(3)
    noise = rng.normal(size=(steps, 1, 12)) if noisy else None

    def end(first: torch.Tensor) -> FloatArray:
        found: FloatArray = rollout(model, lambda f, _: f @ gain.T, first, steps, noise=noise).states[-1, 0]
        return found

    path = rollout(model, lambda f, _: f @ gain.T, start, steps, noise=noise, slopes=True)
    assert path.slopes is not None
    total = np.eye(6)
    for by_x in path.slopes[0][..., 0]:
        total = (by_x[:, :6] + by_x[:, 6:] @ gain.numpy()) @ total
    for k in (0, 2, 4, 5):  # a change of the set-point may draw another row of the log
        shift = torch.zeros_like(start)
        shift[0, k] = 1e-6
        numeric = (end(start + shift) - end(start - shift)) / 2e-6
        np.testing.assert_allclose(total[:, k], numeric, atol=1e-6)


def test_an_exogenous_column_moves_as_rows_with_similar_values_did() -> None:
    values = np.arange(1000.0)
    moves = ExogenousMoves.of(values, np.where(values < 500, 1.0, -1.0))
    normal = np.random.default_rng(0).normal(size=2000)
    assert set(moves.draw(np.full(2000, 100.0), normal)) == {1.0}
    assert set(moves.draw(np.full(2000, 900.0), normal)) == {-1.0}
    assert abs(moves.draw(np.full(2000, 500.0), normal).mean()) < 0.1  # both, evenly


def test_a_value_that_rests_in_many_rows_is_left_as_often_as_in_the_log() -> None:
    values = np.repeat([0.0, 5.0, 0.0, -5.0] * 20, 60)
    steps = np.append(np.diff(values), 0.0)
    normal = np.random.default_rng(0).normal(size=20_000)
    for value in (0.0, 5.0, -5.0):
        drawn = ExogenousMoves.of(values, steps).draw(np.full(20_000, value), normal)
        logged = (steps[values == value] != 0).mean()
        assert (drawn != 0).mean() == pytest.approx(logged, abs=0.004)


def test_a_rollout_with_noise_moves_the_set_point_within_the_log(model: LocalModel) -> None:
    noise = np.random.default_rng(0).normal(size=(100, 40, 12))
    path = rollout(model, lambda f, _: 0.0 * f[:, :1], model.data.states[:40], 100, noise=noise)
    setpoint, logged = path.states[..., 1], model.data.states[:, 1]
    assert float(logged.min()) <= setpoint.min() < setpoint.max() <= float(logged.max())
    moved = (np.diff(setpoint, axis=0) != 0).mean()
    assert moved == pytest.approx(1 / 25, abs=0.015)


def test_parts_of_a_log_move_exogenous_columns_as_their_own_rows_did() -> None:
    data = tank()
    known, groups = KnownColumns.of(data), torch.arange(len(data)) * 2 // len(data)
    kept = torch.tensor([[True, True], [True, False]])
    paths = ExogenousPaths(data, known, groups, kept, torch.ones(len(data)))
    states = np.repeat(data.states.numpy()[:1].T, 4000, axis=1)
    normal = np.random.default_rng(0).normal(size=states.shape)
    after = states.copy()
    paths.move(after, states, normal, np.ones(4000, dtype=np.int64))
    moves = set((after[1] - states[1]).round(9))
    steps = (data.next_states - data.states)[:, 1].numpy().round(9)
    assert moves <= set(steps[groups.numpy() == 0])
    assert len(moves) > 1


def test_earlier_actions_do_not_count_in_the_metric_of_states(model: LocalModel) -> None:
    assert model.steps.known.pending.tolist() == [False, False, True, True, True, False]
    problem = MultistepProblem.build(model, model.data.states[:1], 0.9, horizon=2, num_nodes=10)
    encode = model.data.schema.encode
    here, other = model.data.states[:1], model.data.states[:1].clone()
    other[0, 2:5] = 1.0  # other actions, as large as any
    assert float(((encode(other) - encode(here)) / problem.state_widths).norm()) < 1e-3
    other[0, 0] += 100.0
    assert float(((encode(other) - encode(here)) / problem.state_widths).norm()) > 10


def test_a_derived_column_that_nothing_depends_on_is_no_regressor_and_may_be_anything() -> None:
    rng = np.random.default_rng(0)
    level, goal, rows = 0.0, 1.0, []
    for _ in range(400):
        valve = 0.5 * (goal - level) + 0.3 * rng.normal()
        after = 0.9 * level + 0.2 * valve + 0.001 * rng.normal()
        rows.append((level, goal, valve, after))
        level, goal = after, rng.uniform(-1, 1) if rng.random() < 0.05 else goal
    s = np.array(rows)
    data = Transitions.from_arrays(
        s[:-1, :2],
        s[:-1, 2:3],
        np.zeros(399),
        np.stack([s[:-1, 3], s[1:, 1]], axis=1),
        state_names=["level", "goal"],
        action_names=["valve"],
        exogenous={"goal": "log"},
    )
    late = data.derive(formulas={"goal_before": ("level", "goal")})
    model = LocalModel(late)
    assert model.fits[0].shape.used.tolist() == [True, False, False, True]
    known, odd = torch.tensor([[0.2, 0.5, 0.5], [0.2, 0.5, -3.0]], dtype=torch.float64)
    action = torch.tensor([[0.1]], dtype=torch.float64)
    here, there = (model.steps.predict(one[None], action) for one in (known, odd))
    assert float(here.unknown) == pytest.approx(float(there.unknown), abs=1e-9)
    assert float(here.displacement[0, 0]) == float(there.displacement[0, 0])
