"""Standard errors, intervals, verdicts and risks by hand: each number here decides an answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest
import torch

from models.test_local_model import linear_log
from nopg.data import Transitions
from nopg.evaluation import OfflineEvaluation, OfflineEvaluator
from nopg.evaluation._behavior import LoggedBehavior, logged_returns
from nopg.evaluation._held_out import HeldOutErrors
from nopg.evaluation._interval import (
    cautious_return,
    is_preferable,
    is_surely_better,
    lower_return,
    standard_error,
    verdict_of,
)
from nopg.evaluation._model_paths import ModelPaths, _end_rewards
from nopg.evaluation._results import LOGGED, Comparison
from nopg.evaluation._risk import risk_along, share_along
from nopg.inspect._findings import look, stop
from nopg.kernels import GaussianKernel
from nopg.models import ColumnFit
from nopg.models._noise import Noise


@dataclass
class Steps:
    going: Any
    rewards: Any

    def __len__(self) -> int:
        return len(self.rewards)


def paths_of(
    returns: list[list[float]],
    *,
    pessimistic: float | None = None,
    repeats: int = 1,
    states: torch.Tensor | None = None,
    stays: float = 1.0,
    held_out: float = 0.0,
    end_reward: float = 0.0,
) -> ModelPaths:
    """Return paths with these returns (P, m) through states (T + 1, P·m), which never end."""
    values = torch.tensor(returns, dtype=torch.float64)
    P, m = values.shape
    places = torch.zeros(2, P * m, dtype=torch.float64) if states is None else states
    T = len(places) - 1
    ones = torch.ones(T, P * m, dtype=torch.float64)
    paths = ModelPaths(
        returns=values,
        pessimistic=values if pessimistic is None else torch.full_like(values, pessimistic),
        unknown=torch.zeros_like(values),
        states=places[:-1, :, None],
        actions=0 * ones[..., None],
        rewards=0 * ones,
        end_rewards=torch.full((P, m), end_reward),
        costs=torch.zeros(0, P, m),
        left=stays * ones,
        going=ones,
        stays=torch.cat([ones[:1], stays * ones]),
        last=places[-1, :, None],
        goes_on=ones[0],
        num_parts=P,
        repeats=repeats,
        solution=cast(Any, None),
    )
    vars(paths)["held_out"] = HeldOutErrors(held_out, np.zeros(10))
    return paths


def plain(count: int) -> Transitions:
    """Return rows at the states 1, …, count."""
    s = torch.arange(1.0, count + 1, dtype=torch.float64)[:, None]
    return Transitions.from_arrays(s, 0 * s, torch.zeros(count), s)


# Standard errors


def test_the_error_is_the_deviation_of_the_halves_times_1_3() -> None:
    # Means 10, 8 and 14: the root mean square of −2 and 4 is √10.
    paths = paths_of([[9.0, 11.0], [8.0, 8.0], [13.0, 15.0]])
    assert standard_error(paths.returns, paths) == pytest.approx(1.3 * math.sqrt(10))


def test_repeated_starts_add_their_chance_error() -> None:
    # Two starts, each twice: variances ½·2² and ½·4² of the pairs, mean 5, over four paths.
    paths = paths_of([[1.0, 5.0, 3.0, 1.0], [2.5, 2.5, 2.5, 2.5]], repeats=2)
    assert standard_error(paths.returns, paths) == pytest.approx(math.sqrt(5 / 4))


def test_no_error_is_below_a_hundredth_of_the_estimate() -> None:
    paths = paths_of([[-200.0], [-200.0]])
    assert standard_error(paths.returns, paths, floor=True) == pytest.approx(2.0)
    assert standard_error(paths.returns, paths) == 0.0


def test_the_lower_end_is_1_96_errors_below_the_pessimistic_return() -> None:
    paths = paths_of([[10.0], [8.0], [14.0]], pessimistic=9.0)
    assert lower_return(paths) == pytest.approx(9.0 - 1.96 * 1.3 * math.sqrt(10))


def test_a_cautious_return_counts_no_bias_that_chance_explains_or_that_is_a_gain() -> None:
    paths = paths_of([[10.0], [8.0], [14.0]], pessimistic=9.0)
    halves, apart = 1.3 * math.sqrt(10), 0.3 * np.repeat([1.0, -1.0], 5)
    for bias, counted in ((1.0, 0.0), (3.0, 0.0), (-0.9, 0.0), (-3.0, math.sqrt(8.0))):
        vars(paths)["held_out"] = HeldOutErrors(bias, apart)
        assert cautious_return(paths) == pytest.approx(9.0 - 1.96 * math.hypot(halves, counted))


@pytest.mark.parametrize(
    ("one", "other", "better"),
    [
        ([[5.0], [3.0], [7.0]], [[4.9], [2.9], [6.9]], True),  # both are uncertain, their difference is not
        ([[5.0], [3.0], [7.0]], [[4.9], [4.0], [4.0]], False),
        ([[5.0], [5.1], [4.9]], [[-90.0], [4.0], [-300.0]], True),  # better by all halves
        ([[5.0], [5.1], [4.9]], [[-90.0], [6.0], [-300.0]], False),
        ([[4.0], [4.0], [4.0]], [[4.0], [4.0], [4.0]], False),
        ([[-9.992], [-9.992], [-9.992]], [[-10.0], [-10.0], [-10.0]], False),  # less than a thousandth
        ([[-9.988], [-9.988], [-9.988]], [[-10.0], [-10.0], [-10.0]], True),
    ],
)
def test_a_controller_is_better_beyond_doubt_or_not(
    one: list[list[float]], other: list[list[float]], better: bool
) -> None:
    assert is_surely_better(paths_of(one), paths_of(other)) is better


@pytest.mark.parametrize(
    ("one", "other", "preferable"),
    [
        # Better by all halves, which differ from each other by more than before.
        ([[-2.66], [-2.86], [-1.54]], [[-2.72], [-2.87], [-1.66]], True),
        ([[-2.72], [-2.87], [-1.66]], [[-2.66], [-2.86], [-1.54]], False),
        ([[5.0], [4.9], [5.1]], [[5.2], [3.0], [7.0]], True),  # nothing is sure: the higher lower end
        ([[5.2], [3.0], [7.0]], [[5.0], [4.9], [5.1]], False),
    ],
)
def test_what_is_better_beyond_doubt_is_preferred_to_a_higher_lower_end(
    one: list[list[float]], other: list[list[float]], preferable: bool
) -> None:
    assert is_preferable(paths_of(one), paths_of(other)) is preferable


def test_a_bias_that_only_one_controller_has_is_a_doubt() -> None:
    one, other = paths_of([[5.0], [5.0]], held_out=-1.0), paths_of([[4.0], [4.0]])
    assert not is_surely_better(one, other)
    assert is_surely_better(one, paths_of([[4.0], [4.0]], held_out=-1.0))


def test_leaving_the_data_counts_against_a_controller() -> None:
    one, other = paths_of([[5.0], [5.0]], pessimistic=3.0), paths_of([[4.0], [4.0]])
    assert not is_surely_better(one, other)
    assert not is_surely_better(other, one)  # nothing is sure: as if the data went on, it is worse


@pytest.mark.parametrize(
    ("logged", "lqr", "network", "best"),
    [
        # The log is barely known: nothing has to be better than that.
        (("not identifiable", [[-40.0], [-300.0], [5.0]]), ("ok", [[1.0]] * 3), ("ok", [[1.0]] * 3), "lqr"),
        # A network that leaves the data is taken where it is better with the least value there too.
        (("weak", [[1.0]] * 3), ("ok", [[2.0]] * 3), ("not identifiable", [[5.0]] * 3), "network"),
        (("weak", [[1.0]] * 3), ("ok", [[2.0]] * 3), ("not identifiable", [[5.0], [1.0], [9.0]]), "lqr"),
        (*[("not identifiable", [[1.0]] * 3)] * 3, LOGGED),
    ],
)
def test_the_best_is_the_simplest_that_is_known_unless_another_is_better_beyond_doubt(
    logged: tuple[Any, Any], lqr: tuple[Any, Any], network: tuple[Any, Any], best: str
) -> None:
    found = {
        name: OfflineEvaluation(0.0, (0.0, 0.0), 0.0, 0.0, 0.0, verdict, (), paths_of(returns))
        for name, (verdict, returns) in {"network": network, "lqr": lqr, LOGGED: logged}.items()
    }
    assert Comparison(found, {}, None).best == best


def test_a_gain_has_an_interval_of_1_96_errors_and_a_normal_probability() -> None:
    one, other = (
        OfflineEvaluation(0.0, (0.0, 0.0), 0.0, 0.0, returns[0][0], "ok", (), paths_of(returns))
        for returns in ([[5.0], [6.0]], [[3.0], [3.0]])
    )
    gain = object.__new__(OfflineEvaluator).difference(one, other)  # needs no model
    assert gain.mean == 2.0
    assert gain.interval == pytest.approx((2 - 1.96 * 1.3, 2 + 1.96 * 1.3))
    assert gain.probability_better == pytest.approx(0.5 * (1 + math.erf(2 / 1.3 / math.sqrt(2))))


def test_the_error_of_a_gain_counts_what_held_out_rows_say_of_the_difference() -> None:
    one, other = (
        OfflineEvaluation(0.0, (0.0, 0.0), 0.0, 0.0, 0.0, "ok", (), paths_of([[2.0], [2.0]], held_out=bias))
        for bias in (5.0, 2.0)
    )
    gain = object.__new__(OfflineEvaluator).difference(one, other)
    assert gain.interval == pytest.approx((-1.96 * 3, 1.96 * 3))


# Verdicts


@pytest.mark.parametrize(
    ("unknown", "error", "episodes", "verdict"),
    [
        (0.05, 5.0, 6, "ok"),
        (0.051, 5.0, 6, "weak"),
        (0.2, 5.0, 6, "weak"),
        (0.201, 5.0, 6, "not identifiable"),
        (0.01, 5.1, 6, "weak"),
        (0.01, 30.0, 6, "weak"),
        (0.01, 30.1, 6, "not identifiable"),
        (0.01, 5.0, 5, "weak"),
        (0.01, 5.0, 1, "not identifiable"),
    ],
)
def test_the_verdict_by_unknown_mass_error_and_episodes(
    unknown: float, error: float, episodes: int, verdict: str
) -> None:
    found, reasons = verdict_of(unknown, error, 100.0, episodes=episodes)
    assert found == verdict
    assert bool(reasons) == (verdict != "ok")


def test_a_single_episode_or_a_poor_fit_makes_a_verdict_weak() -> None:
    assert verdict_of(0.0, 0.0, 100.0, episodes=10, alone=True)[0] == "weak"
    noise = replace(Noise.independent(1), jumps=("level",))
    found, reasons = verdict_of(0.0, 0.0, 100.0, episodes=10, noise=noise)
    assert (found, len(reasons)) == ("weak", 1)
    assert "level" in reasons[0]
    found, reasons = verdict_of(0.0, 0.0, 100.0, episodes=10, moves={"setpoint": 29, "feed": 30})
    assert found == "weak"
    assert reasons == ("setpoint moves 29 times in the log, too few to tell how it will move",)
    assert (
        verdict_of(0.0, 0.0, 100.0, episodes=10, poor_fits=[ColumnFit("x", ("x",), 0.4, 0.8, 0.8, 1)])[0]
        == "weak"
    )


# Risks and shares


def above(states: torch.Tensor) -> torch.Tensor:
    return states[..., 0] > 0.5


def crossing(entering: int, paths: int, *, stays: float = 1.0) -> ModelPaths:
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
    found = evaluator.evaluate(lambda s: 0 * s[:, :1])
    assert found.paths.repeats == 3  # of 15 starts: 45 paths
    # 210 paths that never enter have an upper end of 1 − .025^(1/210); less than .1 per cent leave the data.
    risk = evaluator.risk(lambda s: 0 * s[:, :1], "s0 > 1e9", 1)
    assert 1 - 0.025 ** (1 / 210) <= risk.high <= 1 - 0.025 ** (1 / 180)


# The log


def test_the_logged_behaviour_takes_the_action_of_one_of_the_five_nearest() -> None:
    s = torch.tensor([0.0, 0.1, -0.1, 0.2, -0.2, 0.3, -0.3, 5.0], dtype=torch.float64)[:, None]
    data = Transitions.from_arrays(s, torch.arange(8.0)[:, None], torch.zeros(8), s)
    law = LoggedBehavior(data, GaussianKernel(torch.ones(1, dtype=torch.float64)))
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


def test_no_verdict_stands_above_a_stop_of_describe() -> None:
    found, reasons = verdict_of(
        0.0, 0.0, 100.0, episodes=10, findings=[stop("far values", "a spike", "Drop it")]
    )
    assert (found, reasons) == ("weak", ("a spike (drop it)",))


def test_what_a_log_cannot_tell_explains_the_unknown_mass() -> None:
    finding = look("excitation", "the valve mostly followed the level", "Add steps")
    assert verdict_of(0.0, 0.0, 100.0, episodes=10, findings=[finding]) == ("ok", ())
    _, reasons = verdict_of(0.1, 0.0, 100.0, episodes=10, findings=[finding])
    assert finding.what in reasons


def test_the_end_of_a_task_is_known_to_half_a_step() -> None:
    ends = paths_of([[10.0], [10.0], [10.0]], end_reward=4.0)
    assert standard_error(ends.returns, ends, floor=True) == pytest.approx(2.0)


def test_the_reward_of_the_step_that_ends_a_task_is_discounted() -> None:
    going = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    path = cast(Any, Steps(going=going, rewards=np.full((2, 2), -8.0)))
    assert _end_rewards(path, 0.5).tolist() == [4.0, 0.0]
