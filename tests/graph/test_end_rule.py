"""Where the task ends: the sides of a box, if they explain every end."""

from __future__ import annotations

import pytest
import torch

from nopg._seeding import generator
from nopg.data import Transitions
from nopg.graph import EndRule


def ended_where(rule: object, n: int = 400) -> Transitions:
    s = 2 * torch.rand(n, 2, dtype=torch.float64, generator=generator(0, "ends")) - 1
    ended = rule(s)  # type: ignore[operator]
    return Transitions.from_arrays(s, s[:, :1], torch.zeros(n), s, terminated=ended)


def test_thresholds_lie_between_the_last_that_went_on_and_the_first_that_ended() -> None:
    data = ended_where(lambda s: (s[:, 0] > 0.8) | (s[:, 0] < -0.7))
    rule = EndRule.of(data)
    assert rule is not None
    found = {
        (int(column), float(sign)): float(threshold)
        for column, sign, threshold in zip(rule.columns, rule.signs, rule.thresholds[0], strict=True)
    }
    assert found.keys() == {(0, 1.0), (0, -1.0)}
    # The gap between two of 400 uniform numbers.
    assert found[0, 1.0] == pytest.approx(0.8, abs=0.03)
    assert found[0, -1.0] == pytest.approx(0.7, abs=0.03)
    states = torch.tensor([[0.9, 0.0], [0.0, 5.0], [-0.9, 0.0]], dtype=torch.float64)
    assert rule.ended(states, torch.zeros(3, dtype=torch.int64)).tolist() == [1, 0, 1]


def test_there_is_no_rule_where_no_box_explains_the_ends() -> None:
    assert EndRule.of(ended_where(lambda s: s.square().sum(dim=1) < 0.1)) is None


def test_without_ends_nothing_ends() -> None:
    rule = EndRule.of(ended_where(lambda s: s[:, 0] > 2))
    assert rule is not None
    assert rule.ended(torch.full((2, 2), 9.0), torch.zeros(2, dtype=torch.int64)).tolist() == [0, 0]


def test_every_part_has_its_own_threshold() -> None:
    data = ended_where(lambda s: s[:, 0] > 0.5)
    kept = torch.ones(2, len(data), dtype=torch.bool)
    kept[1] = (data.next_states[:, 0] < 0.4) | (data.next_states[:, 0] > 0.7)
    rule = EndRule.of(data, kept)
    assert rule is not None
    assert float(rule.thresholds[0, 0]) == pytest.approx(0.5, abs=0.02)
    assert float(rule.thresholds[1, 0]) == pytest.approx(0.55, abs=0.02)
