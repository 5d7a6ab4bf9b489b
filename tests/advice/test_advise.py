"""Advice on experiments: bounds, ranking and table."""

import numpy as np
import pytest
import torch

import nopg
from nopg.advice import Advice, _advise
from nopg.advice._advise import FAMILY, append, predicted_rows
from nopg.advice._experiments import Candidate, boxes, random_steps
from nopg.errors import ArgumentError, DataError
from nopg.models import LocalModel

GAIN = np.array([[1.0], [1.5]])
UNEXCITED, EXCITED = Candidate("the policy", 0.0), Candidate("the policy", 0.2)
DISCOUNT = 0.9


def feedback(states: torch.Tensor) -> torch.Tensor:
    return -states @ torch.as_tensor(GAIN)


def cart_log(*, dither: float = 0.0, bounded: bool = True, seed: int = 0) -> nopg.Transitions:
    """Return 8 episodes of 20 rows of a double integrator with noise, under exactly linear feedback."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(8):
        state = rng.uniform(-1.0, 1.0, 2)
        for _ in range(20):
            force = -(state @ GAIN) + dither * rng.uniform(-1.0, 1.0, 1)
            after = state + 0.1 * np.array([state[1], force[0]]) + rng.normal(0.0, [0.002, 0.01])
            rows.append((state, force, -(state[0] ** 2) - 0.1 * force[0] ** 2, after, episode))
            state = after
    states, forces, rewards, after, episodes = (np.array(column) for column in zip(*rows, strict=True))
    return nopg.Transitions.from_arrays(
        states, forces, rewards, after, episodes=episodes,
        state_names=["position", "velocity"], action_names=["force"], units={"force": "N"},
        bounds={"force": (-4.0, 4.0)} if bounded else {},
    )  # fmt: skip


@pytest.fixture(scope="module")
def advice() -> Advice:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_advise, "FAMILY", (UNEXCITED, EXCITED, Candidate("today's controller", 0.2, hold=5)))
        return nopg.advise(cart_log(), feedback, DISCOUNT, rows=80)


def test_actions_without_bounds_are_refused_with_how_to_declare_them() -> None:
    with pytest.raises(ArgumentError, match=r"force.*bounds=\{'force': \(lowest, highest\)\}.*declare"):
        nopg.advise(cart_log(bounded=False), feedback, DISCOUNT)


@pytest.mark.parametrize("bounds", [{"valve": (0.0, 1.0)}, {"force": (1.0, -1.0)}, {"force": (0.0, np.inf)}])
def test_bounds_of_another_column_or_in_the_wrong_order_are_refused(
    bounds: dict[str, tuple[float, float]],
) -> None:
    with pytest.raises(
        (ArgumentError, DataError), match=r"bounds (of 'valve'|of 'force'|are known for force)"
    ):
        nopg.advise(cart_log(), feedback, DISCOUNT, bounds=bounds)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ArgumentError, match="rows is 3"):
        nopg.advise(cart_log(), feedback, DISCOUNT, rows=3)


def test_given_bounds_replace_declared_ones_and_the_range_of_the_log() -> None:
    data = cart_log()
    assert boxes(data, None)[0].low.tolist() == [-4.0]
    force, box = boxes(data, {"velocity": (-0.5, 0.5), "force": (-1.0, 2.0)})
    assert force.high.tolist() == [2.0]
    seen = torch.cat([data.states, data.next_states])[:, 0]
    assert box.from_log == ("position",)
    assert (float(box.low[0]), float(box.high[0])) == (float(seen.min()), float(seen.max()))
    assert (float(box.low[1]), float(box.high[1])) == (-0.5, 0.5)


def test_predicted_rows_stay_within_the_bounds_and_rows_outside_are_counted() -> None:
    data = cart_log(dither=1.0)
    model, signal = LocalModel(data), random_steps(torch.tensor([2.0]).double(), 3, torch.Generator())

    def rows_within(limit: float) -> tuple[nopg.Transitions | None, float]:
        force, box = boxes(data, {"force": (-0.5, 0.5), "velocity": (-limit, limit)})
        return predicted_rows(
            model, lambda features: force.clip(feedback(features) + signal(len(features))), data.starts,
            steps=20, rows=60, box=box, seed=0,
        )  # fmt: skip

    new, outside = rows_within(0.3)
    assert new is not None
    assert len(new) <= 60
    assert float(new.actions.abs().max()) <= 0.5
    assert float(torch.cat([new.states, new.next_states])[:, 1].abs().max()) <= 0.3
    assert 0.1 < outside < 1.0
    assert rows_within(100.0)[1] < outside
    assert rows_within(1e-9) == (None, 1.0)


def test_new_rows_are_new_episodes_and_the_starts_stay_those_of_the_log() -> None:
    data, new = cart_log(), cart_log(seed=1)
    both = append(data, new)
    assert both.episodes is not None
    assert len(both.episodes.unique()) == 16
    assert torch.equal(both.starts, data.starts)
    assert torch.equal(both.states, torch.cat([data.states, new.states]))


def test_an_experiment_that_excites_the_action_ranks_above_one_that_does_not(advice: Advice) -> None:
    shares = [one.share for one in advice.experiments if one.base == "the policy"]
    assert shares == [0.2, 0.0]
    excited, unexcited = (one for one in advice.experiments if one.base == "the policy")
    assert advice.today.verdict == unexcited.verdict == "weak"
    assert "its effect on velocity cannot be identified" in advice.today.reasons[0]
    assert excited.verdict == "ok"


def test_today_s_controller_comes_first_while_the_policy_is_not_identifiable() -> None:
    family = (
        Candidate("the policy", 0.2),
        Candidate("a constant action", 0.4),
        Candidate("today's controller", 0.01),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_advise, "FAMILY", family)
        found = nopg.advise(cart_log(), lambda states: 2.0 * feedback(states), DISCOUNT, rows=80)
    assert found.today.verdict == "not identifiable"
    assert found.best.base == "today's controller"
    assert found.best.unknown_mass > found.experiments[1].unknown_mass


def test_experiments_that_often_leave_the_bounds_of_the_states_come_last() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            _advise, "FAMILY", (Candidate("a constant action", 0.4, hold=20), Candidate("the policy", 0.02))
        )
        bounds = {"position": (-1.5, 1.5), "velocity": (-1.5, 1.5)}
        found = nopg.advise(cart_log(dither=1.0), feedback, DISCOUNT, rows=80, bounds=bounds)
    assert [one.too_far for one in found.experiments] == [False, True]
    assert found.experiments[1].outside > 0.2 > found.best.outside
    assert found.notes == ()


def test_the_table_has_one_line_for_each_experiment(advice: Advice) -> None:
    lines = str(advice).splitlines()
    assert lines[1].startswith("weak")
    assert lines[1].endswith("the log as it is")
    for line, one in zip(lines[2:5], advice.experiments, strict=True):
        assert line.startswith(one.verdict)
        assert line.endswith(str(one))
    assert "±1.6 N on force in every row, usual starts, 4 episodes of 20 rows" in lines[2]
    assert "range of the log" in lines[5]


def test_a_log_with_verdict_ok_needs_no_experiment() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_advise, "FAMILY", FAMILY[:1])
        found = nopg.advise(cart_log(dither=1.0), feedback, DISCOUNT, rows=40)
    assert not found.needed
    assert "no experiment is needed" in str(found)


def test_the_controller_of_an_experiment_keeps_the_bounds_of_the_actions(advice: Advice) -> None:
    act = advice.best.controller(lambda states: 100.0 * states, seed=1)
    actions = torch.stack([act(np.array([[1.0], [-1.0], [0.0]])) for _ in range(20)])
    assert float(actions[:, 0].min()) == 4.0
    assert float(actions[:, 1].max()) == -4.0
    assert 0.5 < float(actions[:, 2].abs().max()) <= 1.6
