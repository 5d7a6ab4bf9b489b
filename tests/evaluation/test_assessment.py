"""Errors, intervals, verdicts, choices and risks by hand: each number here decides an answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from models.test_local_model import linear_log
from nopg.data import Schema, Transitions
from nopg.data._start_set import StartSet
from nopg.evaluation import Assessment, Errors, Gain, OfflineEvaluator, Verdict, choose
from nopg.evaluation._assessment import errors_of
from nopg.evaluation._behavior import LoggedBehavior, logged_returns, measured_returns, returns_from
from nopg.evaluation._comparison import LOGGED, Comparison, cautious_return
from nopg.evaluation._held_out import HeldOutErrors
from nopg.evaluation._paths import Paths, StartReturns, _end_rewards
from nopg.evaluation._risk import risk_along, share_along
from nopg.evaluation._verdict import doubts_of_log, lost_starts, untried_actions, verdict_of
from nopg.inspect._findings import Finding, error, warning
from nopg.models import ColumnFit
from nopg.models._noise import Noise

SCHEMA = Schema(("level",), ("valve",))


@dataclass
class Steps:
    going: Any
    rewards: Any

    def __len__(self) -> int:
        return len(self.rewards)


def starts_of(count: int, *, logged: float = math.inf) -> StartSet:
    """Return starts at 0, 1, …, declared ones unless a number of logged ones is given."""
    states = torch.arange(float(count), dtype=torch.float64)[:, None]
    return replace(StartSet.declared(states, SCHEMA), count=logged)


def paths_of(
    returns: list[list[float]],
    *,
    pessimistic: float | None = None,
    repeats: int = 1,
    logged: float = math.inf,
    states: torch.Tensor | None = None,
    stays: float = 1.0,
    held_out: float = 0.0,
    end_reward: float = 0.0,
) -> Paths:
    """Return paths with these returns (P, m) through states (T + 1, P·m), which never end."""
    values = torch.tensor(returns, dtype=torch.float64)
    P, m = values.shape
    places = torch.zeros(2, P * m, dtype=torch.float64) if states is None else states
    T = len(places) - 1
    ones = torch.ones(T, P * m, dtype=torch.float64)
    worst = values if pessimistic is None else torch.full_like(values, pessimistic)
    starts = starts_of(m // repeats, logged=logged)
    mean, least = (part[0].view(repeats, -1).mean(dim=0) for part in (values, worst))
    paths = Paths(
        by_start=StartReturns(starts, mean, least, 0 * mean, torch.full_like(mean, 1.0 - stays)),
        starts=starts,
        returns=values,
        pessimistic=worst,
        states=places[:-1, :, None],
        actions=0 * ones[..., None],
        rewards=0 * ones,
        end_rewards=torch.full((P, m), end_reward, dtype=torch.float64),
        costs=torch.zeros(0, P, m),
        going=ones,
        stays=torch.cat([ones[:1], stays * ones]),
        last=places[-1, :, None],
        goes_on=ones[0],
        repeats=repeats,
        solution=cast(Any, None),
    )
    vars(paths)["held_out"] = HeldOutErrors(held_out, np.zeros(10))
    return paths


def assessed(returns: list[list[float]], verdict: Verdict = "ok", **settings: Any) -> Assessment:
    """Return an assessment of paths with these returns."""
    return Assessment(0.0, (0.0, 0.0), Errors(0.0, 0.0), 0.0, 0.0, verdict, (), paths_of(returns, **settings))


def plain(count: int) -> Transitions:
    """Return rows at the states 1, …, count."""
    s = torch.arange(1.0, count + 1, dtype=torch.float64)[:, None]
    return Transitions.from_arrays(s, 0 * s, torch.zeros(count), s)


# Errors


def test_the_error_of_the_model_is_the_deviation_of_the_halves_times_1_3() -> None:
    # Means 10, 8 and 14: the root mean square of −2 and 4 is √10.
    paths = paths_of([[9.0, 11.0], [8.0, 8.0], [13.0, 15.0]])
    found = errors_of(paths.returns, paths)
    assert found.starts == 0.0
    assert found.model == pytest.approx(1.3 * math.sqrt(10))


def test_declared_starts_have_no_error_but_that_of_the_noise() -> None:
    # Two starts, each twice: variances ½·2² and ½·4² of the pairs, mean 5, over four paths.
    paths = paths_of([[1.0, 5.0, 3.0, 1.0], [2.5, 2.5, 2.5, 2.5]], repeats=2)
    assert errors_of(paths.returns, paths).starts == pytest.approx(math.sqrt(5 / 4))


def test_logged_starts_are_a_sample_of_which_new_ones_are_another() -> None:
    # 1, 2, 3 and 6 have the variance 14/3 about 3.
    paths = paths_of([[1.0, 2.0, 3.0, 6.0]] * 3, logged=4)
    found = errors_of(paths.returns, paths)
    assert (found.model, found.freedom) == (0.0, 3.0)
    assert found.starts == pytest.approx(math.sqrt(14 / 3 / 4))
    # Student's t with 3 degrees of freedom; χ² is below .584375 with 10 %.
    hidden = math.sqrt(3 / 0.584375)
    assert found.half_width == pytest.approx(3.182446 * hidden * math.sqrt(14 / 3 / 4), rel=1e-6)


def test_a_bias_and_the_least_error_are_part_of_the_error_of_the_model() -> None:
    found = Errors(3.0, 2.0)
    assert found.with_bias(4.0) == Errors(5.0, 2.0)
    assert found.with_bias(0.0, least=7.0) == Errors(7.0, 2.0)
    assert found.half_width == pytest.approx(1.96 * math.hypot(3.0, 2.0))


def test_blocks_of_a_recording_are_what_its_starts_are_a_sample_of() -> None:
    starts = replace(starts_of(4), blocks=np.array([0, 0, 1, 1]), count=2.0)
    # Means of the blocks 1 and 5, each with half the weight.
    error, freedom = starts.error(torch.tensor([0.0, 2.0, 4.0, 6.0], dtype=torch.float64))
    assert error == pytest.approx(2.0)
    assert freedom == 1.0


def test_a_draw_of_many_starts_knows_its_error_and_no_period_of_the_log() -> None:
    place = torch.arange(1000, dtype=torch.float64)
    states = torch.where(place % 2 == 0, -1.0, 1.0) + 1e-6 * place
    every = StartSet.declared(states[:, None], SCHEMA)
    few = every.few(50, purpose="test")
    assert few.mean((few.states[:, 0] > 0).double()) == pytest.approx(0.5, abs=0.021)
    error, _ = few.error(torch.randn(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    assert error == pytest.approx(1 / 50**0.5, rel=0.4)
    again = StartSet.declared(states.flip(0)[:, None], SCHEMA).few(50, purpose="test")
    assert torch.equal(again.states, few.states)  # whatever their order
    assert every.few(1000, purpose="test") is every


# Gains and choices


def test_a_gain_has_an_interval_and_a_probability_of_one_distribution() -> None:
    gain = assessed([[5.0], [6.0]]).gain_over(assessed([[3.0], [3.0]]))
    assert gain.mean == 2.0
    assert gain.interval == pytest.approx((2 - 1.96 * 1.3, 2 + 1.96 * 1.3))
    assert gain.probability_better == pytest.approx(0.5 * (1 + math.erf(2 / 1.3 / math.sqrt(2))))


@pytest.mark.parametrize("low", [-0.01, 0.01])
def test_a_gain_is_positive_with_97_5_per_cent_where_its_interval_is(low: float) -> None:
    assert (Gain(1.0, (low, 3.0)).probability_better > 0.975) is (low > 0)
    assert (Gain(-1.0, (-3.0, -low)).probability_better < 0.025) is (low > 0)


def test_the_error_of_a_gain_counts_what_held_out_rows_say_of_the_difference() -> None:
    gain = assessed([[2.0], [2.0]], held_out=5.0).gain_over(assessed([[2.0], [2.0]], held_out=2.0))
    assert gain.interval == pytest.approx((0.0, 3.0))  # more is earned than predicted


def test_leaving_the_data_counts_against_a_controller() -> None:
    one, other = assessed([[5.0], [5.0]], pessimistic=3.0), assessed([[4.0], [4.0]])
    assert one.gain_over(other).interval == (-1.0, 1.0)
    assert choose([other, one], other, [0, 1]) == 0
    assert choose([one, other], other, [0, 1]) == 0  # as if the data went on, the other is worse


def test_errors_that_two_controllers_share_cancel_in_the_gain() -> None:
    one, other = assessed([[5.0], [3.0], [7.0]]), assessed([[4.9], [2.9], [6.9]])
    assert one.gain_over(other).interval == pytest.approx((0.1, 0.1))
    assert choose([other, one], other, [0, 1]) == 1


def test_a_cautious_return_counts_no_bias_that_chance_explains_or_that_is_a_gain() -> None:
    paths = paths_of([[10.0], [8.0], [14.0]], pessimistic=9.0)
    halves, apart = 1.3 * math.sqrt(10), 0.3 * np.repeat([1.0, -1.0], 5)
    for bias, counted in ((1.0, 0.0), (3.0, 0.0), (-0.9, 0.0), (-3.0, math.sqrt(8.0))):
        vars(paths)["held_out"] = HeldOutErrors(bias, apart)
        assert cautious_return(paths) == pytest.approx(9.0 - 1.96 * halves - counted)


@pytest.mark.parametrize(
    ("found", "order", "best"),
    [
        # What is not identifiable is left out, whatever is predicted.
        ([("not identifiable", 9.0, 0.0), ("weak", 1.0, 0.0), ("weak", 2.0, 5.0)], (0, 1, 2), 1),
        # What is not surely better than the log does not stand in the way of what is.
        ([("ok", 9.0, 9.0), ("weak", 1.0, 0.1)], (0, 1), 1),
        # Then the verdict decides, unless a worse one is better with 90 % probability.
        ([("weak", 1.0, 0.1), ("ok", 1.0, 0.1)], (0, 1), 1),
        ([("weak", 2.0, 0.1), ("ok", 1.0, 0.1)], (0, 1), 0),
        ([("weak", 1.0, 0.1), ("ok", 1.0, 0.1)], (0, 0), 1),
        # Then the simplest, unless another is better with 90 % probability: 1 of 1.3 times .59 or .61.
        ([("ok", 1.0, 0.0), ("ok", 2.0, 0.59)], (0, 1), 1),
        ([("ok", 1.0, 0.0), ("ok", 2.0, 0.61)], (0, 1), 0),
        ([("ok", 1.0, 0.0), ("ok", 2.0, 5.0)], (0, 1), 0),
        ([("ok", 1.0, 0.0), ("ok", 2.0, 0.1)], (0, 1), 1),
        ([("ok", 2.0, 0.1), ("ok", 1.0, 0.0)], (1, 0), 0),
        # Of equally simple ones that with the higher lower end, unless another is better beyond doubt.
        ([("ok", 5.2, 1.0), ("ok", 5.0, 0.1)], (0, 0), 1),
        ([("ok", 5.0, 0.1), ("ok", 5.5, 0.11)], (0, 0), 1),
    ],
)
def test_the_choice(found: list[tuple[Verdict, float, float]], order: tuple[int, ...], best: int) -> None:
    every = [assessed([[mean], [mean - apart], [mean + apart]], verdict) for verdict, mean, apart in found]
    assert choose(every, assessed([[-9.0]] * 3), order) == best


@pytest.mark.parametrize(
    ("simple", "other", "taken"),
    [
        (("weak", -20.0), ("not identifiable", 50.0), 1),  # surely worse than the log
        (("weak", -0.5), ("not identifiable", 50.0), 0),  # the verdict first
        (("weak", -20.0), ("not identifiable", -30.0), 0),  # all are worse
        (("weak", 5.0), ("weak", 5.4), 0),  # the simpler of equals
        (("weak", 5.0), ("weak", 9.0), 1),
    ],
)
def test_what_is_surely_worse_than_the_log_gives_way_to_what_may_be_better(
    simple: tuple[Verdict, float], other: tuple[Verdict, float], taken: int
) -> None:
    found = [
        assessed([[mean], [mean - apart], [mean + apart]], verdict)
        for (verdict, mean), apart in ((simple, 0.5), (other, 0.8))
    ]
    assert choose(found, assessed([[0.0]] * 3), [0, 1]) == taken


def test_a_gain_that_nobody_would_see_is_none() -> None:
    one, other = assessed([[1.001]] * 3), assessed([[1.0]] * 3)
    assert choose([other, one], other, [0, 1]) == 1
    assert choose([replace(each, least_gain=0.01) for each in (other, one)], other, [0, 1]) == 0


def test_the_log_is_the_simplest_then_comes_lqr() -> None:
    alike = {name: assessed([[1.0]] * 3) for name in ("network", "lqr", LOGGED)}
    assert Comparison(alike, {}, None).best == LOGGED
    unknown = alike | {LOGGED: assessed([[1.0]] * 3, "not identifiable")}
    assert Comparison(unknown, {}, None).best == "lqr"


# Verdicts


@pytest.mark.parametrize(
    ("unknown", "error", "verdict"),
    [
        (0.05, 5.0, "ok"),
        (0.051, 5.0, "weak"),
        (0.2, 5.0, "weak"),
        (0.201, 5.0, "not identifiable"),
        (0.01, 5.1, "weak"),
        (0.01, 30.0, "weak"),
        (0.01, 30.1, "not identifiable"),
    ],
)
def test_the_verdict_by_unknown_mass_and_error(unknown: float, error: float, verdict: str) -> None:
    found, reasons = verdict_of(unknown, error, 100.0)
    assert found == verdict
    assert bool(reasons) == (verdict != "ok")


def test_a_single_row_gives_no_verdict() -> None:
    assert verdict_of(0.0, 0.0, 1.0, one_group=True)[0] == "not identifiable"


@pytest.mark.parametrize(
    ("lost", "verdict", "said"),
    [
        (0, "ok", ""),
        (1, "weak", "1 of 20 starts leaves the data for good, such as from (level = 0)"),
        (2, "weak", "2 of 20 starts leave the data for good, such as from (level = 0)"),
        (5, "not identifiable", "5 of 20 starts leave the data for good, such as from (level = 0)"),
    ],
)
def test_starts_that_leave_the_data_for_good_are_named(lost: int, verdict: str, said: str) -> None:
    values = torch.zeros(20, dtype=torch.float64)
    shares = torch.where(torch.arange(20) < lost, 0.51, 0.49).double()
    share, reasons = lost_starts(StartReturns(starts_of(20), values, values, values, shares), ("level",))
    assert share == pytest.approx(lost / 20)
    assert reasons == ((said,) if said else ())
    assert verdict_of(0.01, 0.0, 1.0, lost=share, doubts=reasons)[0] == verdict


def test_the_only_start_is_not_counted() -> None:
    one = torch.ones(1, dtype=torch.float64)
    found = lost_starts(StartReturns(starts_of(1), one, one, one, one), ("level",))
    assert found == (1.0, ("the start (level = 0) leaves the data for good",))


def doubted(**facts: Any) -> tuple[str, ...]:
    """Return the doubts of a log whose model has these facts."""
    none = {"poor_fits": (), "noise": Noise.independent(1), "exogenous_moves": {}, "memory": (), "coarse": {}}
    findings: list[Finding] = facts.pop("findings", [])
    return doubts_of_log(cast(Any, SimpleNamespace(**none | facts)), findings)


def test_a_log_is_doubted_for_jumps_poor_fits_coarse_columns_and_few_moves() -> None:
    assert doubted() == ()
    assert "level" in doubted(noise=replace(Noise.independent(1), jumps=("level",)))[0]
    assert doubted(exogenous_moves={"setpoint": 29, "feed": 30}) == (
        "setpoint moves 29 times in the log, too few to tell how it will move",
    )
    assert "level is logged in steps of 0.5" in doubted(coarse={"level": 0.5})[0]
    assert "R²: x 0.40" in doubted(poor_fits=[ColumnFit("x", ("x",), 0.4, 0.8, 0.8, 1)])[0]


def test_no_verdict_stands_above_an_error_of_describe() -> None:
    assert doubted(findings=[error("far values", "a spike", "Drop it")]) == ("a spike (drop it)",)
    assert verdict_of(0.0, 0.0, 100.0, doubts=("a spike",)) == ("weak", ("a spike",))


def small_actions() -> OfflineEvaluator:
    """Return the evaluator of a linear plant whose logged actions are within ±.2."""
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-1, 1, (300, 1)), rng.uniform(-0.2, 0.2, (300, 1))
    after = 0.9 * s + 0.5 * a + 0.01 * rng.normal(size=(300, 1))
    data = Transitions.from_arrays(s, a, -np.square(s[:, 0]), after, action_names=["valve"])
    return OfflineEvaluator(data, 0.9)


@pytest.mark.parametrize(
    ("law", "untried"),
    [
        (lambda s: 0 * s + 0.23, False),  # less than a tenth of the range beyond it
        (lambda s: 0 * s + 0.25, True),
        (lambda s: 0.25 * (s > 0.98), False),  # beyond, but seldom
    ],
    ids=["near", "beyond", "seldom"],
)
def test_no_answer_is_ok_whose_actions_lie_beyond_the_logged_ones(law: Any, *, untried: bool) -> None:
    evaluator = small_actions()
    found = evaluator.assess(law)
    assert any("values of valve beyond the logged ones" in one for one in found.reasons) is untried
    assert found.verdict == ("weak" if untried else "ok")
    said = untried_actions(found.paths, evaluator.model, ("valve",))
    assert said == (found.reasons if untried else ())


def test_what_a_log_cannot_tell_explains_the_unknown_mass() -> None:
    finding = warning("excitation", "the valve mostly followed the level", "Add steps")
    assert verdict_of(0.0, 0.0, 100.0, findings=[finding]) == ("ok", ())
    assert finding.what in verdict_of(0.1, 0.0, 100.0, findings=[finding])[1]


def test_the_reward_of_the_step_that_ends_a_task_is_discounted() -> None:
    going = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    path = cast(Any, Steps(going=going, rewards=np.full((2, 2), -8.0)))
    assert _end_rewards(path, 0.5).tolist() == [4.0, 0.0]


# Risks and shares


def above(states: torch.Tensor) -> torch.Tensor:
    return states[..., 0] > 0.5


def crossing(entering: int, paths: int, *, stays: float = 1.0) -> Paths:
    """Return one step of all rows and two halves, in which some paths enter."""
    after = (torch.arange(paths) < entering).double().repeat(3)
    return paths_of([[0.0] * paths] * 3, states=torch.stack([0 * after, after]), stays=stays)


def test_a_risk_has_the_limits_of_clopper_and_pearson_at_2_5_per_cent() -> None:
    nobody = risk_along(crossing(0, 10), above, plain(5), 1)
    assert (nobody.low, nobody.high) == pytest.approx((0.0, 1 - 0.025**0.1))
    everybody = risk_along(crossing(10, 10), above, plain(5), 1)
    assert (everybody.low, everybody.high) == pytest.approx((0.025**0.1, 1.0))


def test_a_risk_is_widened_by_1_96_times_the_deviation_of_the_halves() -> None:
    # 10 of 20 paths enter, in the halves 5 and 15: ±1.96 · ¼ is wider than chance.
    after = torch.cat([torch.arange(20) < count for count in (10, 5, 15)]).double()
    paths = paths_of([[0.0] * 20] * 3, states=torch.stack([0 * after, after]))
    found = risk_along(paths, above, plain(5), 1)
    assert (found.low, found.high) == pytest.approx((0.5 - 0.49, 0.5 + 0.49))


@pytest.mark.parametrize(("rows", "verdict"), [(5, "ok"), (4, "weak")])
def test_a_risk_is_weak_where_fewer_than_five_logged_states_lie_inside(rows: int, verdict: str) -> None:
    found = risk_along(crossing(0, 20), above, plain(rows), 1)
    assert (found.rows_inside, found.verdict) == (rows, verdict)


@pytest.mark.parametrize(
    ("paths", "verdict"),
    [(5, "not identifiable"), (6, "ok")],  # 1 − .025^(1/5) = .522, 1 − .025^(1/6) = .459
)
def test_a_risk_wider_than_a_half_is_not_identifiable(paths: int, verdict: str) -> None:
    assert risk_along(crossing(0, paths), above, plain(5), 1).verdict == verdict


@pytest.mark.parametrize(
    ("stays", "verdict"), [(0.96, "ok"), (0.94, "weak"), (0.81, "weak"), (0.79, "not identifiable")]
)
def test_a_risk_is_doubted_where_paths_leave_the_data(stays: float, verdict: str) -> None:
    assert risk_along(crossing(0, 200, stays=stays), above, plain(5), 1).verdict == verdict


def test_a_share_of_time_has_an_interval_of_1_96_errors() -> None:
    # One step of 100, of which 50 lead inside and stay there; in the halves 40 and 60.
    after = torch.cat([torch.arange(100) < count for count in (50, 40, 60)]).double()
    paths = paths_of([[0.0] * 100] * 3, states=torch.stack([0 * after, after]))
    share, interval = share_along(paths, above, 0.9)
    assert share == pytest.approx(0.5)
    assert interval == pytest.approx((0.5 - 1.96 * 1.3 * 0.1, 0.5 + 1.96 * 1.3 * 0.1))


# Rollouts of an evaluation


@pytest.mark.parametrize(("discount", "steps"), [(0.9, 29), (0.5, 5), (0.995, 300)])
def test_paths_last_until_a_twentieth_of_the_weight_is_left_or_300_steps(discount: float, steps: int) -> None:
    # .9²⁸ = .0523, .9²⁹ = .0471; .5⁴ = .0625; .995⁵⁹⁸ = .05.
    evaluator = OfflineEvaluator(linear_log(60), discount)
    assert len(evaluator.follow(lambda s: 0 * s[:, :1]).states) == steps


def test_on_a_noisy_plant_starts_are_repeated_to_40_paths_and_to_200_for_a_risk() -> None:
    log = linear_log(400, noise=0.3)
    evaluator = OfflineEvaluator(log.starting_at(log.states[:15]), 0.5)
    assert evaluator.problem.noisy
    found = evaluator.assess(lambda s: 0 * s[:, :1])
    assert found.paths.repeats == 3  # of 15 starts: 45 paths
    # 210 paths that never enter have an upper end of 1 − .025^(1/210); less than .1 per cent leave the data.
    risk = evaluator.risk(lambda s: 0 * s[:, :1], "s0 > 1e9", 1)
    assert 1 - 0.025 ** (1 / 210) <= risk.high <= 1 - 0.025 ** (1 / 180)


# The log


def test_the_logged_behaviour_takes_the_action_of_one_of_the_five_nearest() -> None:
    s = torch.tensor([0.0, 0.1, -0.1, 0.2, -0.2, 0.3, -0.3, 5.0], dtype=torch.float64)[:, None]
    data = Transitions.from_arrays(s, torch.arange(8.0)[:, None], torch.zeros(8), s)
    law = LoggedBehavior(data, torch.ones(1, dtype=torch.float64))
    taken = law.mode(torch.zeros(500, 1, dtype=torch.float64))
    assert set(taken[:, 0].tolist()) == {0.0, 1.0, 2.0, 3.0, 4.0}


def episodes_of(lengths: list[int]) -> Transitions:
    numbers = torch.cat([torch.full((length,), k) for k, length in enumerate(lengths)])
    s = torch.arange(len(numbers), dtype=torch.float64)[:, None]
    return Transitions.from_arrays(s, 0 * s, torch.ones(len(s)), s + 1, episodes=numbers)


def test_three_episodes_that_leave_a_twentieth_of_the_weight_unseen_are_enough() -> None:
    # ½⁵ = .031 and ½⁴ = .063.
    found = logged_returns(episodes_of([5, 5, 5, 4]), 0.5)
    assert found is not None
    assert (found.episodes, found.mean) == pytest.approx((3, 2 - 2 / 32))
    assert logged_returns(episodes_of([5, 5, 4, 4]), 0.5) is None


def test_what_follows_a_row_is_summed_to_the_end_of_its_run() -> None:
    s = torch.arange(7.0, dtype=torch.float64)[:, None]
    data = Transitions.from_arrays(
        s, 0 * s, s[:, 0], s + 1, episodes=[0, 0, 0, 0, 1, 1, 1], terminated=[False] * 6 + [True]
    )
    found = returns_from(data, 0.1, torch.tensor([0, 2, 3, 4, 6]))
    # The last reward continues after a truncation: γ³/(1 − γ)·3 from row 0 on, γ²/(1 − γ)·3 from row 2 on.
    first, second = 0.123 + 1e-4 / 0.9 * 3, 2.3 + 1e-2 / 0.9 * 3
    assert found[[0, 1, 3, 4]].tolist() == pytest.approx([first, second, 4.56, 6.0])
    assert math.isnan(found[2])  # one row leaves a tenth of the weight unseen


def test_logged_returns_are_averaged_where_starts_are_the_same() -> None:
    s = torch.tensor([[1.0], [5.0], [1.0], [5.0], [2.0]], dtype=torch.float64)
    ends = [False, True, False, True, False]
    data = Transitions.from_arrays(
        s, 0 * s, [1.0, 0, 3.0, 0, 0], s.roll(-1, 0), episodes=[0, 0, 1, 1, 2], terminated=ends
    )
    starts = StartSet.of(data)
    found = measured_returns(data, 0.5, starts)
    assert found is not None
    by_state = dict(zip(starts.states[:, 0].tolist(), found.tolist(), strict=True))
    assert by_state[1.0] == pytest.approx(2.0)
    assert math.isnan(by_state[2.0])  # a single row of a truncated episode


@pytest.mark.parametrize(
    ("model", "log", "taken"),
    [
        ((1.0, 2.0), (0.0, 3.0), (1.0, 2.0)),
        ((0.0, 3.0), (1.0, 2.0), (1.0, 2.0)),
        ((1.0, 2.0), (3.0, 9.0), (3.0, 9.0)),
        ((1.0, 2.0), (-9.0, 0.5), (-9.0, 0.5)),
    ],
)
def test_of_two_gains_the_narrower_counts_but_measured_returns_where_they_exclude_each_other(
    model: tuple[float, float], log: tuple[float, float], taken: tuple[float, float]
) -> None:
    assert Gain(sum(model) / 2, model).or_measured(Gain(sum(log) / 2, log)).interval == taken
