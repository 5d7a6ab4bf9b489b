"""Lags and integrals: formulas, values in a log, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nopg._columns import Columns, Derived
from nopg._derived import DerivedColumns
from nopg.data import Transitions
from nopg.errors import DataError


def _log(rows: int = 12, *, episodes: list[int] | None = None, angle: bool = False) -> Transitions:
    rng = np.random.default_rng(1)
    levels, valve = rng.normal(size=rows + 1), rng.normal(size=rows)
    return Transitions.from_arrays(
        levels[:-1],
        valve,
        np.zeros(rows),
        levels[1:],
        episodes=episodes,
        state_names=["level"],
        action_names=["valve"],
        angles=["level"] if angle else None,
        units={"level": "m"},
    )


def test_lags_are_earlier_values_of_the_same_episode() -> None:
    data = _log(8, episodes=[0] * 5 + [1] * 3)
    late = data.derive(lags={"level": 2, "valve": 1})
    assert late.schema.states == ("level", "level_lag1", "level_lag2", "valve_lag1")
    s, a = data.states[:, 0], data.actions[:, 0]
    wanted = [[s[k], s[k - 1], s[k - 2], a[k - 1]] for k in (2, 3, 4, 7)]
    torch.testing.assert_close(late.states, torch.tensor(wanted), rtol=0, atol=0)


def test_next_states_hold_the_derived_columns_of_the_next_row() -> None:
    late = _log(9).derive(lags={"valve": 2}, integrals={"total": "level - 3"})
    torch.testing.assert_close(late.next_states[:-1], late.states[1:], rtol=0, atol=0)
    assert bool(late.continues[1:].all())


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(0, 2), st.booleans())
def test_every_next_value_is_the_formula_of_the_step(lags: int, valve: int, cut: bool) -> None:
    data = _log(14, episodes=[0] * 7 + [1] * 7 if cut else None)
    late = data.derive(
        lags={"level": lags, "valve": valve}, integrals={"total": "0.5 * level + 2 - level_lag1"}
    )
    derived = DerivedColumns.of(late.schema)
    width = len(late.schema.measured)
    found = derived.following(late.states.numpy(), late.actions.numpy(), late.next_states.numpy()[:, :width])
    np.testing.assert_allclose(found, late.next_states.numpy(), rtol=0, atol=1e-12)  # rounding of one sum


def test_an_integral_counts_in_seconds_and_begins_anew_in_every_episode() -> None:
    data = _log(6, episodes=[0, 0, 0, 1, 1, 1])
    data = Transitions.from_arrays(
        *(data.states, data.actions, data.rewards, data.next_states),
        episodes=data.episodes,
        state_names=["level"],
        action_names=["valve"],
    )
    timed = replace(data, schema=replace(data.schema, interval=60.0))
    total = timed.derive(integrals={"total": "level"}).states[:, 1]
    s = data.states[:, 0]
    wanted = [0, 60 * s[0], 60 * s[0] + 60 * s[1], 0, 60 * s[3], 60 * s[3] + 60 * s[4]]
    torch.testing.assert_close(total, torch.tensor(wanted, dtype=torch.float64))


def test_a_declared_start_has_its_own_value_as_lag_and_the_mean_action() -> None:
    data = _log(8, episodes=[0] * 4 + [1] * 4).starting_at([3.0])
    late = data.derive(lags={"level": 1, "valve": 1}, integrals={"total": "level"})
    wanted = [[3.0, 3.0, float(data.actions.mean()), 0.0]]
    torch.testing.assert_close(late.starts, torch.tensor(wanted, dtype=torch.float64))
    assert torch.equal(late.starting_at([3.0]).starts, late.starts)
    assert not late.repairs


def test_a_start_of_the_log_is_the_first_row_whose_history_is_known() -> None:
    data = _log(8, episodes=[0] * 4 + [1] * 4)
    late = data.derive(lags={"level": 1, "valve": 2}, integrals={"total": "level"})
    (s,), (a,) = data.states.T, data.actions.T
    wanted = [[s[k + 2], s[k + 1], a[k + 1], a[k], s[k] + s[k + 1]] for k in (0, 4)]
    torch.testing.assert_close(late.starts, torch.tensor(wanted), rtol=0, atol=1e-12)  # one sum
    assert late.start_kind == "episodes"
    assert late.begins is None
    assert late.repairs.notes == ("starts: 2 of 2 moved to later rows, where derived columns are known",)


def test_marked_rows_move_within_their_run() -> None:
    data = _log(10, episodes=[0] * 5 + [1] * 5)
    marked = replace(data, begins=torch.tensor([1, 0, 0, 1, 0, 0, 1, 0, 0, 0]).bool())
    late = marked.derive(lags={"valve": 2})
    assert late.starts[:, 0].tolist() == data.states[[2, 3, 7], 0].tolist()
    assert late.repairs.notes == ("starts: 2 of 3 moved to later rows, where derived columns are known",)
    short = replace(_log(6, episodes=[0] * 4 + [1] * 2), begins=torch.tensor([0, 0, 0, 0, 1, 0]).bool())
    with pytest.raises(DataError, match="starts in no row"):
        short.derive(lags={"valve": 2}).starts  # noqa: B018


def test_where_every_row_is_a_start_each_keeps_what_was_before_it() -> None:
    for data in (_log(8), _log(8, episodes=[0] * 8), replace(_log(8), begins=torch.ones(8).bool())):
        late = data.derive(lags={"valve": 1})
        assert late.start_kind == "rows"
        assert late.starts[:, 1].tolist() == data.actions[:-1, 0].tolist()
        assert not late.repairs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lags": {"flow": 1}}, "no column 'flow'"),
        ({"lags": {"level": -1}}, "whole number"),
        ({"lags": {"level": 99}}, "99 rows before"),
        ({"integrals": {"total": "level ** 2"}}, "not a sum of columns"),
        ({"integrals": {"total": "speed"}}, "'speed'"),
        ({"integrals": {"level": "level"}}, "another name"),
    ],
)
def test_what_cannot_be_derived_is_refused_by_name(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        _log(6).derive(**arguments)  # type: ignore[arg-type]
    assert type(caught.value).__module__ == "nopg.errors"


def test_a_column_may_not_depend_on_a_later_one() -> None:
    columns = Columns(
        ("level", "one", "two"),
        ("valve",),
        derived={"one": Derived("0", "two"), "two": Derived("0", "level")},
    )
    with pytest.raises(DataError, match="place it after"):
        DerivedColumns.of(columns)
