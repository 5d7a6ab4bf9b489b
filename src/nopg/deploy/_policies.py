"""The policies of `nopg.policies` in numpy, from saved parameters; of a stochastic one the mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nopg._columns import Columns
from nopg._formula_law import FormulaLaw
from nopg.bundles import SavedController
from nopg.deploy._encoding import Numbers, wider_range
from nopg.errors import ArgumentError, BundleError


@dataclass(frozen=True, slots=True)
class LinearPolicy:
    """a = K s, with the gain K (d_a, d_f); its actions have no bounds."""

    gain: Numbers

    action_range = None

    def __call__(self, features: Numbers) -> Numbers:
        """Return actions (m, d_a) at features (m, d_f)."""
        return features @ self.gain.T


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """a = centre + radius·tanh(W₂ relu(W₁ (s − mean)/std + b₁) + b₂)."""

    mean: Numbers  # (d_f,)
    std: Numbers  # (d_f,)
    hidden: tuple[Numbers, Numbers]  # W₁ᵀ (d_f, h) and b₁ (h,)
    output: tuple[Numbers, Numbers]  # W₂ᵀ (h, d_a) and b₂ (d_a,)
    center: Numbers  # (d_a,)
    radius: Numbers  # (d_a,)

    @property
    def action_range(self) -> tuple[Numbers, Numbers]:
        """The lowest and the highest action, both (d_a,)."""
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
class QuantizedPolicy:
    """The nearest level to each action of a network, in the middle the lower one."""

    network: NetworkPolicy
    levels: Numbers  # (d_a, k)
    discrete: Numbers  # (d_a,), 1 or 0

    @property
    def action_range(self) -> tuple[Numbers, Numbers]:
        """The lowest and the highest action, both (d_a,)."""
        low, high = self.network.action_range
        ends = self.levels[:, 0], self.levels[:, -1]
        return _choose(self.discrete, ends[0], low), _choose(self.discrete, ends[1], high)

    def __call__(self, features: Numbers) -> Numbers:
        """Return actions (m, d_a) at features (m, d_f)."""
        actions = self.network(features)
        between = (self.levels[:, 1:] + self.levels[:, :-1]) / 2
        index = (actions[:, :, None] > between).sum(axis=2)
        return _choose(self.discrete, self.levels[np.arange(len(self.levels)), index], actions)


@dataclass(frozen=True, slots=True)
class FormulaPolicy:
    """Formulas of raw state columns and gains, clipped to the limits of the actions."""

    law: FormulaLaw
    gains: Numbers  # (P,)
    action_range: tuple[Numbers, Numbers]  # both (d_a,)

    def __call__(self, features: Numbers) -> Numbers:
        """Return actions (m, d_a) at features (m, d_f)."""
        values = zip(self.law.gains, self.gains, strict=True)
        gains = {name: np.full(len(features), value) for name, value in values}
        actions = np.stack(self.law.actions(self.law.states(features, np.arctan2), gains), axis=1)
        low, high = self.action_range
        clipped: Numbers = np.minimum(np.maximum(actions, low), high)
        return clipped


PlainPolicy = FormulaPolicy | LinearPolicy | NetworkPolicy


@dataclass(frozen=True, slots=True)
class DeviationPolicy:
    """The actions of a policy within a limit around those of another one."""

    base: PlainPolicy
    policy: PlainPolicy
    limit: Numbers  # (d_a,)

    @property
    def action_range(self) -> tuple[Numbers, Numbers] | None:
        """The lowest and the highest action, both (d_a,); None if one of the two has no range."""
        return wider_range(self.base.action_range, self.policy.action_range)

    def __call__(self, features: Numbers) -> Numbers:
        """Return actions (m, d_a) at features (m, d_f)."""
        base = self.base(features)
        moved: Numbers = base + np.minimum(np.maximum(self.policy(features) - base, -self.limit), self.limit)
        return moved


Policy = DeviationPolicy | PlainPolicy | QuantizedPolicy


def policy_of(saved: SavedController) -> Policy:
    """Return the policy of a saved controller; an unknown kind or wrong parameters are refused."""
    parameters = _Parameters(saved)
    policy = _policy(saved, parameters)
    parameters.refuse_the_rest()
    return policy


def _policy(saved: SavedController, parameters: _Parameters) -> Policy:
    kind, mean = str(saved.policy.get("kind")), str(saved.policy.get("mean"))
    if (plain := _plain(saved.columns, saved.policy, parameters)) is not None:
        return plain
    if kind == "quantized":
        return _quantized(parameters)
    if kind == "deviation":
        return _deviation(saved, parameters)
    if kind == "gaussian-mlp":
        parameters.take_deviation("largest_std")
        return _network(parameters, outputs=2)
    if kind == "gaussian" and mean in {"linear", "mlp"}:
        parameters.take_deviation("std")
        return _linear(parameters, "mean.") if mean == "linear" else _network(parameters, "mean.")
    raise parameters.refuse(f"a policy of kind {kind!r} with mean {mean!r} is not known")


class _Parameters:
    """The parameters of a policy, taken one by one with their required shapes."""

    def __init__(self, saved: SavedController) -> None:
        self.features, self.actions = len(saved.columns.features), len(saved.columns.actions)
        self._left, self._place = dict(saved.parameters), saved.place

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self._left:
            raise self.refuse(f"the policy lacks {name}")
        return self._left[name].shape

    def take(self, name: str, *shape: int, positive: bool = False) -> Numbers:
        if self.shape(name) != shape:
            raise self.refuse(f"{name} of the policy has shape {self.shape(name)}, not {shape}")
        value = self._left.pop(name).astype(np.float64)
        if positive and not (value > 0).all():
            raise self.refuse(f"{name} of the policy is not positive")
        return value

    def take_deviation(self, name: str) -> None:
        """Take the parameters that only random draws need."""
        self.take(name, self.actions)
        number = (1,) if self.shape("decay.factor") == (1,) else ()  # a vector in the first bundles
        self.take("decay.factor", *number)

    def refuse_the_rest(self) -> None:
        if self._left:
            raise self.refuse(f"the policy has no place for {min(self._left)}")

    def refuse(self, why: str) -> BundleError:
        return BundleError(f"{self._place}: {why}; save the controller again, or take another copy")


def _quantized(parameters: _Parameters) -> QuantizedPolicy:
    discrete = parameters.take("discrete", parameters.actions)
    shape = parameters.shape("levels")
    levels = parameters.take("levels", parameters.actions, *shape[1:2])
    if levels.shape[1] < 1 or not (np.diff(levels, axis=1) >= 0).all():
        raise parameters.refuse("the levels of the policy are not in rising order")
    return QuantizedPolicy(_network(parameters, "policy."), levels, discrete)


def _plain(
    columns: Columns, description: Mapping[str, Any], parameters: _Parameters, prefix: str = ""
) -> PlainPolicy | None:
    """Return a policy that is not made of others; None for another kind."""
    match description.get("kind"):
        case "linear":
            return _linear(parameters, prefix)
        case "mlp":
            return _network(parameters, prefix)
        case "formula":
            return _formula(columns, description, parameters, prefix)
    return None


def _deviation(saved: SavedController, parameters: _Parameters) -> DeviationPolicy:
    limit = parameters.take("limit", parameters.actions)
    if not (limit >= 0).all():
        raise parameters.refuse("the limit of the deviation is negative")

    def part(name: str) -> PlainPolicy:
        own = saved.policy.get(name)
        found = _plain(saved.columns, own, parameters, f"{name}.") if isinstance(own, Mapping) else None
        if found is None:
            raise parameters.refuse(f"the {name} of the deviation is no linear policy, network or formula")
        return found

    return DeviationPolicy(part("base"), part("policy"), limit)


def _formula(
    columns: Columns, description: Mapping[str, Any], parameters: _Parameters, prefix: str = ""
) -> FormulaPolicy:
    try:
        law = FormulaLaw.read(columns, description)
    except ArgumentError as error:
        raise parameters.refuse(str(error)) from None
    low, high = (parameters.take(f"{prefix}{name}", parameters.actions) for name in ("low", "high"))
    if not (low < high).all():
        raise parameters.refuse("the range of the actions is empty")
    scales = parameters.take(f"{prefix}scales", len(law.gains), positive=True)
    return FormulaPolicy(law, scales * parameters.take(f"{prefix}raw", len(law.gains)), (low, high))


def _choose(discrete: Numbers, level: Numbers, otherwise: Numbers) -> Numbers:
    chosen: Numbers = np.where(discrete != 0, level, otherwise)
    return chosen


def _linear(parameters: _Parameters, prefix: str = "") -> LinearPolicy:
    name, d_a, d_f = f"{prefix}gain", parameters.actions, parameters.features
    if len(parameters.shape(name)) == 1 and d_a == d_f:
        return LinearPolicy(np.diag(parameters.take(name, d_a)))
    return LinearPolicy(parameters.take(name, d_a, d_f))


def _network(parameters: _Parameters, prefix: str = "", *, outputs: int = 1) -> NetworkPolicy:
    """Return the network with `outputs` outputs per action, of which the first block is applied."""
    d_f, d_a = parameters.features, parameters.actions
    h = parameters.shape(f"{prefix}network.hidden.bias")[:1]
    W_1 = parameters.take(f"{prefix}network.hidden.weight", *h, d_f)
    W_2 = parameters.take(f"{prefix}network.output.weight", outputs * d_a, *h)
    policy = NetworkPolicy(
        mean=parameters.take(f"{prefix}network.standardizer.mean", d_f),
        std=parameters.take(f"{prefix}network.standardizer.std", d_f, positive=True),
        hidden=(np.ascontiguousarray(W_1.T), parameters.take(f"{prefix}network.hidden.bias", *h)),
        output=(
            np.ascontiguousarray(W_2[:d_a].T),
            parameters.take(f"{prefix}network.output.bias", outputs * d_a)[:d_a],
        ),
        center=parameters.take(f"{prefix}action_range.center", d_a),
        radius=parameters.take(f"{prefix}action_range.radius", d_a, positive=True),
    )
    low, high = policy.action_range
    if not (low < high).all():  # the radius is below the rounding of the centre
        raise parameters.refuse("the range of the actions is empty")
    return policy
