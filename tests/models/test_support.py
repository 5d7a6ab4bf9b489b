"""The unknown share by hand, and the same in predictions, maps, guards and exports."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import torch

from deploy.native import COMPILERS, NEEDS_COMPILER, InC
from deploy.stream_cases import derived_log
from nopg import TrainingConfig, optimize
from nopg._support import ChartSupport, FirstFeatures, FitVariance, Support, blend, unknown_share
from nopg.data import Transitions
from nopg.deploy import GuardedController, load, to_onnx
from nopg.envs import Pendulum, collect_grid, collect_uniform
from nopg.errors import SupportWarning
from nopg.models import LocalModel
from nopg.training import TrainingResult

Numbers = npt.NDArray[np.float64]
INSIDE = math.log(1e-4)


def charts(*centers: list[float], radius: float = 1.0, covariance: float = 0.0) -> ChartSupport:
    """Return charts in the first of two inputs."""
    C = len(centers)
    covariances = np.tile(covariance * np.eye(2), (C, 1, 1))
    return ChartSupport(np.array(centers), np.full(C, radius), covariances, np.array([1.0, 0.0]), np.zeros(2))


def support(*parts: ChartSupport, fits: tuple[FitVariance, ...] = ()) -> Support:
    return Support(np.array([-3.0, -np.inf]), np.array([3.0, np.inf]), np.array([0.5, 1.0]), parts, fits)


# By hand.


def test_at_a_chart_one_part_in_ten_thousand_is_unknown_and_half_of_it_two_radii_away() -> None:
    one = support(charts([0.0, 0.0], radius=0.5))
    assert one.unknown([[0.0, 7.0]]) == pytest.approx(1e-4 / (1 + 1e-4))
    assert one.log_odds([[1.0, 0.0]]) == pytest.approx(INSIDE + 2 * 4.0)
    assert one.unknown([[0.5 * math.sqrt(-INSIDE / 2), 0.0]]) == pytest.approx(0.5)


def test_beyond_the_logged_range_margins_count_like_radii() -> None:
    assert support().log_odds([[4.0, 1e9], [-3.25, 0.0]]) == pytest.approx([INSIDE + 8.0, INSIDE + 0.5])


def test_uncertain_slopes_count_by_the_offset_from_the_centre_in_every_input() -> None:
    one = support(charts([0.0, 1.0], covariance=0.1))
    assert one.log_odds([[0.5, 3.0]]) == pytest.approx(INSIDE + 2 * (0.25 + 0.1 * (0.25 + 4.0)))


def test_of_several_shapes_the_farthest_counts() -> None:
    both = support(charts([0.0, 0.0]), charts([1.0, 0.0]))
    assert both.log_odds([[0.25, 0.0]]) == pytest.approx(INSIDE + 2 * 0.75**2)


def test_the_nearest_charts_are_blended_and_the_next_has_no_weight() -> None:
    one = support(charts([0.0, 0.0], [1.0, 0.0], [2.0, 0.0]))  # two are blended, the third is the last
    D = np.array([0.16, 0.36, 2.56])
    b = (1.0 - D[:2] / D[2]) ** 2 + 1e-9
    assert one.log_odds([[0.4, 0.0]]) == pytest.approx(INSIDE + 2 * (b * D[:2]).sum() / b.sum())
    assert blend(D[:, None])[0].sum() == pytest.approx(1.0)


def test_the_variance_of_a_polynomial_adds_up_over_its_features() -> None:
    first = FirstFeatures(np.array([0, 1]), np.array([1.0, 0.0]), np.array([2.0, 1.0]))
    center, covariance = np.array([0.0, 0.0, 0.5, 0.0, 0.0]), np.diag([1.0, 2.0, 3.0, 4.0, 5.0])
    fit = FitVariance(first, center, covariance)
    # Features (3 − 1)/2, 2 and their products 1, 2, 4.
    expected = 1.0 + 2 * 4.0 + 3 * 0.25 + 4 * 4.0 + 5 * 16.0
    assert support(fits=(fit,)).log_odds([[3.0, 2.0]]) == pytest.approx(INSIDE + 2 * expected)


def test_an_angle_is_near_across_its_seam() -> None:
    one = ChartSupport(
        np.array([[179.0]]), np.ones(1), np.full((1, 1, 1), 0.1), np.ones(1), np.array([360.0])
    )
    chord = (360 / math.pi) * math.sin(math.radians(1.0))
    assert one.distance(np.array([[-179.0, 181.0]])) == pytest.approx(2 * [chord**2 + 0.4])


def test_numbers_too_large_to_square_are_unknown() -> None:
    one = support(charts([0.0, 0.0], covariance=0.1))
    assert one.unknown([[1e200, 1e200], [0.0, -1e308]]).tolist() == [1.0, 1.0]
    assert unknown_share(np.array([np.nan, 1e4, -1e4])).tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("count", [300])
def test_the_data_are_known_and_what_is_far_from_them_is_not(count: int) -> None:
    data = collect_uniform(Pendulum(), count, seed=0)
    known = LocalModel(data).support
    assert float(np.median(known.unknown(torch.cat([data.states, data.actions], dim=1)))) < 0.01
    assert known.unknown([[0.0, 20.0, 0.0], [0.0, 0.0, 9.0]]).min() > 0.999


# Everywhere the same.


def _linear() -> Transitions:
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-1.0, 1.0, (400, 2)), rng.uniform(-1.0, 1.0, (400, 1))
    return Transitions.from_arrays(
        s, a, -(s @ [1.0, 0.5]), 0.9 * s + 0.1 * a + 0.01 * rng.normal(size=s.shape)
    )


DATA: dict[str, Callable[[], Transitions]] = {
    "an angle and several shapes": lambda: collect_uniform(Pendulum(), 600, seed=4),
    "a global fit": _linear,
    "derived columns": derived_log,
}


@cache
def trained(name: str, model: Literal["local", "paper"] = "paper") -> TrainingResult:
    """Return a short training; on the paper's model too, the unknown share is that of a local one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        settings = TrainingConfig(updates=1, start="given", progress=False)
        return optimize(DATA[name](), 0.5, model=model, config=settings)


