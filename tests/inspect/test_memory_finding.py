"""`describe` finds before training that rows do not tell what comes next, in the words of the verdict."""

from dataclasses import replace

import numpy as np
import torch

from nopg.data import Transitions
from nopg.evaluation import evaluate_offline
from nopg.inspect import Finding, Grade, describe
from nopg.inspect._describe import quick_findings
from nopg.models import LocalModel
from nopg.models._memory import memory_of


def tank(*, delay: int = 0, rows: int = 400) -> Transitions:
    """A tank whose valve acts after some rows, under random steps of the valve."""
    rng = np.random.default_rng(0)
    valve, noise = rng.uniform(0.1, 0.9, rows), 0.002 * rng.standard_normal(rows)
    level = np.full(rows + 1, 1.0)
    for t in range(rows):
        level[t + 1] = level[t] + 0.1 * (valve[max(t - delay, 0)] - 0.5 * np.sqrt(level[t])) + noise[t]
    return Transitions.from_arrays(
        level[:-1],
        valve,
        -np.square(level[1:] - 1.0),
        level[1:],
        episodes=np.arange(rows) // 40,
        state_names=["level"],
        action_names=["valve"],
    )


def memory(data: Transitions) -> Finding | None:
    return describe(data).finding("memory")


def test_a_delay_is_found_in_the_words_of_the_verdict() -> None:
    data = tank(delay=1)
    found = memory(data)
    assert found is not None
    assert found.grade == Grade.LOOK
    assert found.what.startswith("level depends on more than the row: the action of the row before matters")
    assert found.advice.startswith("Add lags: `--lags auto`")
    judged = evaluate_offline(lambda states: 0 * states[:, :1] + 0.5, data, 0.9)
    reason = f"{found.what} ({found.advice[0].lower()}{found.advice[1:]})"
    assert [one for one in judged.reasons if "more than the row" in one] == [reason]


def test_lags_remove_the_finding() -> None:
    found = memory(tank(delay=1).derive(lags={"valve": 1}))
    assert found is not None
    assert found.grade == Grade.OK


def test_a_log_without_memory_is_ok() -> None:
    found = memory(tank())
    assert found is not None
    assert found.grade == Grade.OK


def test_unconnected_rows_have_no_such_finding() -> None:
    data = tank(delay=1)
    assert memory(data.take(torch.randperm(len(data), generator=torch.Generator().manual_seed(0)))) is None


def test_a_verdict_does_not_say_it_twice() -> None:
    assert not [one for one in quick_findings(tank(delay=1)) if one.topic == "memory"]


def test_a_model_that_is_at_hand_is_not_fitted_again() -> None:
    """The reward is fitted in one and not in the other: errors of the states are the same."""
    data = tank(delay=1)
    assert describe(data, model=LocalModel(data)).finding("memory") == memory(data)


def test_errors_that_are_not_known_are_not_tested() -> None:
    """As of a summary whose rows are all of the group that is left out."""
    found = LocalModel(tank()).residuals
    assert found is not None
    assert memory_of(replace(found, states=np.full_like(found.states, np.nan))) == ()
