"""A trained controller as a family around the logged one."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import nopg
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.deploy import load as load_runtime
from nopg.deploy import to_onnx
from nopg.errors import ArgumentError
from nopg.policies import DeviationPolicy, GaussianMLPPolicy, LinearPolicy
from nopg.training import TrainingResult

SPAN = 1.5


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    """Return a controller of a first-order plant that was logged under a weak one."""
    rng = generator(0, "log")
    s = 2 * torch.rand(300, 1, generator=rng, dtype=torch.float64) - 1
    a = (-0.2 * s + 0.3 * torch.randn(300, 1, generator=rng, dtype=torch.float64)).clamp(-1, 1)
    data = Transitions.from_arrays(
        s, a, -s.square()[:, 0] - 0.01 * a.square()[:, 0], 0.95 * s + 0.5 * a, initial_states=[[0.8], [-0.6]]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nopg.optimize(data, 0.9, config=nopg.TrainingConfig(updates=10, progress=False))


def test_actions_deviate_by_the_limit_at_most_and_by_less_where_the_policy_asks_for_less() -> None:
    base, policy = LinearPolicy([[-1.0, 0.5]]), LinearPolicy([[-3.0, 2.0]])
    near = DeviationPolicy(base, policy, [0.4])
    states = torch.randn(200, 2, generator=generator(0, "states"), dtype=torch.float64)
    with torch.no_grad():
        apart = near.mode(states) - base.mode(states)
        wanted = policy.mode(states) - base.mode(states)
    assert float(apart.abs().max()) == pytest.approx(0.4)
    small = wanted.abs() <= 0.4
    assert 10 < int(small.sum()) < 190
    assert torch.allclose(apart[small], wanted[small], atol=1e-15)
    assert torch.equal(apart[~small].sign(), wanted[~small].sign())


def test_the_gradient_is_that_of_the_policy_inside_and_of_the_base_at_the_limit() -> None:
    near = DeviationPolicy(LinearPolicy([[-1.0]]), LinearPolicy([[-3.0]]), [0.5])
    for state, slope in ((0.1, -3.0), (1.0, -1.0)):
        x = torch.tensor([[state]], dtype=torch.float64, requires_grad=True)
        (found,) = torch.autograd.grad(near.mode(x).sum(), x)
        h = 1e-6
        with torch.no_grad():
            known = (near.mode(x + h) - near.mode(x - h)) / (2 * h)
        assert float(found) == pytest.approx(float(known), rel=1e-6) == pytest.approx(slope)


def test_the_table_goes_from_the_logged_controller_to_the_trained_one(result: TrainingResult) -> None:
    first, *_, last = steps = result.deviations
    assert first.gain.mean == 0.0
    assert last.evaluation.expected_return == pytest.approx(result.expected_return, rel=0.02)
    gains = [one.gain.mean for one in steps]
    assert gains == sorted(gains)
    assert last.gain.interval[0] > 0
    spread = float(result.data.actions.max() - result.data.actions.min())
    assert [one.limit[0] for one in steps] == pytest.approx([one.share * spread for one in steps])


def test_a_limited_controller_is_saved_loaded_and_run(result: TrainingResult, tmp_path: Path) -> None:
    near = result.within(0.1)
    assert result.deviations[2].evaluation.expected_return == near.expected_return
    states = np.linspace(-1, 1, 101)[:, None]
    path = near.save(tmp_path / "near")
    again, runtime = nopg.load(path), load_runtime(path)
    assert np.array_equal(again.policy(states), near.policy(states))
    assert np.abs(runtime(states) - near.policy(states)).max() <= 1e-12
    assert again.within(0.05).expected_return == result.within(0.05).expected_return

    limit, base = float(near.policy.policy.limit), result.within(0.0).policy(states)  # type: ignore[arg-type]
    assert np.abs(runtime(states) - base).max() == pytest.approx(limit)


def test_onnx_has_the_same_limit(result: TrainingResult, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    near = result.within(0.1)
    to_onnx(load_runtime(near.save(tmp_path / "near", data=False)), tmp_path / "near.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "near.onnx", providers=["CPUExecutionProvider"])
    states = np.linspace(-1, 1, 101)[:, None]
    actions = session.run(["action"], {"observation": states})[0]
    assert np.abs(actions - near.policy(states)).max() <= 1e-12


def test_what_has_no_bounded_deviation_is_refused(result: TrainingResult) -> None:
    with pytest.raises(ArgumentError, match="from 0 to 1"):
        result.within(SPAN)
    with pytest.raises(ArgumentError, match="finite numbers, at least 0"):
        DeviationPolicy(LinearPolicy([[1.0]]), LinearPolicy([[1.0]]), [-1.0])
    random = GaussianMLPPolicy.from_data(
        result.data.features, result.data.actions, rng=generator(0, "policy")
    )
    with pytest.raises(ArgumentError, match="GaussianMLPPolicy has no bounded deviation"):
        replace(result, policy=replace(result.policy, policy=random)).within(0.1)
