"""Controllers as plants run them: formulas of state columns and named gains; P, PI, PID, state feedback."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

import torch

from nopg._columns import Columns
from nopg._expressions import Expression, quoted
from nopg._formula_law import FormulaLaw
from nopg._typing import ArrayLike, as_tensor
from nopg.errors import ArgumentError
from nopg.policies._policy import Deterministic

Kind = Literal["p", "pi", "pid", "linear"]

_LAG = re.compile(r"(.+)_lag(\d+)")


class FormulaPolicy(Deterministic):
    """One formula for each action, of raw state columns and named gains, clipped to the limits of the action.

    A gain is its scale times a parameter of the training. With the scale of `from_data`, a step of 1 in any
    of these moves the actions by about their logged radius.

    Args:
        columns: Names of states and actions, and which states are angles.
        formulas: One for each action, by name.
        gains: Values of the gains, by name.
        limits: Lowest and highest actions, both (d_a,).
        scales: Of the gains, shape (P,); 1 by default.

    Attributes:
        law: The formulas.

    Example:
        >>> columns = Columns(("level", "setpoint"), ("valve",))
        >>> law = {"valve": "bias + kp * (setpoint - level)"}
        >>> policy = FormulaPolicy(columns, law, {"bias": 0.5, "kp": 2.0}, ([0.0], [1.0]))
        >>> policy.mode(torch.tensor([[1.0, 1.1], [1.0, 2.0]]).double()).detach().round(decimals=6)
        tensor([[0.7000],
                [1.0000]], dtype=torch.float64)
    """

    scales: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor

    def __init__(
        self,
        columns: Columns,
        formulas: Mapping[str, str],
        gains: Mapping[str, float],
        limits: tuple[ArrayLike, ArrayLike],
        *,
        scales: ArrayLike | None = None,
    ) -> None:
        super().__init__()
        self.law, self.num_actions = FormulaLaw.of(columns, formulas, tuple(gains)), len(columns.actions)
        low, high = (as_tensor(end).reshape(-1).clone() for end in limits)
        if not len(low) == len(high) == self.num_actions or not bool((low < high).all()):
            raise ArgumentError(
                f"the limits of the actions are {low.tolist()} and {high.tolist()}; give {self.num_actions} "
                "of each, every lowest one below its highest one"
            )
        values = torch.tensor(list(gains.values()), dtype=torch.float64)
        scale = torch.ones_like(values) if scales is None else as_tensor(scales).clone()
        if not bool(values.isfinite().all()):
            raise ArgumentError(f"the gains are {dict(gains)}; give finite numbers")
        self.register_buffer("scales", scale)
        self.register_buffer("low", low)
        self.register_buffer("high", high)
        self.raw = torch.nn.Parameter(values / scale)

    @classmethod
    def from_data(
        cls,
        columns: Columns,
        formulas: Mapping[str, str],
        gains: Mapping[str, float],
        *,
        features: torch.Tensor,
        actions: torch.Tensor,
    ) -> Self:
        """Return the policy within the range of logged actions (n, d_a), as networks are, with scaled gains.

        Features of the logged states are (n, d_f); the gains are their first values.
        """
        limits = actions.amin(dim=0), actions.amax(dim=0)
        policy = cls(columns, formulas, gains, limits)
        radius = (limits[1] - limits[0]) / 2
        scales = torch.ones(len(gains), dtype=torch.float64)
        for values in (policy.raw.detach(), torch.ones_like(policy.raw)):  # a gain of 0 may hide another
            moves = (policy.slopes(features, values) / radius[:, None]).square().mean(dim=0)
            rms = moves.sum(dim=0).sqrt()
            known = rms.isfinite() & (rms > 0) & (scales == 1.0)
            scales = torch.where(known, 1.0 / torch.where(known, rms, 1.0), scales)
        return cls(columns, formulas, gains, limits, scales=scales)

    @property
    def gains(self) -> dict[str, float]:
        """The values of the gains by name, in the units of the plant."""
        return dict(zip(self.law.gains, (self.raw.detach() * self.scales).tolist(), strict=True))

    def set_gains(self, **gains: float) -> None:
        """Change some gains, in the units of the plant."""
        if unknown := [name for name in gains if name not in self.law.gains]:
            raise ArgumentError(f"there is no gain {unknown[0]!r}; the gains are {list(self.law.gains)}")
        with torch.no_grad():
            for name, value in gains.items():
                k = self.law.gains.index(name)
                self.raw[k] = value / self.scales[k]

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the actions (m, d_a)."""
        return torch.minimum(torch.maximum(self.asked(features, self.raw), self.low), self.high)

    def asked(self, features: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
        """Return actions (m, d_a) before they are clipped, with parameters (P,), or (m, P) of every row."""
        states, values = self.law.states(features, torch.atan2), raw * self.scales
        one = next(iter(states.values()))
        # Expanded, since a formula takes a number alone for one of its constants.
        gains = {name: values[..., k].expand_as(one) for k, name in enumerate(self.law.gains)}
        return torch.stack(self.law.actions(states, gains), dim=1)

    def slopes(self, features: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
        """Return the derivatives (m, d_a, P) of the actions before they are clipped by parameters (P,)."""
        with torch.enable_grad():
            rows = raw.detach().expand(len(features), -1).clone().requires_grad_()  # each row has its own
            parts = [
                torch.autograd.grad(one.sum(), rows, retain_graph=True, materialize_grads=True)[0]
                if one.requires_grad
                else torch.zeros_like(rows)
                for one in self.asked(features, rows).unbind(dim=1)
            ]
        return torch.stack(parts, dim=1)


@dataclass(frozen=True, slots=True)
class Formulas:
    """A controller of a user's own: a formula for each action.

    Attributes:
        actions: Formulas of state columns and gains, by name of the action, as in `Transitions.with_reward`.
            `valve_lag1` is the action before, as it was applied, `level_lag2` the level two rows before.
        gains: First values of the gains, by name, in the units of the plant.
        columns: Further columns with a memory, by name: their value at a start, and their next value; see
            `Transitions.derive`.
    """

    actions: Mapping[str, str]
    gains: Mapping[str, float]
    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def lags(self, columns: Columns) -> dict[str, int]:
        """Return the number of earlier values of each column that the formulas name."""
        found: dict[str, int] = {}
        known = (*columns.measured, *columns.actions)
        for action, text in self.actions.items():
            for name in Expression(text, f"the formula of {action!r}").names:
                lag = _LAG.fullmatch(name)
                if lag and lag[1] in known:
                    found[lag[1]] = max(int(lag[2]), found.get(lag[1], 0))
        return found


@dataclass(frozen=True, slots=True)
class ControlStructure:
    """A controller as plants have it, whose gains are trained.

    With the error e = set point − output:

    - "p": bias + kp·e;
    - "pi": last action + kp·(change of e) + ki·e·Δt; this velocity form adds to the action as it was applied,
      so it cannot wind up at a limit, and an operator's action is where it continues;
    - "pid": the same − kd·(change of the change of the output)/Δt;
    - "linear": offset + Σ k·(column − its mean), over all state columns.

    Δt is the sampling interval in seconds, or 1 where it is not known. At a start the set point before counts
    as the output, as after a step from rest.

    Attributes:
        kind: The structure.
        follows: The set point of each controlled column, by name: a column or a number. One for each action,
            in the order of the actions. Where it is empty, the only column that an action may move follows
            the only exogenous one.

    Example:
        >>> columns = Columns(("level", "setpoint"), ("valve",), exogenous={"setpoint": "log"}, interval=5.0)
        >>> ControlStructure("p").formulas(columns, {}).actions["valve"]
        'bias + kp * (setpoint - level)'
        >>> ControlStructure("pi").formulas(columns, {}).columns
        {'level_target_lag1': ('level', 'setpoint')}
    """

    kind: Kind
    follows: Mapping[str, str | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ArgumentError(f"there is no structure {self.kind!r}; choose one of {list(get_args(Kind))}")

    def formulas(self, columns: Columns, means: Mapping[str, float]) -> Formulas:
        """Return the controller as formulas, with all gains 0; "linear" needs the means of the columns."""
        gains: dict[str, float] = {}

        def gain(name: str, action: str) -> str:
            gains[own := gain_name(name, action, columns)] = 0.0
            return own

        actions: dict[str, str] = {}
        memory: dict[str, tuple[str, str]] = {}
        if self.kind == "linear":
            for action in columns.actions:
                terms = [
                    f"{gain(f'k_{name}', action)} * ({quoted(name)} - {means[name]:.6g})".replace("- -", "+ ")
                    for name in columns.measured
                ]
                actions[action] = " + ".join([gain("offset", action), *terms])
            return Formulas(actions, gains)
        h = 1.0 if columns.interval is None else columns.interval
        for action, (output, follows) in self.loops(columns).items():
            y, y1, y2 = (quoted(name) for name in (output, f"{output}_lag1", f"{output}_lag2"))
            target = quoted(follows) if isinstance(follows, str) else repr(float(follows))
            error = f"{target} - {y}"
            if self.kind == "p":
                actions[action] = f"{gain('bias', action)} + {gain('kp', action)} * ({error})"
                continue
            before = f"{output}_target_lag1"
            memory[before] = (y, target)
            law = f"{quoted(f'{action}_lag1')} + {gain('kp', action)} * ({error} - ({quoted(before)} - {y1}))"
            law += f" + {gain('ki', action)} * {h!r} * ({error})"
            if self.kind == "pid":
                law += f" - {gain('kd', action)} / {h!r} * ({y} - 2 * {y1} + {y2})"
            actions[action] = law
        return Formulas(actions, gains, memory)

    def loops(self, columns: Columns) -> dict[str, tuple[str, str | float]]:
        """Return the controlled column and its set point, by action."""
        follows = dict(self.follows) or self._only_pair(columns)
        for name in (*follows, *(one for one in follows.values() if isinstance(one, str))):
            if name not in columns.measured:
                raise ArgumentError(
                    f"the controller names {name!r}, and the measured columns are {list(columns.measured)}"
                )
        if self.kind != "p" and (turning := [one for one in follows if one in columns.angles]):
            raise ArgumentError(
                f"{turning[0]!r} is an angle, whose error jumps after half a turn; give 'p', or "
                "Formulas with sin and cos"
            )
        if len(follows) != len(columns.actions):
            raise ArgumentError(
                f"{list(follows)} follow set points, and the actions are {list(columns.actions)}; give one "
                "column for each action, in the order of the actions"
            )
        return dict(zip(columns.actions, follows.items(), strict=True))

    def _only_pair(self, columns: Columns) -> dict[str, str]:
        moved = [name for name in columns.measured if name not in columns.exogenous]
        if len(moved) == len(columns.exogenous) == 1:
            return {moved[0]: next(iter(columns.exogenous))}
        known = (
            f"{', '.join(moved) or 'none'} may be moved, {', '.join(columns.exogenous) or 'none'} exogenous"
        )
        raise ArgumentError(
            f"say which column follows which set point, such as ControlStructure({self.kind!r}, "
            f"follows={{'level': 'setpoint'}}) or --set follows.level=setpoint; of the columns {known}"
        )


def gain_name(name: str, action: str, columns: Columns) -> str:
    """Return the name of a gain, with that of its action where there are several."""
    return re.sub(r"\W", "_", f"{name}_{action}" if len(columns.actions) > 1 else name)
