"""Warnings about the initial states before training, and what a start outside the data leads to."""

import math
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

import nopg
from flat_settings import configured
from nopg import Bandwidths
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.envs import Pendulum, collect_grid
from nopg.errors import SupportWarning
from nopg.models import LocalModel
from nopg.policies import MLPPolicy, Policy
from nopg.training import Update
from nopg.training._starts import unknown_starts

GRID = Bandwidths.from_values([0.25, 0.25, 0.6], [2.0])
INSIDE, OUTSIDE = [math.pi, 0.0], [math.pi, 30.0]


@cache
def local_model(rows: tuple[int, int, int] = (8, 8, 2)) -> LocalModel:
    return LocalModel(collect_grid(Pendulum(), rows))


def unknown_at(starts: list[list[float]]) -> tuple[torch.Tensor, str | None]:
    return unknown_starts(local_model(), torch.tensor(starts, dtype=torch.float64))


def trained(data: Transitions, start: list[float], **others: object) -> nopg.TrainingResult:
    chosen: dict[str, Any] = {"model": "paper", "updates": 1, **others}
    if chosen["model"] == "paper":
        chosen["bandwidths"] = GRID
    return nopg.optimize(
        data, 0.9, initial_states=[start], **configured(**chosen, start="given", progress=False)
    )


def parameters(policy: Policy) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in policy.parameters() if p.requires_grad])


# Warnings.


def test_a_start_outside_the_data_is_told_once_and_before_the_first_update(
    grid: Transitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    output: list[str] = []

    def hear(update: Update) -> None:
        output.append(f"update {update.number}")

    monkeypatch.setattr(warnings, "showwarning", lambda message, kind, *_: output.append(kind.__name__))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        trained(grid, OUTSIDE, updates=2, callbacks=[hear])
    assert output == ["SupportWarning", "update 1", "update 2"]


def test_the_warning_names_the_columns_the_nearest_logged_state_and_a_way_out(grid: Transitions) -> None:
    with pytest.warns(SupportWarning) as caught:
        trained(grid, OUTSIDE)
    (warning,) = caught
    text = str(warning.message)
    for part in (
        "the initial state lies outside the data",
        "at (angle = 3.14, velocity = 30) there are no data",
        "velocity = 8)",
        "is a guess",
        "Log transitions",
        "initial_states",
    ):
        assert part in text
    # It points to the line of the caller of `optimize`.
    assert warning.filename == __file__


def test_a_start_inside_the_data_is_not_worth_a_word(grid: Transitions) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = trained(grid, INSIDE)
    assert result.start_unknown < 0.01


@pytest.mark.parametrize(("count", "inside"), [(2, 1), (5, 0)])
def test_the_warning_counts_the_starts_outside_and_shows_at_most_three(count: int, inside: int) -> None:
    unknown, text = unknown_at([[0.1 * k, 30.0 + k] for k in range(count)] + [INSIDE] * inside)
    assert (unknown > 0.5).tolist() == [True] * count + [False] * inside
    assert text is not None
    assert text.startswith(f"{count} of {count + inside} initial states lie outside the data: ")
    assert text.count("there are no data") == min(count, 3)
    assert ("…. What" in text) == (count > 3)


def test_the_nearest_logged_angle_is_shown_on_the_turn_of_the_start() -> None:
    data = Transitions.from_arrays(
        [[-3.1, 0.0], [-3.0, 0.1]], [0.0, 1.0], [0.0, 0.0], [[-3.1, 0.1], [-3.0, 0.2]], angles=[0]
    )
    _, text = unknown_starts(LocalModel(data), torch.tensor([[3.1, 9.0]], dtype=torch.float64))
    assert text is not None
    # −3.1 + 2π or −3 + 2π, whichever is nearer.
    assert "(s0 = 3.1" in text
    assert "= 3.2" in text


# What is known.


def test_a_logged_state_is_never_outside_the_data(grid: Transitions) -> None:
    unknown, text = unknown_starts(local_model(), grid.states)
    assert float(unknown.max()) < 0.5
    assert text is None


def test_a_start_is_as_unknown_as_under_the_best_of_the_logged_actions_nearby() -> None:
    model, start = local_model(), torch.tensor([[0.4, 2.5]], dtype=torch.float64)
    rows = model.state_space.embed(model.data.states) - model.state_space.embed(start)
    near = rows.square().sum(dim=1).argsort(stable=True)[:5]
    pairs = torch.cat([start.expand(5, -1), model.data.actions[near]], dim=1)
    assert float(unknown_at(start.tolist())[0]) == pytest.approx(model.support.unknown(pairs).min())


def test_the_unknown_start_is_the_mean_over_the_starts(grid: Transitions) -> None:
    with pytest.warns(SupportWarning, match="1 of 2 initial states"):
        result = nopg.optimize(
            grid,
            0.9,
            model=nopg.PaperModel.Config(bandwidths=GRID),
            initial_states=[INSIDE, OUTSIDE],
            config=nopg.TrainingConfig(updates=1, progress=False),
        )
    known, unknown = result.unknown_starts.tolist()
    assert known < 0.01
    assert unknown > 0.99
    assert result.start_unknown == pytest.approx((known + unknown) / 2)


# What it leads to.


def test_the_answer_from_outside_the_data_is_the_unknown_value_and_says_that_it_is_unknown(
    grid: Transitions,
) -> None:
    with pytest.warns(SupportWarning):
        result = trained(grid, OUTSIDE)
    worst_for_ever = float(grid.rewards.min()) / (1 - 0.9)
    assert result.start_unknown == pytest.approx(1.0, abs=1e-5)
    # A start is known to one part in a million at least, of values of order 100.
    assert result.expected_return == pytest.approx(worst_for_ever, rel=1e-5)
    assert result.unknown_mass == pytest.approx(1.0, abs=1e-5)
    # Rollouts go on; most of each is lost, and the lower end counts that as the worst.
    found = nopg.evaluate_offline(result.policy, grid.starting_at(OUTSIDE), 0.9)
    assert found.unknown_mass > 0.5
    assert found.verdict == "not identifiable"
    assert found.interval[0] < 0.5 * worst_for_ever


def test_a_training_from_outside_the_data_still_moves_the_policy(grid: Transitions) -> None:
    policy = MLPPolicy.from_data(grid.features, grid.actions, rng=generator(0, "policy"))
    before = parameters(policy)
    with pytest.warns(SupportWarning):
        trained(grid, OUTSIDE, policy=policy, updates=10)
    # Ten steps of Adam of 10⁻² each, most of them in one direction.
    assert float((parameters(policy) - before).abs().max()) > 0.05


@pytest.mark.parametrize("start", [INSIDE, OUTSIDE])
@pytest.mark.parametrize("model", [pytest.param("local", marks=pytest.mark.slow), "paper"])
@pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")
def test_the_unit_of_the_rewards_does_not_change_the_policy(
    grid: Transitions, model: str, start: list[float]
) -> None:
    unit = 1e9
    how: dict[str, Any] = {"model": model, "updates": 10, "policy": "deterministic"}
    here = trained(grid, start, **how)
    there = trained(replace(grid, rewards=unit * grid.rewards), start, **how)
    # Ten steps of 10⁻²; each divides gradients whose rounding is 10⁻¹⁴ or so of their norm.
    torch.testing.assert_close(
        parameters(there.policy.policy), parameters(here.policy.policy), rtol=0, atol=1e-9
    )
    assert there.expected_return == pytest.approx(unit * here.expected_return, rel=1e-9)
