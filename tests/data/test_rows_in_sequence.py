"""Rows of a log in sequence."""

from __future__ import annotations

import torch

from nopg import Transitions
from nopg.data._episodes import spaced_blocks


def test_a_row_continues_the_one_before_if_it_begins_where_that_ended() -> None:
    states, after = [0.0, 1.0, 5.0, 6.0], [1.0, 2.0, 6.0, 7.0]
    data = Transitions.from_arrays(states, [0.0] * 4, [0.0] * 4, after)
    assert data.continues.tolist() == [False, True, False, True]
    data = Transitions.from_arrays(states, [0.0] * 4, [0.0] * 4, after, episodes=[0, 1, 1, 1])
    assert data.continues.tolist() == [False, False, False, True]


def test_blocks_are_spread_over_all_rows() -> None:
    assert torch.equal(spaced_blocks(100, 100), torch.arange(100))
    found = spaced_blocks(1_000_000, 4_000)
    assert len(found) == 4_000
    assert found[0] == 0
    assert found[-1] == 999_999
    assert bool((found.view(40, 100).diff(dim=1) == 1).all())
