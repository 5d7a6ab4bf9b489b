"""Scores of rows: held-out, whitened, ranked, with an allowance for the model's own error."""

import numpy as np
import pytest
import torch

from nopg import LocalModel, Transitions
from nopg._seeding import generator
from nopg.monitoring import _run
from nopg.monitoring._scores import Scorer


def walk(rows: int, *, sensor: float, process: float, seed: int = 0) -> Transitions:
    """A level that follows its input slowly, measured with noise; 20 episodes."""
    rng, episodes = generator(seed, "walk"), 20
    T = rows // episodes
    x = torch.zeros(episodes, T + 1, dtype=torch.float64)
    u = torch.randn(episodes, T, generator=rng, dtype=torch.float64)
    for t in range(T):
        draws = torch.randn(episodes, generator=rng, dtype=torch.float64)
        x[:, t + 1] = 0.9 * x[:, t] + u[:, t] + process * draws
    seen = x + sensor * torch.randn(x.shape, generator=rng, dtype=torch.float64)
    return Transitions.from_arrays(
        seen[:, :-1].reshape(-1, 1),
        u.reshape(-1, 1),
        -seen[:, :-1].reshape(-1).square(),
        seen[:, 1:].reshape(-1, 1),
        episodes=torch.arange(episodes).repeat_interleave(T),
    )


def test_sensor_noise_correlates_errors_and_whitening_takes_that_off() -> None:
    data = walk(1_000, sensor=0.3, process=0.05)
    scorer = Scorer(LocalModel(data))
    z = scorer.score((data.states, data.actions, data.rewards, data.next_states)).z
    linked = data.continues.numpy()
    r = scorer.whiten(z, linked)

    def correlation(values: np.ndarray) -> float:
        return float(np.corrcoef(values[1:][linked[1:], 0], values[:-1][linked[1:], 0])[0, 1])

    assert correlation(z) < -0.3
    assert abs(correlation(r)) < 0.12


def test_ranks_of_held_out_errors_are_spread_evenly_and_the_allowance_lowers_them() -> None:
    data = walk(1_000, sensor=0.0, process=0.3)
    scorer = Scorer(LocalModel(data))
    r, none = scorer.reference[:, :1], np.zeros((1_000, 1))
    up, down, size = scorer.ranks(np.repeat(r, len(scorer.columns), axis=1), none)
    assert up[:, 0].mean() == pytest.approx(0.0, abs=1e-12)
    assert np.quantile(up[:, 0], [0.25, 0.75]) == pytest.approx([-0.5, 0.5], abs=2e-3)
    assert size[:, 0].mean() == pytest.approx(0.0, abs=1e-12)
    up, down, size = scorer.ranks(np.repeat(r, len(scorer.columns), axis=1), none + 0.5)
    assert up[:, 0].mean() < -0.2
    assert down[:, 0].mean() > 0.2
    assert size[:, 0].mean() < -0.2


def test_the_allowance_is_three_quarters_of_the_standard_error_and_two_of_the_held_out_mean() -> None:
    data = walk(1_000, sensor=0.0, process=0.3)
    scorer = Scorer(LocalModel(data))
    scores = scorer.score((data.states, data.actions, data.rewards, data.next_states))
    scorer._bias = np.zeros(len(scorer.columns))
    doubtful = scores._replace(doubt=np.full_like(scores.doubt, 0.4))
    assert scorer.allowance(doubtful)[:, 0] == pytest.approx(0.75 * 0.4 + 2 / np.sqrt(1_000))
    very = scores._replace(doubt=np.full_like(scores.doubt, 1e9))
    largest = np.quantile(np.abs(scorer.reference[:, 0]), 0.99)
    assert scorer.allowance(very)[:, 0] == pytest.approx(largest + 2 / np.sqrt(1_000))


def test_a_fault_of_size_one_shows_as_the_model_says() -> None:
    data = walk(1_000, sensor=0.0, process=0.3)
    scorer = Scorer(LocalModel(data))
    scores = scorer.score((data.states, data.actions, data.rewards, data.next_states))
    offset, gain, sensor = scores.shifts[:, 0, 0], scores.shifts[:, 2, 0], scores.shifts[:, 3, 0]
    assert (offset == 1.0).all()
    assert gain * scores.scale[:, 0] == pytest.approx(data.actions[:, 0].numpy(), abs=0.15)  # s′ = .9s + a
    assert sensor * scores.scale[:, 0] == pytest.approx(0.1, abs=0.05)
    assert (scores.shifts[:, 2:, 1] == 0).all()  # the reward is computed from commands and measurements


def test_of_a_long_run_the_last_rows_are_kept_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run, "_MOST_KEPT", 1_000)
    run, count = _run.Rows(), 0
    for more in np.random.default_rng(0).integers(1, 60, 100).tolist():
        step = np.arange(count, count + more)
        run.append(step=step, pair=np.stack([step, -step], axis=1))
        count += more
        assert len(run) == count - run.dropped >= min(count, 470)
        assert run["step"].tolist() == list(range(run.dropped, count))
        assert (run["pair"][:, 1] == -run["step"]).all()
    assert run.dropped > 0
