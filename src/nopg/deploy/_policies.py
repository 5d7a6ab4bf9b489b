"""The policies of `nopg.policies` in numpy, from saved parameters; of a stochastic one the mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg._columns import Columns
from nopg._formula_law import FormulaLaw
from nopg.bundles import SavedController
from nopg.deploy._embedding import Numbers
from nopg.errors import ArgumentError, BundleError

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

    @property
    def action_range(self) -> Range | None:
        """The lowest and the highest action; None if they have no limits."""
        own = self.law.action_range
        if self.levels is not None and own is not None:
            levels, discrete = self.levels
            return np.where(discrete, levels[:, 0], own[0]), np.where(discrete, levels[:, -1], own[1])
        if self.base is None or own is None:
            return own
        other = self.base[0].action_range
        return None if other is None else (np.minimum(own[0], other[0]), np.maximum(own[1], other[1]))

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


def action_limits(columns: Columns, policy: Policy) -> Range:
    """Return the lowest and highest actions: declared bounds, else the range of the policy, else ∓∞."""
    free = np.full((2, len(columns.actions)), [[-math.inf], [math.inf]])
    low, high = (np.array(end) for end in policy.action_range or free)
    for k, name in enumerate(columns.actions):
        if name in columns.bounds:
            low[k], high[k] = columns.bounds[name]
    return low, high


def policy_of(saved: SavedController) -> Policy:
    """Return the policy of a saved controller; an unknown kind or wrong parameters are refused."""
    reader = _Reader(saved)
    policy = reader.policy(saved.policy)
    if reader.left:
        raise reader.refuse(f"the policy has no place for {min(reader.left)}")
    return policy


class _Reader:
    """The parameters of a policy, taken one by one with their required shapes."""

    def __init__(self, saved: SavedController) -> None:
        self.columns, self.place, self.left = saved.columns, saved.place, dict(saved.parameters)
        self.d_f, self.d_a = len(saved.columns.features), len(saved.columns.actions)

    def refuse(self, why: str) -> BundleError:
        return BundleError(f"{self.place}: {why}; save the controller again, or take another copy")

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self.left:
            raise self.refuse(f"{name} of the policy is missing")
        return self.left[name].shape

    def take(self, name: str, *shape: int, positive: bool = False) -> Numbers:
        if self.shape(name) != shape:
            raise self.refuse(f"{name} of the policy has shape {self.shape(name)}, not {shape}")
        value = self.left.pop(name).astype(np.float64)
        if positive and not (value > 0).all():
            raise self.refuse(f"{name} of the policy is not positive")
        return value

    def policy(self, description: Mapping[str, Any]) -> Policy:
        match description:
            case {"kind": "quantized"}:
                return self.quantized()
            case {"kind": "deviation"}:
                limit = self.take("limit", self.d_a)
                if not (limit >= 0).all():
                    raise self.refuse("the limit of the deviation is negative")
                base, own = (self.part(description.get(one), f"{one}.") for one in ("base", "policy"))
                return Policy(own, base=(base, limit))
            case {"kind": "gaussian-mlp"}:
                self.drop_noise("largest_std")
                return Policy(self.network(outputs=2))
            case {"kind": "gaussian", "mean": "linear" | "mlp" as mean}:
                self.drop_noise("std")
                return Policy(self.part({"kind": mean}, "mean."))
        return Policy(self.part(description))

    def part(self, description: Any, prefix: str = "") -> Part:
        match description:
            case {"kind": "linear"}:
                return self.linear(prefix)
            case {"kind": "mlp"}:
                return self.network(prefix)
            case {"kind": "formula"}:
                return self.formulas(description, prefix)
        raise self.refuse(f"{prefix or 'the policy '}is {description!r:.80}, which is not known")

    def drop_noise(self, name: str) -> None:
        """Take the parameters that only random draws need."""
        self.take(name, self.d_a)
        shape = self.shape("decay.factor")
        self.take("decay.factor", *(shape if shape == (1,) else ()))  # torch reads either

    def quantized(self) -> Policy:
        discrete = self.take("discrete", self.d_a) != 0
        levels = self.take("levels", self.d_a, *self.shape("levels")[1:2])
        if levels.shape[1] < 1 or not (np.diff(levels, axis=1) >= 0).all():
            raise self.refuse("the levels of the policy are not in rising order")
        return Policy(self.network("policy."), (levels, discrete))

    def linear(self, prefix: str) -> Linear:
        name = f"{prefix}gain"
        if len(self.shape(name)) == 1 and self.d_a == self.d_f:
            return Linear(np.diag(self.take(name, self.d_a)))
        return Linear(self.take(name, self.d_a, self.d_f))

    def network(self, prefix: str = "", *, outputs: int = 1) -> Network:
        """Return the network with `outputs` outputs per action, of which the first block is applied."""
        d_f, d_a, of = self.d_f, self.d_a, f"{prefix}network."
        h = self.shape(f"{of}hidden.bias")[:1]
        W_1, W_2 = (
            self.take(f"{of}hidden.weight", *h, d_f),
            self.take(f"{of}output.weight", outputs * d_a, *h),
        )
        network = Network(
            mean=self.take(f"{of}standardizer.mean", d_f),
            std=self.take(f"{of}standardizer.std", d_f, positive=True),
            hidden=(np.ascontiguousarray(W_1.T), self.take(f"{of}hidden.bias", *h)),
            output=(np.ascontiguousarray(W_2[:d_a].T), self.take(f"{of}output.bias", outputs * d_a)[:d_a]),
            center=self.take(f"{prefix}action_range.center", d_a),
            radius=self.take(f"{prefix}action_range.radius", d_a, positive=True),
        )
        self.check_range(network.action_range)  # empty if the radius is below the rounding of the centre
        return network

    def formulas(self, description: Mapping[str, Any], prefix: str) -> Formulas:
        try:
            law = FormulaLaw.read(self.columns, description)
            ones = {name: np.ones(1) for name in (*self.columns.states, *law.gains)}
            for formula in law.formulas:  # finds what only an evaluation shows, such as a division by 0
                formula(ones)
        except ArgumentError as error:
            raise self.refuse(str(error)) from None
        low, high = (self.take(f"{prefix}{name}", self.d_a) for name in ("low", "high"))
        self.check_range((low, high))
        scales = self.take(f"{prefix}scales", len(law.gains), positive=True)
        gains = scales * self.take(f"{prefix}raw", len(law.gains))
        return Formulas(law, dict(zip(law.gains, gains.tolist(), strict=True)), (low, high))

    def check_range(self, ends: Range) -> None:
        if not (ends[0] < ends[1]).all():
            raise self.refuse("the range of the actions is empty")
