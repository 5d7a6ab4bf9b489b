import io
from types import SimpleNamespace
from typing import Any, cast

import pytest

from models.test_memory import run
from nopg.errors import SupportWarning
from nopg.evaluation import Gain
from nopg.policies import LinearPolicy
from nopg.training import TrainingConfig, Update, optimize
from nopg.training._judge import Judgement, doubts_of
from nopg.training._reports import ProgressLine, on_plateau


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def update(number: int, J: float = -10.0, planned: int = 4) -> Update:
    return Update(
        number=number, planned=planned, expected_return=J, gradient_norm=0.5, unknown_mass=0.01, products=7
    )


def test_the_bar_is_silent_where_the_stream_is_not_a_terminal() -> None:
    stream = io.StringIO()
    bar = ProgressLine(stream, interval=0.0)
    for number in range(1, 5):
        bar(update(number))
    bar.close()
    assert stream.getvalue() == ""


def test_the_bar_shows_return_gradient_unknown_mass_and_time_left() -> None:
    text = ProgressLine(Terminal()).text(update(1), seconds=30.0)
    assert text == "1/4  Ĵ -10  ‖∇‖ 5.0e-01  unknown 1.00%  1:30 left"


def test_a_note_is_a_line_of_its_own_on_a_terminal_and_nothing_elsewhere() -> None:
    terminal, log = Terminal(), io.StringIO()
    for stream in (terminal, log):
        ProgressLine(stream).note("held-out R² angle 0.99")
    assert terminal.getvalue() == "\r\x1b[Kheld-out R² angle 0.99\n"
    assert log.getvalue() == ""


@pytest.mark.parametrize(
    ("returns", "ends"),
    [
        ([-10.0] * 99, False),
        ([-10.0] * 100, True),
        ([-10.0, *[-5.0] * 100], False),
        ([-10.0, *[-5.0] * 101], True),
        (
            [-10.0, *[-5.0] * 50, -4.996, *[-4.996] * 51],
            True,
        ),  # a rise of less than a thousandth of the range
        ([-10.0, *[-5.0] * 50, -4.994, *[-4.994] * 51], False),
        ([-10.0 + k for k in range(200)], False),
    ],
)
def test_a_plateau_is_a_hundred_updates_without_a_rise(returns: list[float], ends: bool) -> None:
    assert on_plateau([update(k + 1, J) for k, J in enumerate(returns)]) is ends


@pytest.mark.parametrize(("low", "doubted"), [(-0.1, True), (0.1, False)])
def test_a_controller_is_doubted_where_its_gain_over_the_log_may_be_none(low: float, doubted: bool) -> None:
    found = SimpleNamespace(verdict="ok", gain_over=lambda _: Gain(1.0, (low, 2.0)))
    assert bool(doubts_of(Judgement(cast(Any, None), cast(Any, found), cast(Any, None)))) == doubted


@pytest.mark.parametrize(("better", "named"), [(0.009, False), (0.011, True)])
def test_a_regulator_is_named_where_its_return_is_higher_by_a_visible_part(
    better: float, named: bool
) -> None:
    common = {"verdict": "ok", "unknown_mass": 0.0, "gain_over": lambda _: Gain(1.0, (0.5, 2.0))}
    mine = SimpleNamespace(expected_return=-1.0, interval=(-1.5, -0.5), least_gain=1e-5, **common)
    rival = SimpleNamespace(expected_return=-1.0 + better, interval=(-1.5, -0.5), **common)
    judged = Judgement(cast(Any, None), cast(Any, mine), cast(Any, None), rival=cast(Any, rival))
    assert any("LQR may do better" in doubt for doubt in doubts_of(judged)) == named


def test_doubts_of_the_log_are_said_before_the_first_update(monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()
    monkeypatch.setattr(ProgressLine, "note", lambda _, text: said.append(text))
    config = TrainingConfig(start="given", updates=1, callbacks=[lambda one: said.append(str(one.number))])
    with pytest.warns(SupportWarning):
        optimize(run(delay=1), 0.5, policy=LinearPolicy([[-0.5]]), initial_states=[[0.0]], config=config)
    doubts = said[: said.index("1")]
    assert doubts[0].startswith("fitting the model")
    assert any(one.startswith("no verdict will be ok: level depends on more than the row") for one in doubts)
