"""Experiments with what they are predicted to tell, as values, a table and a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import torch

from nopg._seeding import generator
from nopg._typing import as_tensor
from nopg.advice._box import Box
from nopg.advice._candidates import Base, Starts, TestSignal
from nopg.evaluation import Assessment, Verdict
from nopg.inspect._wording import count_of, share_of
from nopg.report._style import new_figure

_WIDTH = 100
_TODAY, _COLOR, _GRAY = "#a5423b", "#3b6ea5", "0.7"


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment on the plant, and what the policy's evaluation is predicted to be after it.

    Attributes:
        base: What acts beneath the test signal.
        constant: The actions of `a constant action`, by name; else empty.
        sizes: Step of the test signal up or down, by action, in the unit of the action.
        share: The same as a share of the range of every action.
        hold: Number of rows for which a step is held.
        starts: Where episodes begin: in the usual starts of the log, or where the policy's paths are least
            known.
        initial_states: States in which its episodes begin, shape (m, d_s).
        steps: Rows of an episode.
        rows: Number of rows.
        interval: Predicted interval of the policy's return after the experiment.
        unknown_mass: Predicted share of the return's weight that then lies outside the data.
        verdict: Predicted verdict.
        outside: Predicted share of rows outside the bounds of the states.
        too_far: Whether that share is so large that the experiment is ranked below the others.
        units: Units of the actions, by name.
        action_box: Bounds of the actions.
    """

    base: Base
    constant: Mapping[str, float]
    sizes: Mapping[str, float]
    share: float
    hold: int
    starts: Starts
    initial_states: torch.Tensor
    steps: int
    rows: int
    interval: tuple[float, float]
    unknown_mass: float
    verdict: Verdict
    outside: float
    too_far: bool
    units: Mapping[str, str]
    action_box: Box

    @property
    def width(self) -> float:
        """Width of the predicted interval."""
        return self.interval[1] - self.interval[0]

    @property
    def short(self) -> str:
        """The experiment in a few words."""
        held = "every row" if self.hold == 1 else f"held {self.hold} rows"
        base = self.base.removeprefix("the ").removeprefix("a ").removesuffix(" controller")
        return f"{base}, steps ±{100 * self.share:g} %, {held}"

    @property
    def cells(self) -> tuple[str, ...]:
        """Its line of the table."""
        outside = _share(self.outside) if self.outside else ""
        return (
            self.short,
            self.starts,
            f"{self.width:.4g}",
            _share(self.unknown_mass),
            outside,
            self.verdict,
        )

    def __str__(self) -> str:
        steps = ", ".join(f"±{self._value(name, size)} on {name}" for name, size in self.sizes.items())
        constant = ", ".join(f"{name} at {self._value(name, value)}" for name, value in self.constant.items())
        held = "a new one in every row" if self.hold == 1 else f"each held for {self.hold} rows"
        where = "the usual starts" if self.starts == "usual" else "where the policy's paths are least known"
        return (
            f"Run {constant or self.base} with random steps of {steps}, {held}, from {where}: "
            f"{count_of(len(self.initial_states), 'episode')} of {self.steps} rows, {self.rows} rows in all"
        )

    def _value(self, name: str, value: float) -> str:
        return f"{value:.3g} {self.units.get(name, '')}".strip()

    def controller(
        self, base: Callable[[Any], Any] | None = None, *, seed: int = 0
    ) -> Callable[[Any], torch.Tensor]:
        """Return the controller of the experiment, to be called once in every row.

        It returns actions (m, d_a) at raw states (m, d_s), within the bounds.

        Args:
            base: Today's controller or the policy, as a function of raw states; without one `constant`.
            seed: Seed of the test signal.
        """
        signal = TestSignal(
            torch.tensor(list(self.sizes.values()), dtype=torch.float64),
            self.hold,
            generator(seed, "test signal"),
        )
        level = torch.tensor(list(self.constant.values()), dtype=torch.float64)

        def law(states: Any) -> torch.Tensor:
            return level.expand(len(states), -1) if base is None else as_tensor(base(states))

        return lambda states: self.action_box.clip(signal.added_to(law, states))


@dataclass(frozen=True, slots=True)
class Advice:
    """Experiments, the best first; `str` gives a table.

    Attributes:
        experiments: By predicted verdict, then by the width of the interval times the unknown mass, counted
            from 1 % on. Those that are predicted to leave the bounds of the states often come last.
            While the policy is not identifiable, those with today's controller come first.
        today: The evaluation of the policy with the log as it is.
        notes: What limits the advice.
    """

    experiments: tuple[Experiment, ...]
    today: Assessment
    notes: tuple[str, ...]

    @property
    def best(self) -> Experiment:
        """The best experiment."""
        return self.experiments[0]

    @property
    def needed(self) -> bool:
        """Whether the verdict is not yet `ok`."""
        return self.today.verdict != "ok"

    def __str__(self) -> str:
        low, high = self.today.interval
        rows = [
            ("experiment", "starts", "width", "unknown", "outside", "verdict"),
            (
                "the log as it is",
                "",
                f"{high - low:.4g}",
                _share(self.today.unknown_mass),
                "",
                self.today.verdict,
            ),
            *(one.cells for one in self.experiments),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        said = f"Best: {self.best}." if self.needed else "The verdict is ok: no experiment is needed."
        return "\n".join([*table, "", *(line for text in (said, *self.notes) for line in _wrapped(text))])

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw predicted width and unknown mass of all experiments, beside those of the log as it is."""
        low, high = self.today.interval
        shown = self.experiments[::-1]
        figure = new_figure(10.0, 0.3 * len(shown) + 1.2)
        left, right = figure.subplots(1, 2, sharey=True)
        labels = [f"{one.short}, {one.starts} starts" for one in shown]
        colors = [_GRAY if one.too_far else _COLOR for one in shown]
        _bars(left, labels, [one.width for one in shown], colors, high - low)
        _bars(right, labels, [100 * one.unknown_mass for one in shown], colors, 100 * self.today.unknown_mass)
        left.set_xlabel("predicted width of the interval")
        right.set_xlabel("predicted unknown mass, %")
        right.legend(frameon=False)
        figure.suptitle(
            "What the experiments are predicted to tell; gray: often outside the bounds", fontsize=10
        )
        figure.savefig(path, dpi=150)


def _bars(axes: Any, labels: Sequence[str], values: Sequence[float], colors: list[str], now: float) -> None:
    axes.barh(labels, values, color=colors)
    axes.axvline(now, color=_TODAY, linestyle="--", label="the log as it is")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def _share(share: float) -> str:
    return share_of(round(share, 4))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH)
