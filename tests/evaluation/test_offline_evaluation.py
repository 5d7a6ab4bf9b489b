"""Answers from data alone, beside the truth of small plants."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg._seeding import generator
from nopg.data import Schema, Transitions
from nopg.envs import LQR, simulate
from nopg.errors import ArgumentError
from nopg.evaluation import OfflineEvaluator, compare, evaluate_offline
from nopg.evaluation._behavior import logged_returns
from nopg.evaluation._comparison import LOGGED
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._paths import _discounted_costs, follow
from nopg.evaluation._risk import region_of, share_along
from nopg.models._rollout import Rollout

LAW = torch.tensor([[-4.0, 0.0], [0.0, -2.0]], dtype=torch.float64)


def regulated(states: torch.Tensor) -> torch.Tensor:
    return states @ LAW.T


def free(states: torch.Tensor) -> torch.Tensor:
    return 0.0 * states


@pytest.fixture(scope="module")
def data() -> Transitions:
    """A regulator under noise on its actions, from a box around rest."""
    plant, rng = LQR(), generator(0, "log")
    starts = 2 * torch.rand(40, 2, dtype=torch.float64, generator=rng) - 1

    def noisy(states: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(states.shape, dtype=torch.float64, generator=rng)
        return regulated(states) + 2 * noise

    log = simulate(plant, noisy, steps=15, initial_states=starts).transitions(plant)
    return log.starting_at(starts[:10])


@pytest.fixture(scope="module")
def evaluator(data: Transitions) -> OfflineEvaluator:
    return OfflineEvaluator(data, 0.9)


def truth(law: object, starts: torch.Tensor) -> float:
    runs = simulate(LQR(), law, steps=100, initial_states=starts)  # type: ignore[arg-type]
    return float(runs.discounted_returns(0.9).mean())


# Returns


def test_the_return_of_a_policy_is_found_without_its_plant(
    data: Transitions, evaluator: OfflineEvaluator
) -> None:
    answer = evaluator.assess(regulated)
    low, high = answer.interval
    exact = truth(regulated, data.starts)
    assert low <= exact <= high
    assert answer.expected_return == pytest.approx(exact, rel=0.01)
    assert answer.verdict == "ok"
    assert answer.reasons == ()
    assert "ok" in repr(answer)


def test_a_policy_that_leaves_the_data_is_not_called_ok(evaluator: OfflineEvaluator) -> None:
    runaway = evaluator.assess(lambda states: 8.0 * states)
    assert runaway.unknown_mass > 0.2
    assert runaway.verdict == "not identifiable"
    assert "lies outside the data" in runaway.reasons[0]
    assert runaway.pessimistic_return <= runaway.expected_return


def test_the_same_seed_gives_the_same_answer(data: Transitions) -> None:
    one, again = (evaluate_offline(regulated, data, 0.9) for _ in range(2))
    assert one.interval == again.interval
    assert torch.equal(one.paths.states, again.paths.states)


def test_a_single_row_tells_no_error() -> None:
    data = Transitions.from_arrays([0.0], [0.0], [0.0], [0.0])
    answer = evaluate_offline(lambda states: states, data, 0.9)
    assert answer.verdict == "not identifiable"
    assert "single row" in answer.reasons[0]


def test_actions_are_cut_at_declared_bounds() -> None:
    rng = generator(0, "bounded")
    x, u = 2 * torch.rand(2, 200, 1, dtype=torch.float64, generator=rng) - 1
    data = Transitions.from_arrays(x, u, -x[:, 0].square(), 0.5 * x + 0.1 * u, bounds={"a0": (-1, 1)})
    wild = evaluate_offline(lambda states: 1e6 + 0 * states, data, 0.9)
    full = evaluate_offline(lambda states: 1 + 0 * states, data, 0.9)
    assert wild.expected_return == full.expected_return


def test_a_policy_of_the_wrong_size_is_refused(data: Transitions) -> None:
    with pytest.raises(ArgumentError, match="2 numbers for each"):
        evaluate_offline(lambda states: states[:, :1], data, 0.9)


def test_an_interval_stays_within_what_the_rewards_make_possible(evaluator: OfflineEvaluator) -> None:
    low, high = evaluator.model.return_limits(0.9)
    for law in (regulated, lambda states: 8.0 * states):
        one = evaluator.assess(law)
        assert low <= one.interval[0] <= one.interval[1] <= high


def test_influence_is_what_the_return_loses_without_a_group(evaluator: OfflineEvaluator) -> None:
    found = evaluator.influence(regulated)
    rows = sorted(row for group, _ in found for row in group)
    assert rows == list(range(len(evaluator.data)))
    sizes = [abs(share) for _, share in found]
    assert sizes == sorted(sizes, reverse=True)
    group, share = found[0]
    others = torch.ones(len(evaluator.data), dtype=torch.bool)
    others[list(group)] = False
    kept = torch.zeros(1, evaluator.model.rows.num_groups, dtype=torch.bool)
    kept[0, evaluator.model.rows.groups[evaluator.model.rows.copies][others].unique()] = True
    problem = evaluator.problem.replace(model=evaluator.model.with_parts(kept))
    law = PolicyLaw.of(regulated, evaluator.data.schema)
    without = float(follow(problem, law, num_parts=1).returns[0].mean())
    assert evaluator.assess(regulated).expected_return - without == pytest.approx(share, rel=1e-6, abs=1e-12)


# Comparison


def test_the_better_policy_is_named_with_what_it_gains(data: Transitions) -> None:
    found = compare({"regulator": regulated, "nothing": free}, data, 0.9)
    assert found.best == "regulator"
    assert found.gains["regulator"].probability_better > 0.95
    assert found.gains["nothing"].mean < 0
    assert set(found.evaluations) == {"regulator", "nothing", LOGGED}
    lines = str(found).splitlines()
    assert re.match(r"regulator \* +-", lines[1])
    assert "nothing  " in lines[3]  # each has a line of values and one of intervals


def test_a_gain_over_what_leaves_the_data_may_be_larger(evaluator: OfflineEvaluator) -> None:
    calm, bold = evaluator.assess(regulated), evaluator.assess(lambda states: 3.0 * regulated(states))
    most = calm.pessimistic_return - bold.pessimistic_return
    gain, loss = calm.gain_over(bold), bold.gain_over(calm)
    assert most > gain.mean  # leaving the data may end worse than as if they went on
    assert gain.interval[0] < gain.mean < most < gain.interval[1]
    assert loss.interval == pytest.approx((-gain.interval[1], -gain.interval[0]))


def test_a_policy_called_like_the_log_is_refused(data: Transitions) -> None:
    with pytest.raises(ArgumentError, match="use another name"):
        compare({LOGGED: regulated}, data, 0.9)
    with pytest.raises(ArgumentError, match="'lqr' is the name of a baseline"):
        compare({"lqr": regulated}, data, 0.9, baselines=["lqr"])


def test_a_baseline_may_be_the_best(data: Transitions) -> None:
    found = compare({"nothing": free}, data, 0.9, baselines=["cloning", "lqr", "mpc"])
    assert list(found.evaluations) == ["nothing", "cloning", "lqr", "mpc", LOGGED]
    assert found.best in {"lqr", "mpc"}
    assert found.gains["lqr"].mean > 0
    cloned, logged = found.evaluations["cloning"], found.evaluations[LOGGED]
    assert cloned.expected_return > logged.expected_return  # it does not explore
    with pytest.raises(ArgumentError, match="there is no baseline 'pid'; there are lqr, mpc, cloning, simc"):
        compare({}, data, 0.9, baselines=["pid"])


def test_logged_episodes_tell_what_they_earned_if_they_are_long_enough(data: Transitions) -> None:
    assert logged_returns(data, 0.9) is None  # 15 steps leave a fifth of the weight unseen
    seen = logged_returns(data, 0.5)
    assert seen is not None
    assert seen.episodes == 40
    rows = data.rewards[:15]
    first = float((0.5 ** torch.arange(15).double()) @ rows)
    assert abs(first - seen.mean) < 10 * seen.standard_error * 40**0.5


# Risk


def test_a_risk_is_between_its_bounds_and_never_a_bare_nothing(
    data: Transitions, evaluator: OfflineEvaluator
) -> None:
    steps, region = 5, "abs(x1) > 1.2"
    runs = simulate(LQR(), free, steps=steps, initial_states=evaluator.problem.starts)
    exact = float((runs.states[:, :, 0].abs() > 1.2).any(dim=0).double().mean())
    risk = evaluator.risk(free, region, steps)
    assert 0 < exact < 1
    assert risk.low <= exact <= risk.high

    safe = evaluator.risk(regulated, region, steps)
    assert safe.low == 0.0
    assert safe.high > 0.0
    assert "<0.1 %" in str(safe)


def test_a_danger_that_was_never_seen_is_not_called_impossible(evaluator: OfflineEvaluator) -> None:
    risk = evaluator.risk(lambda states: 8.0 * states, "x1 > 50", 30)
    assert risk.rows_inside == 0
    assert risk.high > 0.5
    assert risk.verdict == "not identifiable"
    assert "no logged state lies inside" in risk.reasons


@pytest.fixture(scope="module")
def race() -> OfflineEvaluator:
    """A walk to the right by .1 or .2 that ends beyond 1, from .75 and .05."""
    s = torch.linspace(0, 0.99, 100, dtype=torch.float64)[:, None]
    a = torch.where(torch.arange(100) % 2 == 0, 0.1, 0.2).double()[:, None]
    starts = torch.tensor([[0.75], [0.05]], dtype=torch.float64)
    log = Transitions.from_arrays(
        s, a, -torch.ones(100), s + a, terminated=(s + a)[:, 0] > 1.0, initial_states=starts
    )
    return OfflineEvaluator(log, 0.9)


def run(states: torch.Tensor) -> torch.Tensor:
    return 0.0 * states + 0.2


def test_no_time_is_spent_in_a_region_after_the_end_of_a_task(race: OfflineEvaluator) -> None:
    # .75 → .95 → 1.15 ends after 2 steps, .05 → … → .85 → 1.05 after 5.
    paths, schema = race.follow(run), race.data.schema
    beyond, _ = share_along(paths, region_of("s0 > 1", schema), 0.9)
    assert beyond == pytest.approx(0.1 * (0.9 + 0.9**4) / 2)
    late, _ = share_along(paths, region_of("s0 > 0.9", schema), 0.9)
    assert late == pytest.approx(0.1 * (1 + 0.9 + 0.9**4) / 2)


def test_after_the_paths_the_time_of_their_last_fifth_continues_for_those_that_go_on(
    race: OfflineEvaluator,
) -> None:
    paths = race.follow(run, steps=3)  # the first has ended, the second is at .65
    share, _ = share_along(paths, region_of("s0 > 0.6", race.data.schema), 0.9)
    assert share == pytest.approx((0.1 * (1 + 0.9) + 0.1 * 0.9**2 + 0.9**3) / 2)


def test_costs_after_the_paths_are_weighted_once_by_the_share_that_goes_on() -> None:
    going = np.array([[1.0], [0.5], [0.25]])
    T, m = 2, 1
    path = Rollout(
        states=np.zeros((T + 1, m, 1)),
        measured=np.zeros((T + 1, m, 1)),
        actions=np.zeros((T, m, 1)),
        rewards=np.zeros((T, m)),
        log_odds=np.zeros((T, m)),
        going=going,
        costs=np.array([[[3.0], [4.0]]]),
        slopes=None,
        cost_slopes=None,
    )
    # 3 + γ·½·4, then 4 for ever of the quarter that goes on.
    assert _discounted_costs(path, 0.9).item() == pytest.approx(3 + 0.9 * 0.5 * 4 + 0.81 / 0.1 * 0.25 * 4)


def test_a_risk_counts_the_step_that_ends_the_task(race: OfflineEvaluator) -> None:
    for steps, entered in ((1, 0.0), (2, 0.5), (4, 0.5), (5, 1.0), (10, 1.0)):
        assert race.risk(run, "s0 > 1", steps).estimate == entered
    # A function is given all states as rows.
    assert race.risk(run, lambda states: states[:, 0] > 1, 10).estimate == 1.0
    with pytest.raises(ArgumentError, match=r"one truth value for each, such as states\[:, 0\] > 1"):
        race.risk(run, lambda states: states > 1, 10)
    # The start counts; after the end nothing is entered.
    assert race.risk(run, "s0 < 0.1", 10).estimate == 0.5
    assert race.risk(run, "s0 > 1.1", 10).estimate == 0.5


# Regions


def test_regions_are_expressions_of_named_states() -> None:
    schema = Schema(("level", "flow"), ("valve",))
    states = torch.tensor([[1.5, -1.0], [3.0, 1.0], [1.5, 2.0]])
    for text, expected in (
        ("level > 2", [False, True, False]),
        ("1 < level < 2 and not flow < 0", [False, False, True]),
        ("abs(flow) >= 2 or 2 * level - 1 > 4", [False, True, True]),
        ("-flow > 0.5", [True, False, False]),
    ):
        assert region_of(text, schema)(states).tolist() == expected
    assert region_of(lambda states: states[:, 0] > 2, schema)(states).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pressure > 1", "is not known"),
        ("__import__('os').system('true')", "not understood"),
        ("level.real > 1", "not understood"),
        ("level", "not a condition"),
        ("level and flow", "not a condition"),
        ("level >", "cannot be read"),
        ("level > 'a'", "not understood"),
        ("+".join(["level"] * 300) + " > 1", "too long"),
        ("(" * 500 + "level" + ")" * 500 + " > 1", "cannot be read|too long"),
        ("1 > 0", "compares numbers alone"),
    ],
)
def test_nothing_else_is_run(text: str, why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        region_of(text, Schema(("level", "flow"), ("valve",)))


def test_one_recording_may_be_ok_and_starts_in_every_row(data: Transitions) -> None:
    one = Transitions.from_arrays(
        data.states,
        data.actions,
        data.rewards,
        data.next_states,
        episodes=torch.zeros(len(data), dtype=torch.int64),
    )
    answer = evaluate_offline(regulated, one, 0.9)
    assert answer.verdict == "ok"
    assert answer.errors.freedom == 9.0  # ten blocks of the recording
    low, high = answer.interval
    assert low <= truth(regulated, data.states) <= high


@pytest.mark.parametrize(
    ("starts", "said"),
    [
        (1, ("1 start in the log, and returns from others are not in the interval",)),
        (9, ("9 starts in the log, whose sampling error is in the interval",)),
        (10, ()),
    ],
)
def test_few_starts_are_named_beside_the_interval(
    data: Transitions, starts: int, said: tuple[str, ...]
) -> None:
    begins = torch.arange(len(data)) < starts
    log = replace(data, initial_states=None, begins=begins)
    where = f"the task starts in {starts} row{'' if starts == 1 else 's'} of the log"
    assert evaluate_offline(regulated, log, 0.9).notes == (where, *said)


def test_a_reward_that_is_predicted_badly_makes_the_verdict_weak() -> None:
    rng = torch.Generator().manual_seed(0)
    s, a, noise = torch.randn(3, 200, 1, generator=rng, dtype=torch.float64)
    lost = Transitions.from_arrays(s, a, noise[:, 0], 0.5 * s + 0.1 * a, episodes=torch.arange(200) // 20)
    learned = OfflineEvaluator(lost, 0.5).assess(lambda states: 0 * states)
    assert learned.verdict == "weak"
    assert any("predicted badly, R²: reward" in reason for reason in learned.reasons)
    known = OfflineEvaluator(lost, 0.5, reward=lambda s, a, after: s[:, 0]).assess(lambda states: 0 * states)
    assert known.verdict == "ok"


def test_no_return_is_expected_above_a_reward_that_rows_share() -> None:
    rng = torch.Generator().manual_seed(1)
    s = 2 * torch.rand(300, 1, generator=rng, dtype=torch.float64) - 1
    a = 2 * torch.rand(300, 1, generator=rng, dtype=torch.float64) - 1
    rewards = s[:, 0].clamp(max=0.8)
    capped = Transitions.from_arrays(s, a, rewards, s + 0.3 * a, initial_states=[[0.9]])
    found = OfflineEvaluator(capped, 0.9).assess(lambda states: 0 * states + 1)  # leaves the log upwards
    best = 0.8 / (1 - 0.9)
    assert found.expected_return <= best
    assert found.interval[1] <= best
    free = Transitions.from_arrays(s, a, s[:, 0], s + 0.3 * a, initial_states=[[0.9]])
    limit = OfflineEvaluator(free, 0.9).model.return_limits(0.9)[1]
    assert limit > float(s.max()) / (1 - 0.9)  # nothing says that the highest is the limit


def test_the_interval_of_a_stated_cost_of_squares_ends_at_zero() -> None:
    rng = generator(0, "few rows")
    s, a = torch.randn(2, 40, 1, generator=rng, dtype=torch.float64)
    after = 0.9 * s + 0.1 * a + 0.5 * torch.randn(40, 1, generator=rng, dtype=torch.float64)
    log = Transitions.from_arrays(s, a, "-next(s0) ** 2", after, episodes=torch.arange(40) // 4)
    calm = evaluate_offline(free, log, 0.5)
    assert calm.expected_return + calm.errors.half_width > 0.0  # without limits it would go on beyond
    assert calm.interval[1] == 0.0
