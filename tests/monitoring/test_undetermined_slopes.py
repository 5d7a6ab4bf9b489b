"""What the log could not tell, as its actions followed the states, is no change of the plant."""

from functools import cache

import numpy as np
import pytest
import torch

from monitoring.feedback_runs import GAIN, feedback_run, fitted_to_feedback
from nopg import LocalModel, Transitions
from nopg.monitoring import Monitor, Status
from nopg.monitoring._scores import Scorer, slope_errors


@cache
def monitor_of(dither: float, bend: float = 0.0) -> Monitor:
    return Monitor(fitted_to_feedback(dither, bend=bend), shadow=False)


def watched(monitor: Monitor, seed: int, *, rows: int = 500, **run: float) -> Status:
    monitor.reset()
    return monitor.watch(feedback_run(rows, seed=seed, **run))


# In 10 000 steps the bound on the probability of an alarm is 5 %. A uniform step up to b has a
# standard deviation of b/√3. Under exact feedback nothing but rounding is left.
@pytest.mark.parametrize(
    ("logged", "dither", "bend"),
    [
        (0.0, 0.1, 0.0),
        (0.02, 0.1, 0.1),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(0.0, 0.01, 0.0), (0.0, 1.0, 0.0), (0.0, 0.1, 0.1), (0.02, 0.1, 0.0)]
        ),
    ],
)
def test_other_actions_than_a_log_under_feedback_has_raise_no_alarm(
    logged: float, dither: float, bend: float
) -> None:
    assert watched(monitor_of(logged, bend), 0, rows=10_000, dither=dither, bend=bend).change is None


def test_rows_with_such_actions_count_as_outside_the_log() -> None:
    status = watched(monitor_of(0.0), 0, dither=0.1)
    assert status.operating_region is not None
    assert status.operating_region["outside"] > 0.8
    assert status.verdict == "retrain"
    assert "other actions than those that followed them" in status.reasons[0]


def test_rows_with_the_actions_of_the_feedback_are_tested() -> None:
    monitor = monitor_of(0.0)
    unchanged = watched(monitor, 0, dither=0.0)
    assert unchanged.operating_region is not None
    assert (unchanged.verdict, unchanged.operating_region["outside"] < 0.05) == ("ok", True)
    assert watched(monitor, 0, dither=0.0, gain=0.5).change is not None


@pytest.mark.parametrize("logged", [0.02, 1.0])
def test_half_the_gain_is_found_under_a_dither_that_the_log_contains(logged: float) -> None:
    monitor = monitor_of(logged)
    changes = [watched(monitor, seed, dither=logged, gain=0.5).change for seed in range(5)]
    assert all(change is not None and change.found <= 200 for change in changes)
    if logged == 1.0:
        assert {change.kind for change in changes if change is not None} == {"gain"}


def errors_at(model: LocalModel, further: float) -> np.ndarray:
    s = model.data.states[:50]
    x = torch.cat([s, s @ GAIN.T + further], dim=1).T.numpy()
    return np.asarray(slope_errors(model)(x) / model.rows.spread.numpy())


@pytest.mark.parametrize("bend", [0.0, 0.1])
def test_errors_by_slopes_grow_with_the_distance_from_exact_feedback(bend: float) -> None:
    model = LocalModel(feedback_run(600, seed=1000, dither=0.0, bend=bend))
    assert any(block.shape.is_local for block in model.steps.blocks) == (bend > 0)
    at, near, far = (np.median(errors_at(model, further)[:, 1]) for further in (0.0, 0.1, 1.0))
    assert at < 0.1
    assert 8.0 < far / near < 12.0
    unit = float(model.rows.space.units[2])
    assert 1.0 / unit < far < 20.0 / unit  # nothing is known: a prior of ten spreads per unit


def test_a_nearly_exact_column_is_not_charged_with_the_noise_of_another() -> None:
    rng = torch.Generator().manual_seed(1)
    x = 4 * torch.rand(600, 3, generator=rng, dtype=torch.float64) - 2
    noise = torch.randn(600, 2, generator=rng, dtype=torch.float64) * torch.tensor([0.002, 0.02])
    s, a = x[:, :2], x[:, 2:]
    after = s + (1.5 * x[:, :1] + x[:, 1:2]).sin() * a + noise
    model = LocalModel(Transitions.from_arrays(s, a, 0 * x[:, 0], after))
    assert any({0, 1} <= set(block.columns) and block.shape.is_local for block in model.steps.blocks)
    between = 0.5 * (x[:200] + x[200:400])  # not at the centres of charts
    typical = model.predict(between[:, :2], between[:, 2:]).noise.mean(dim=0).numpy()
    assert (slope_errors(model)(between.T.numpy())[:, :2] < 0.5 * typical).all()


@pytest.mark.parametrize(
    ("share", "noise", "outside"), [(0.09, 0, 0), (0.11, 0, 1), (0.11, 0.3, 0), (0.5, 0.3, 1)]
)
def test_rows_are_outside_where_slopes_make_an_error_above_a_tenth_of_a_step_and_above_the_noise(
    share: float, noise: float, outside: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = torch.Generator().manual_seed(2)
    s, a = (torch.randn(300, 1, generator=rng, dtype=torch.float64) for _ in range(2))
    w = noise * torch.randn(300, 1, generator=rng, dtype=torch.float64)
    scorer = Scorer(LocalModel(Transitions.from_arrays(s, a, 0 * s[:, 0], s + a + w)))
    given = share * scorer.model.rows.spread[:2].numpy()
    monkeypatch.setattr(scorer, "_slope_errors", lambda x: np.tile(given, (x.shape[1], 1)))
    scores = scorer.score((s[:20], a[:20], 0 * s[:20, 0], (s + a)[:20]))
    assert scores.outside.tolist() == [bool(outside)] * 20
