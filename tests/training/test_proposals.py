"""Regulators from a log, and how near to it they stay."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from nopg._seeding import generator
from nopg.baselines._regulator import LinearQuadraticFit, Regulator
from nopg.bellman import MultistepProblem
from nopg.data import Transitions
from nopg.evaluation import OfflineEvaluator
from nopg.models import LocalModel
from nopg.training import _proposals
from nopg.training._proposals import regulators

A, B = 1.05, 0.5


def gentle_log(rows: int = 400) -> Transitions:
    """Return an unstable first-order plant under a weak proportional controller with some noise."""
    rng = generator(0, "log")
    s = 2 * torch.rand(rows, 1, generator=rng, dtype=torch.float64) - 1
    a = -0.3 * s + 0.05 * torch.randn(rows, 1, generator=rng, dtype=torch.float64)
    return Transitions.from_arrays(s, a, -s.square()[:, 0], A * s + B * a, initial_states=[[0.9]])


def regulator_of(data: Transitions, caution: float = 0.0) -> Regulator:
    fit = LinearQuadraticFit.of(data)
    assert fit is not None
    regulator = fit.regulator(0.9, caution=caution)
    assert regulator is not None
    return regulator


def test_a_regulator_without_caution_is_the_optimum_of_the_plant() -> None:
    regulator = regulator_of(gentle_log())
    assert float(regulator.gain) == pytest.approx(-A / B, rel=0.01)  # at once: actions cost nothing


def test_the_set_point_is_where_the_reward_is_highest() -> None:
    data = gentle_log()
    shifted = replace(data, states=data.states + 7.0, next_states=data.next_states + 7.0)
    regulator = regulator_of(replace(shifted, rewards=-(shifted.states[:, 0] - 7.2).square()))
    at_rest = float((1 - A) / B * 0.2)  # holds 7.2: s − 7 = 0.2 is kept by a = (1 − A)/B · 0.2
    assert float(regulator(torch.tensor([[7.2]], dtype=torch.float64))) == pytest.approx(at_rest, abs=0.01)


def test_the_more_caution_the_nearer_to_what_was_logged() -> None:
    gains = [float(regulator_of(gentle_log(), caution).gain) for caution in (0.0, 0.1, 1.0, 100.0)]
    assert gains == sorted(gains)
    assert gains[-1] == pytest.approx(-0.3, abs=0.02)


@pytest.mark.parametrize(("most", "offered"), [(0, False), (1, True)])
def test_best_actions_are_a_start_only_where_nodes_cover_the_states(
    most: int, offered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_proposals, "_MOST_COORDINATES", most)
    data = gentle_log(80)
    problem = MultistepProblem.build(LocalModel(data), data.starts, 0.9, horizon=2, num_nodes=20)
    names = [name for name, *_ in _proposals._examples(problem, (), 0)]
    assert any(name.startswith("best actions") for name in names) is offered


def test_a_cautious_regulator_is_offered_where_it_is_preferred() -> None:
    rng = generator(0, "log")
    x, v, a = (torch.rand(3, 600, generator=rng, dtype=torch.float64) * 2 - 1) * torch.tensor(
        [[1.0], [0.2], [1.0]], dtype=torch.float64
    )
    after = torch.stack([x + 0.3 * v, v + 0.3 * a], dim=1)  # slow in the log: the optimum goes much faster
    data = Transitions.from_arrays(
        torch.stack([x, v], dim=1), a[:, None], -x.square(), after, initial_states=[[0.9, 0.0]]
    )
    offered = dict(regulators(OfflineEvaluator(data, 0.9)))
    assert "least squares and LQR" in offered
    assert any(name.startswith("cautious LQR") for name in offered)