def places(result: TrainingResult, count: int = 5_000) -> Numbers:
    """Return raw states inside the log, at its edge and far outside."""
    rng, s = np.random.default_rng(1), result.data.states.numpy()
    low, high = s.min(axis=0), s.max(axis=0)
    steps = rng.choice([0.02, 0.2, 2.0, 20.0], size=(count, 1))
    found: Numbers = s[rng.integers(len(s), size=count)] + steps * (high - low) * rng.normal(
        size=(count, s.shape[1])
    )
    return found


@pytest.mark.parametrize(("name", "model"), [*((name, "paper") for name in DATA), ("a global fit", "local")])
def test_prediction_result_map_and_runtime_have_one_unknown_share(
    name: str, model: Literal["local", "paper"], tmp_path: Path
) -> None:
    result = trained(name, model)
    states = places(result)
    actions = result.policy.schema.clip_actions(result.policy(torch.as_tensor(states)))
    wanted = result.problem.local_model.predict(torch.as_tensor(states), actions).unknown.numpy()
    assert (wanted < 0.1).mean() > 0.05
    assert (wanted > 0.9).mean() > 0.05
    assert ((wanted > 0.1) & (wanted < 0.9)).sum() > 20
    runtime = load(result.save(tmp_path / "saved", data=False))
    for found in (result.unknown_at(states), runtime.unknown(states)):
        assert np.abs(found - wanted).max() <= 1e-12
    if not result.policy.has_memory:
        acts = [GuardedController(runtime, fallback=lambda _: actions[0]).act(one) for one in states[:50]]
        assert [one.unknown for one in acts] == pytest.approx(wanted[:50], abs=1e-12)
        assert [one.source == "learned" for one in acts] == (wanted[:50] <= 0.5).tolist()


@pytest.mark.parametrize("name", ["an angle and several shapes", "a global fit"])
def test_onnx_has_the_same_unknown_share(name: str, tmp_path: Path) -> None:
    result = trained(name)
    states = places(result)
    to_onnx(load(result.save(tmp_path / "one", data=False)), tmp_path / "one.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "one.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["unknown"], {"observation": states})
    assert np.abs(found - result.unknown_at(states)).max() < 1e-9


@pytest.mark.skipif(not COMPILERS, reason=NEEDS_COMPILER)
@pytest.mark.parametrize("name", ["an angle and several shapes", "a global fit"])
def test_the_compiled_c_has_the_same_unknown_share(name: str, tmp_path: Path) -> None:
    result = trained(name)
    states, guard = places(result), GuardedController(load(result.save(tmp_path / "saved", data=False)))
    status, _, found = InC(guard, tmp_path).step_many(states)
    wanted = result.unknown_at(states)
    assert np.abs(found - wanted).max() < 1e-9
    assert ((status == 0) == (wanted <= 0.5)).all()


def test_where_charts_are_equally_near_the_search_decides_and_little_depends_on_it() -> None:
    data = collect_grid(Pendulum(), (8, 8, 2))
    model = LocalModel(data)
    inputs = torch.cat([data.states, data.actions], dim=1) + 0.01
    predicted = model.predict(inputs[:, :2], inputs[:, 2:]).unknown.numpy()
    assert np.abs(model.support.unknown(inputs) - predicted).max() < 1e-5


def test_the_cases_have_several_shapes_of_charts_none_and_an_angle() -> None:
    several, one = (trained(name).support for name in ("an angle and several shapes", "a global fit"))
    assert len(several.charts) > 1
    assert several.charts[0].periods[0] > 0
    assert (one.charts, len(one.fits)) == ((), 1)
