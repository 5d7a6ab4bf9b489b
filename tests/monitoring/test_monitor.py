"""The monitor on a noisy linear plant: verdicts, causes, shadow mode, the page and the command."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import nopg
from monitoring.linear_runs import run_lqr, trained
from nopg.cli._app import app
from nopg.cli._controllers import EXIT_CODES
from nopg.errors import ArgumentError, DataError
from nopg.monitoring import Change, Monitor, Status, write_page
from nopg.monitoring._status import judge, likely_causes
from nopg.training import TrainingResult


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    return trained()


@pytest.fixture(scope="module")
def monitor(result: TrainingResult) -> Monitor:
    return Monitor(result)


def after_change(monitor: Monitor, **fault: float) -> Status:
    monitor.reset()
    monitor.watch(run_lqr(monitor.result.policy, rows=300, seed=1))
    return monitor.watch(run_lqr(monitor.result.policy, rows=200, seed=2, **fault))


def test_an_unchanged_plant_is_kept(monitor: Monitor) -> None:
    monitor.reset()
    status = monitor.watch(run_lqr(monitor.result.policy, rows=3_000, seed=3))
    assert (status.verdict, status.reasons, status.change) == ("ok", (), None)
    assert status.evidence < status.threshold == 200_000
    assert status.return_check is not None
    low, high = status.return_check["interval"]
    assert low < status.return_check["measured"] < high


@pytest.mark.parametrize(
    ("fault", "kind", "column", "size"),
    [
        ({"gain": 0.8}, "gain", "u1", -0.2),
        ({"sensor": 0.3}, "sensor", "x1", 0.3),
        ({"push": 0.05}, "offset", "x1", 0.05),
        ({"noise": 0.08}, "noise", "x1", 4.0),
    ],
)
def test_a_fault_is_found_dated_and_named(
    monitor: Monitor, fault: dict[str, float], kind: str, column: str, size: float
) -> None:
    change = after_change(monitor, **fault).change
    assert change is not None
    assert 300 < change.found <= 500
    assert abs(change.since - 301) <= 20
    assert change.kind == kind
    assert change.column in {column, "x2"} if kind == "noise" else change.column == column
    assert change.size == pytest.approx(size, rel=0.35)


def test_row_by_row_gives_the_same_evidence_as_all_rows_together(monitor: Monitor) -> None:
    data = run_lqr(monitor.result.policy, rows=60, seed=4, push=0.02)
    monitor.reset()
    together = monitor.watch(data)
    evidence = monitor.history()["evidence"]
    monitor.reset()
    for s, a, r, after in zip(data.states, data.actions, data.rewards, data.next_states, strict=True):
        status = monitor.update(s, a, float(r), after)
    assert monitor.history()["evidence"] == pytest.approx(evidence, rel=1e-9)
    assert status.evidence == pytest.approx(together.evidence, rel=1e-9)
    assert status.step == together.step == 60


def test_states_outside_the_log_are_told_from_a_changed_plant(monitor: Monitor) -> None:
    monitor.reset()
    status = monitor.watch(run_lqr(monitor.result.policy, rows=200, seed=5, spread=40.0))
    assert status.change is None
    assert status.verdict != "ok"
    assert any("outside the log" in reason for reason in status.reasons)


def test_another_controller_is_recognised_and_compared(monitor: Monitor) -> None:
    monitor.reset()
    old = run_lqr(lambda s: -0.9 * monitor.result.policy(s) - 6 * s, rows=200, seed=6)
    status = monitor.watch(old)
    assert monitor.shadow
    assert status.shadow is not None
    assert set(status.shadow["difference"]) == {"u1", "u2"}
    assert min(status.shadow["difference"].values()) > 0
    gamma, rewards = 0.9, old.rewards.numpy().reshape(-1, 20)  # an episode has 20 steps
    measured = (rewards @ gamma ** np.arange(20)).mean()
    assert status.shadow["measured"] == pytest.approx(measured)
    assert status.shadow["predicted"] > measured
    assert (status.return_check, status.change) == (None, None)
    monitor.reset()
    assert monitor.watch(run_lqr(monitor.result.policy, rows=60, seed=6)).shadow is None


def test_a_change_is_found_in_shadow_too_and_asks_to_retrain(result: TrainingResult) -> None:
    monitor = Monitor(result, shadow=True)
    status = monitor.watch(run_lqr(lambda s: -5 * s, rows=200, seed=7, push=0.1))
    assert status.change is not None
    assert status.verdict == "retrain"


def test_what_cannot_be_a_row_is_refused(monitor: Monitor, result: TrainingResult) -> None:
    with pytest.raises(DataError, match="leave out rows of failed sensors"):
        monitor.update([math.nan, 0.0], [0.0, 0.0], 0.0, [0.0, 0.0])
    with pytest.raises(DataError, match="2 states, 2 actions"):
        monitor.update([0.0], [0.0, 0.0], 0.0, [0.0, 0.0])
    zero = [[0.0, 0.0]]
    with pytest.raises(DataError, match="the states of the run are"):
        monitor.watch(nopg.Transitions.from_arrays(zero, zero, [0.0], zero))
    with pytest.raises(ArgumentError, match="false_alarms is 0"):
        Monitor(result, false_alarms=0.0)
    with pytest.raises(ArgumentError, match="horizon is 0"):
        Monitor(result, horizon=0)


CHANGE = Change("gain", "valve", -0.2, since=100, found=120)
GOOD, BAD = ({"measured": measured, "interval": (-2.0, 0.0)} for measured in (-1.5, -2.5))


def test_the_verdict_follows_from_change_operating_region_and_return() -> None:
    here, edge, away = ({"outside": share, "expected": None} for share in (0.1, 0.21, 0.51))
    assert judge((), here, GOOD, shadow=False)[0] == "ok"
    assert judge((), edge, GOOD, shadow=False)[0] == "check"
    assert judge((), here, BAD, shadow=False)[0] == "check"
    assert judge((), away, GOOD, shadow=False)[0] == "retrain"
    assert judge((), away, BAD, shadow=False)[0] == "revert"
    assert judge((CHANGE,), here, GOOD, shadow=False)[0] == "retrain"
    assert judge((CHANGE,), here, BAD, shadow=False)[0] == "revert"
    assert judge((CHANGE,), here, BAD, shadow=True)[0] == "retrain"
    verdict, reasons = judge((CHANGE,), None, None, shadow=False)
    assert verdict == "check"
    assert "valve acts 20 % weaker than in the log" in reasons[0]
    assert "not known yet" in reasons[1]


def test_a_change_reads_as_an_engineer_would_say_it() -> None:
    words = [
        Change("sensor", "level", -0.5, 1, 2, unit="cm").words,
        Change("offset", "level", 0.5, 1, 2).words,
        Change("noise", "level", 2.0, 1, 2).words,
        Change("gain", "valve", -1.5, 1, 2).words,
    ]
    assert words == [
        "level is measured 0.5 cm too low",
        "level comes out 0.5 higher after each step than predicted",
        "level scatters 2 times as much around its prediction as in the log",
        "valve acts the other way round",
    ]


def causes_of(z: np.ndarray) -> Change:
    shifts = np.concatenate([np.broadcast_to(np.eye(2), (len(z), 2, 2)), np.zeros((len(z), 2, 2))], axis=1)
    one = np.ones(2)
    schema = nopg.Schema(("level",), ("valve",))
    scorer: Any = SimpleNamespace(usual=one, typical=0.6745 * one, names=("level", "reward"))
    return likely_causes((z, shifts, np.ones_like(z)), scorer, schema, (1, 2))[0]


def test_a_few_wild_rows_of_one_column_do_not_hide_the_offset_of_another() -> None:
    z = np.random.default_rng(0).standard_normal((200, 2)) + np.array([1.0, 0.0])
    z[::20, 1] *= 30.0
    change = causes_of(z)
    assert (change.kind, change.column) == ("offset", "level")
    assert change.size == pytest.approx(1.0, abs=0.2)


def test_errors_that_grow_without_a_direction_are_noise() -> None:
    change = causes_of(np.random.default_rng(0).standard_normal((200, 2)) * np.array([3.0, 1.0]))
    assert (change.kind, change.column) == ("noise", "level")
    assert change.size == pytest.approx(3.0, rel=0.2)


def write_csv(path: Path, data: nopg.Transitions) -> Path:
    columns = torch.cat([data.states, data.actions, data.rewards[:, None], data.next_states], dim=1)
    assert data.episodes is not None
    table = np.column_stack([columns.numpy(), data.episodes.numpy()])
    head = "x1,x2,u1,u2,reward,next_x1,next_x2,episode"
    np.savetxt(path, table, delimiter=",", header=head, comments="", fmt="%.17g")
    return path


def test_the_command_ends_with_the_code_of_its_verdict(result: TrainingResult, tmp_path: Path) -> None:
    saved = result.save(tmp_path / "saved")
    options = ["--episode", "episode"]
    for name, fault, verdicts in (("good", {}, {"ok"}), ("bad", {"gain": 0.5}, {"revert", "retrain"})):
        data = run_lqr(result.policy, rows=200, seed=8, **fault)
        page = tmp_path / f"{name}.html"
        given = ["monitor", str(saved), str(write_csv(tmp_path / f"{name}.csv", data)), *options]
        done = CliRunner().invoke(app, [*given, "--html", str(page), *(["--json"] if fault else [])])
        verdict = json.loads(done.stdout)["verdict"] if fault else done.stdout.split()[1]
        assert verdict in verdicts, done.output
        assert done.exit_code == EXIT_CODES[verdict]
        text = page.read_text(encoding="utf-8")
        assert text.count("<figure>") == 1
        assert ("acts 50 % weaker" in text) == (name == "bad")


def test_a_page_is_not_overwritten_and_needs_rows(monitor: Monitor, tmp_path: Path) -> None:
    monitor.reset()
    with pytest.raises(ArgumentError, match="no rows"):
        write_page(monitor, tmp_path / "run.html")
    monitor.watch(run_lqr(monitor.result.policy, rows=60, seed=9))
    page = write_page(monitor, tmp_path / "run.html")
    with pytest.raises(ArgumentError, match="exists already"):
        write_page(monitor, page)
    with pytest.raises(ArgumentError, match=r"\.html"):
        write_page(monitor, tmp_path / "run.pdf")
    before = page.read_bytes()
    with (
        patch("nopg._files.os.fsync", side_effect=OSError("no space")),
        pytest.raises(OSError, match="no space"),
    ):
        write_page(monitor, page, overwrite=True)
    assert page.read_bytes() == before
