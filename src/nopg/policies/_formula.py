"""Policies that are formulas of state columns and named gains, as plants run them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch

from nopg._columns import Columns
from nopg._formula_law import FormulaLaw
from nopg._typing import ArrayLike, as_tensor
from nopg.errors import ArgumentError
from nopg.policies._policy import Deterministic


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
