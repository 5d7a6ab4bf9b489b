"""The policies of `nopg.policies` in numpy, from saved parameters; of a stochastic one the mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._expressions import Operation
from nopg._formula_law import FormulaLaw
from nopg.bundles import SavedController
from nopg.deploy._embedding import Numbers

Range = tuple[Numbers, Numbers]
"""Lowest and highest actions, both (d_a,)."""


@dataclass(frozen=True, slots=True)
class Linear:
    """a = K s, with the gain K (d_a, d_f); its actions have no bounds."""

    gain: Numbers

    action_range = None

    def __call__(self, features: Numbers) -> Numbers:
        """Return actions (m, d_a) at features (m, d_f)."""
        return features @ self.gain.T


@dataclass(frozen=True, slots=True)
class Network:
    """a = centre + radius·tanh(W₂ relu(W₁ (s − mean)/std + b₁) + b₂)."""

    mean: Numbers  # (d_f,)
    std: Numbers  # (d_f,)
    hidden: tuple[Numbers, Numbers]  # W₁ᵀ (d_f, h) and b₁ (h,)
    output: tuple[Numbers, Numbers]  # W₂ᵀ (h, d_a) and b₂ (d_a,)
    center: Numbers  # (d_a,)
    radius: Numbers  # (d_a,)

    @property
    def action_range(self) -> Range:
        """The lowest and the highest action."""
        with np.errstate(over="ignore"):
            return self.center - self.radius, self.center + self.radius

    def __call__(self, features: Numbers) -> Numbers:
        """Return actions (m, d_a) at features (m, d_f)."""
        W_1, b_1 = self.hidden
        W_2, b_2 = self.output
        units = np.maximum((features - self.mean) / self.std @ W_1 + b_1, 0.0)
        actions: Numbers = self.center + self.radius * np.tanh(units @ W_2 + b_2)
        return actions


@dataclass(frozen=True, slots=True)
class Formulas:
    """Formulas of raw state columns and gains, clipped to the limits of the actions."""

    law: FormulaLaw
    gains: Mapping[str, float]
    action_range: Range

    def __call__(self, features: Numbers) -> Numbers:
        """Return actions (m, d_a) at features (m, d_f)."""
        gains = {name: np.full(len(features), value) for name, value in self.gains.items()}
        actions = np.stack(self.law.actions(self.law.states(features, np.arctan2), gains), axis=1)
        return clipped(actions, *self.action_range)

    def operations(self) -> tuple[list[Operation], list[int]]:
        """Return all formulas as one list, `left` the place of a column, and the places of the actions."""
        found, results, states = dict[Operation, int](), list[int](), self.law.columns.states
        for formula in self.law.formulas:
            places = list[int]()
            for one in formula.operations:
                step = Operation(one.kind, number=one.number)
                if one.name in self.gains:
                    step = Operation("number", number=self.gains[one.name])
                elif one.kind == "column":
                    step = Operation("column", states.index(one.name))
                elif one.kind != "number":
                    step = Operation(one.kind, places[one.left], places[one.right])
                places.append(found.setdefault(step, len(found)))
            results.append(places[-1])
        return [*found], results


Part = Formulas | Linear | Network


@dataclass(frozen=True, slots=True)
class Policy:
    """A law, perhaps with levels, perhaps within a limit around another law.

    Attributes:
        law: Linear, a network or formulas.
        levels: Those of every action in rising order, shape (d_a, k), and which actions have some: these take
            the nearest one, in the middle the lower.
        base: The law from which `law` may deviate, and by how much at most, shape (d_a,).
    """

    law: Part
    levels: tuple[Numbers, npt.NDArray[np.bool_]] | None = None
    base: tuple[Part, Numbers] | None = None

    def limits(self, columns: Columns) -> Range:
        """Return the lowest and highest actions: declared bounds, else the range of the policy, else ∓∞."""
        parts = [self.law] if self.base is None else [self.law, self.base[0]]
        ranges = [part.action_range or (-math.inf, math.inf) for part in parts]
        low = np.full(len(columns.actions), math.inf)
        high = -low
        for one in ranges:
            low, high = np.minimum(low, one[0]), np.maximum(high, one[1])
        if self.levels is not None:
            levels, discrete = self.levels
            low, high = np.where(discrete, levels[:, 0], low), np.where(discrete, levels[:, -1], high)
        for k, name in enumerate(columns.actions):
            if name in columns.bounds:
                low[k], high[k] = columns.bounds[name]
        return read_only(low), read_only(high)

    def __call__(self, features: Numbers) -> Numbers:
        """Return actions (m, d_a) at features (m, d_f)."""
        actions = self.law(features)
        if self.levels is not None:
            levels, discrete = self.levels
            index = (actions[:, :, None] > (levels[:, 1:] + levels[:, :-1]) / 2).sum(axis=2)
            actions = np.where(discrete, levels[np.arange(len(levels)), index], actions)
        if self.base is not None:
            law, limit = self.base
            base = law(features)
            actions = base + clipped(actions - base, -limit, limit)
        return actions


def clipped(values: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """Return values within limits, NaN where they are NaN."""
    found: Numbers = np.minimum(np.maximum(values, low), high)
    return found


def read_only(values: Numbers) -> Numbers:
    """Return a copy that cannot be written to."""
    found = values.copy()
    found.setflags(write=False)
    return found


def policy_of(saved: SavedController) -> Policy:
    """Return the policy of a saved controller."""
    described, parameters, columns = saved.policy, saved.parameters, saved.columns
    match described["kind"]:
        case "quantized":
            own = [columns.levels.get(name, (0.0,)) for name in columns.actions]
            width = max(map(len, own))
            levels = np.array([(*one, *one[-1:] * (width - len(one))) for one in own])
            discrete = np.array([name in columns.levels for name in columns.actions])
            return Policy(_network(parameters, "policy."), (levels, discrete))
        case "deviation":
            base, law = (_part(saved, described[one], f"{one}.") for one in ("base", "policy"))
            return Policy(law, base=(base, parameters["limit"]))
        case "gaussian":
            return Policy(_part(saved, {"kind": described["mean"]}, "mean."))
    return Policy(_part(saved, described, ""))


def _part(saved: SavedController, described: Mapping[str, Any], prefix: str) -> Part:
    parameters, kind = saved.parameters, described["kind"]
    if kind == "linear":
        gain = parameters[f"{prefix}gain"]
        return Linear(np.diag(gain) if gain.ndim == 1 else gain)
    if kind != "formula":
        return _network(parameters, prefix)
    law = FormulaLaw.of(saved.columns, described["formulas"], described["gains"])
    low, high, scales, raw = (parameters[f"{prefix}{name}"] for name in ("low", "high", "scales", "raw"))
    return Formulas(law, dict(zip(law.gains, (scales * raw).tolist(), strict=True)), (low, high))


def _network(parameters: Mapping[str, Numbers], prefix: str) -> Network:
    """Return a network; of two outputs per action, mean and deviation, the first is applied."""
    of, center = f"{prefix}network.", parameters[f"{prefix}action_range.center"]
    d_a = len(center)
    W_1, W_2 = (parameters[f"{of}{layer}.weight"] for layer in ("hidden", "output"))
    return Network(
        mean=parameters[f"{of}standardizer.mean"],
        std=parameters[f"{of}standardizer.std"],
        hidden=(np.ascontiguousarray(W_1.T), parameters[f"{of}hidden.bias"]),
        output=(np.ascontiguousarray(W_2[:d_a].T), parameters[f"{of}output.bias"][:d_a]),
        center=center,
        radius=parameters[f"{prefix}action_range.radius"],
    )
