"""Counts of repairs add up and stay with a dataset."""

from __future__ import annotations

from dataclasses import replace

import torch

from nopg.data import Repairs, Transitions


def _data(repairs: Repairs) -> Transitions:
    data = Transitions.from_arrays([0.0, 1.0, 2.0], [1.0] * 3, [0.0] * 3, [1.0, 2.0, 3.0])
    return replace(data, repairs=repairs)


def test_equal_repairs_add_up_and_notes_appear_once() -> None:
    total = Repairs({"a": 1, "b": 2}, ("cp1252",)) + Repairs({"b": 3}, ("cp1252", "units"))
    assert total == Repairs({"a": 1, "b": 5}, ("cp1252", "units"))


def test_no_repairs_are_false() -> None:
    assert not Repairs()
    assert Repairs({"a": 1})
    assert Repairs(notes=("cp1252",))


def test_repairs_stay_with_the_rows_that_are_taken() -> None:
    repairs = Repairs({"level: missing word 'Bad'": 2})
    data = _data(repairs)
    assert data.take(torch.tensor([0, 2])).repairs == repairs
    assert data.with_reward("s0").repairs == repairs
