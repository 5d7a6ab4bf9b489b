import torch

from nopg.data import Transitions
from nopg.models._limits import TerminationRule
from nopg.models._regression_rows import InputSpace

SPACE = InputSpace(*torch.tensor([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]], dtype=torch.float64))


def log(after: list[list[float]], ended: list[bool]) -> Transitions:
    n = len(after)
    return Transitions.from_arrays([[0.0, 0.0]] * n, [[0.0]] * n, [0.0] * n, after, terminated=ended)


def ends(rule: TerminationRule, *states: list[float]) -> list[bool]:
    found: list[bool] = rule.ended(torch.tensor(states, dtype=torch.float64)).tolist()
    return found


def test_a_threshold_lies_half_way_between_the_last_row_that_went_on_and_the_first_end() -> None:
    rule = TerminationRule.of(log([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], [False, False, True]), SPACE)
    assert rule.thresholds.tolist() == [2.5]
    assert ends(rule, [2.4, 9.0], [2.6, -9.0]) == [False, True]


def test_two_sides_explain_ends_at_both() -> None:
    after = [[-3.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [3.0, 0.0]]
    rule = TerminationRule.of(log(after, [True, False, False, True]), SPACE)
    assert ends(rule, [-2.5, 0.0], [0.0, 0.0], [2.5, 0.0]) == [True, False, True]


def test_without_ends_nothing_ends() -> None:
    rule = TerminationRule.of(log([[1.0, 0.0], [2.0, 0.0]], [False, False]), SPACE)
    assert rule.never
    assert ends(rule, [1e9, 1e9]) == [False]


def test_where_no_threshold_separates_the_nearest_logged_state_decides() -> None:
    after = [[0.0, 0.0], [1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]
    rule = TerminationRule.of(log(after, [True, False, False, False, False]), SPACE)
    assert not rule.never
    assert ends(rule, [0.1, 0.1], [0.9, 0.9], [-2.0, -2.0]) == [True, False, False]


def test_a_log_of_ends_alone_ends_everywhere() -> None:
    rule = TerminationRule.of(log([[0.0, 0.0], [1.0, 0.0]], [True, True]), SPACE)
    assert ends(rule, [5.0, 5.0]) == [True]
