"""Experiments on the plant, and what they are predicted to tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from nopg._seeding import generator
from nopg._typing import as_tensor
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.evaluation import Assessment, Verdict
from nopg.inspect._wording import count_of, share_of

Bounds = Mapping[str, tuple[float, float]]
"""Lowest and highest value of columns, by name."""

# An experiment with a larger share of rows outside the bounds of the states is ranked below the others.
_OFTEN_OUTSIDE = 0.2


@dataclass(frozen=True, slots=True)
class Box:
    """Lowest and highest values (d,) of columns; `from_log` names those that have the range of the log."""

    low: torch.Tensor
    high: torch.Tensor
    from_log: tuple[str, ...] = ()

    def clip(self, values: torch.Tensor) -> torch.Tensor:
        """Return values (..., d) put within the bounds."""
        return values.clamp(self.low, self.high)

    def contains(self, values: torch.Tensor) -> torch.Tensor:
        """Return which values (..., d) lie within the bounds in all columns."""
        return ((values >= self.low) & (values <= self.high)).all(dim=-1)


def boxes(data: Transitions, given: Bounds | None) -> tuple[Box, Box]:
    """Return the bounds of actions and of states: given ones, else declared ones.

    States without bounds have the range of the log, angles any value; actions without bounds are refused.
    """
    schema = replace(data.schema, bounds={**data.schema.bounds, **(given or {})})
    bounds, unknown = schema.bounds, [name for name in schema.states if name not in schema.bounds]
    none = (-math.inf, math.inf)
    if missing := [name for name in schema.actions if not all(map(math.isfinite, bounds.get(name, none)))]:
        example = ", ".join(f"{name!r}: (lowest, highest)" for name in missing)
        raise ArgumentError(
            f"no finite bounds are known for {', '.join(missing)}, and an experiment must stay within what "
            f"the plant may be given; pass bounds={{{example}}}, or declare them with the log"
        )
    low, high = torch.cat([data.states, data.next_states]).aminmax(dim=0)
    for column, name in enumerate(schema.states):
        if name in bounds or name in schema.angles:
            low[column], high[column] = bounds.get(name, none)
    actions = torch.tensor([bounds[name] for name in schema.actions], dtype=torch.float64)
    states = Box(low, high, tuple(name for name in unknown if name not in schema.angles))
    return Box(*actions.T), states


@dataclass(frozen=True, slots=True)
class Candidate:
    """An experiment before its size is put into units."""

    # What acts beneath the test signal
    base: Literal["today's controller", "the policy", "a constant action"]
    share: float  # Step up or down, as a share of the range of each action
    hold: int = 1  # Number of rows for which a step is held
    # Where episodes begin: in the usual starts of the log, or where the policy's paths are least known
    starts: Literal["usual", "least known"] = "usual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Candidate):
    """An experiment on the plant, and what the policy's evaluation is predicted to be after it.

    Attributes:
        constant: The actions of `a constant action`, by name; else empty.
        sizes: Step of the test signal up or down, by action, in the unit of the action.
        initial_states: States in which its episodes begin, shape (m, d_s).
        steps: Rows of an episode.
        rows: Number of rows.
        interval: Predicted interval of the policy's return after the experiment.
        unknown_mass: Predicted share of the return's weight that then lies outside the data.
        verdict: Predicted verdict.
        outside: Predicted share of rows outside the bounds of the states.
        units: Units of the actions, by name.
        action_box: Bounds of the actions.
    """

    constant: Mapping[str, float]
    sizes: Mapping[str, float]
    initial_states: torch.Tensor
    steps: int
    rows: int
    interval: tuple[float, float]
    unknown_mass: float
    verdict: Verdict
    outside: float
    units: Mapping[str, str]
    action_box: Box

    @property
    def width(self) -> float:
        """Width of the predicted interval."""
        return self.interval[1] - self.interval[0]

    @property
    def too_far(self) -> bool:
        """Whether so many rows are outside the bounds that it is ranked below the others."""
        return self.outside > _OFTEN_OUTSIDE

    def __str__(self) -> str:
        steps = ", ".join(f"±{self._value(name, size)} on {name}" for name, size in self.sizes.items())
        constant = ", ".join(f"{name} at {self._value(name, value)}" for name, value in self.constant.items())
        held = "in every row" if self.hold == 1 else f"held {self.hold} rows"
        episodes = f"{count_of(len(self.initial_states), 'episode')} of {self.steps} rows"
        return f"{constant or self.base}, {steps} {held}, {self.starts} starts, {episodes}"

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
        sizes = torch.tensor([*self.sizes.values()], dtype=torch.float64)
        signal = random_steps(sizes, self.hold, generator(seed, "test signal"))
        level = torch.tensor([*self.constant.values()], dtype=torch.float64)

        def act(states: Any) -> torch.Tensor:
            beneath = level if base is None else as_tensor(base(states))
            return self.action_box.clip(beneath + signal(len(states)))

        return act


@dataclass(frozen=True, slots=True)
class Advice:
    """Experiments, the best first; `str` gives a table.

    Attributes:
        experiments: By predicted verdict, then by the width of the interval times the unknown mass, counted
            from 5 % on. Those that are predicted to leave the bounds of the states often come last.
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
        row = "{:16} {:10} {:8} {:8} {}".format
        lines = [row("verdict", "width", "unknown", "outside", "experiment")]
        low, high = self.today.interval
        now = (self.today.verdict, high - low, self.today.unknown_mass, 0.0, "the log as it is")
        after = ((one.verdict, one.width, one.unknown_mass, one.outside, one) for one in self.experiments)
        for verdict, width, unknown, outside, text in (now, *after):
            shares = (share_of(round(share, 4)) for share in (unknown, outside))
            lines.append(row(verdict, f"{width:.4g}", *shares, str(text)))
        enough = () if self.needed else ("The verdict is ok: no experiment is needed.",)
        return "\n".join([*lines, *enough, *self.notes])


def random_steps(sizes: torch.Tensor, hold: int, rng: torch.Generator) -> Callable[[int], torch.Tensor]:
    """Return steps (m, d_a) up or down for m episodes in each row, drawn anew after some rows.

    Of all signals within ±size these have the largest variance.
    """
    row, steps = 0, sizes[None]

    def signal(episodes: int) -> torch.Tensor:
        nonlocal row, steps
        if row % hold == 0 or len(steps) != episodes:
            up = torch.rand(episodes, len(sizes), generator=rng) < 0.5
            steps = torch.where(up, sizes, -sizes)
        row += 1
        return steps

    return signal
