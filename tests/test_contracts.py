"""The contracts of policies, baselines and environments: ours keep them, broken ones are named."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nopg.baselines import baseline
from nopg.data import Transitions
from nopg.envs import LQR, Environment, Pendulum, UniformAgent, check_environment, collect
from nopg.errors import ArgumentError
from nopg.evaluation._control_law import control_law
from nopg.policies import (
    Deterministic,
    check_policy,
)


class Broken(Deterministic):
    """A linear law whose defect is a function of the right actions and the features."""

    num_actions = 1

    def __init__(self, defect: Any) -> None:
        super().__init__()
        self.gain, self.defect = torch.nn.Parameter(torch.ones(3, 1, dtype=torch.float64)), defect

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.defect(features @ self.gain, features)
        return found


@pytest.mark.parametrize(
    ("defect", "message"),
    [
        (lambda a, _: a[:, 0], r"mode returns shape \(7,\) instead of \(7, 1\)"),
        (lambda a, _: a / 0, "not finite"),
        (lambda a, s: a + s.zero_()[:, :1], "changes its inputs"),
        (lambda a, _: a + torch.rand(1), "(second call|actions is not mode)"),
        (lambda a, _: a - a.mean(), "depends on the other rows"),
        (lambda a, _: a.detach(), "(require grad|no gradient)"),
    ],
)
def test_a_broken_policy_is_named(defect: Any, message: str) -> None:
    with pytest.raises((ArgumentError, RuntimeError), match=message):
        check_policy(Broken(defect), num_features=3)


@pytest.fixture(scope="module")
def log() -> Transitions:
    plant = LQR()
    return collect(plant, UniformAgent.within(plant), episodes=5, steps=20, seed=0)


@pytest.mark.parametrize("name", ["lqr", "mpc", "cloning"])
def test_our_baselines_are_functions_of_single_states_and_leave_the_log(name: str, log: Transitions) -> None:
    before = [part.clone() for part in (log.states, log.actions, log.rewards)]
    act = control_law(baseline(name, log, 0.9), log.schema)
    actions = torch.as_tensor(act(log.states))
    assert actions.shape == log.actions.shape
    assert actions.isfinite().all()
    assert torch.equal(torch.as_tensor(act(log.states)), actions)
    alone = torch.cat([torch.as_tensor(act(row[None])) for row in log.states[:5]])
    assert torch.allclose(alone, actions[:5], rtol=1e-6, atol=1e-9)
    assert all(map(torch.equal, before, (log.states, log.actions, log.rewards)))


def broken(**methods: Any) -> Environment:
    return type("BrokenPendulum", (Pendulum,), {"__slots__": (), **methods})()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"step": lambda self, s, a: s[:, :1]}, r"step returns shape \(20, 1\)"),
        ({"step": lambda self, s, a: s + a.mean()}, "depends on the other rows"),
        ({"step": lambda self, s, a: s + a}, "step does not pass the action through applied"),
        ({"step": lambda self, s, a: s.add_(0.1)}, "changes its inputs"),
        ({"reward": lambda self, s, a, after: a[:, 0]}, "reward does not pass"),
        ({"reward": lambda self, s, a, after: after}, "reward returns shape"),
        ({"terminal": lambda self, after: after[:, 0]}, "no booleans"),
        ({"applied": lambda self, a: a / 2}, "changes when applied again"),
    ],
)
def test_a_broken_environment_is_named(method: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        check_environment(broken(**method))
