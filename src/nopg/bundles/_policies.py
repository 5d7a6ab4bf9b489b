"""Policies in numpy, from parameters that are not trusted; of a stochastic policy the mean."""

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
from nopg.bundles._fields import Fields
from nopg.errors import ArgumentError

Numbers = npt.NDArray[np.float64]
Range = tuple[Numbers, Numbers]  # lowest and highest actions, both (d_a,)


@dataclass(frozen=True, slots=True)
class Linear:
    """a = K s, with the gain K (d_a, d_f); its actions have no bounds."""

    gain: Numbers

    action_range = None

    def __call__(self, features: Numbers) -> Numbers:
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
        gains = {name: np.full(len(features), value) for name, value in self.gains.items()}
        actions = np.stack(self.law.actions(self.law.states(features, np.arctan2), gains), axis=1)
        within: Numbers = np.clip(actions, *self.action_range)
        return within

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
        low = np.full(len(columns.actions), math.inf)
        high = -low
        for part in [self.law] if self.base is None else [self.law, self.base[0]]:
            lowest, highest = part.action_range or (-math.inf, math.inf)
            low, high = np.minimum(low, lowest), np.maximum(high, highest)
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
            actions = base + np.clip(actions - base, -limit, limit)
        return actions


def read_only(values: Numbers) -> Numbers:
    """Return a copy that cannot be written to."""
    found = values.copy()
    found.setflags(write=False)
    return found


class Arrays:
    """Arrays that are not trusted, by name; each is taken once."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], what: str) -> None:
        self._left, self._what = dict(arrays), what

    def take(self, name: str, *shape: int, finite: bool = True) -> Numbers:
        """Return numbers of a shape, finite or at least no NaN."""
        value = self._left.pop(name, np.zeros(()))
        if value.shape != shape or not np.issubdtype(value.dtype, np.floating):
            self.require(False, f"{value.dtype} {value.shape} and not numbers {shape} in {name}")
        self.require(
            np.isfinite(value).all() if finite else not np.isnan(value).any(), f"no numbers in {name}"
        )
        return value.astype(np.float64)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array; (0,) where there is none, or a single number."""
        return self._left.get(name, np.zeros(0)).shape or (0,)

    def require(self, fits: object, what: str) -> None:
        if not fits:
            raise ArgumentError(f"the {self._what} has {what}")

    def end(self) -> None:
        self.require(not self._left, f"arrays that are not known: {sorted(self._left)}")


def read_policy(
    described: Mapping[str, Any], parameters: Mapping[str, npt.NDArray[Any]], columns: Columns
) -> Policy:
    """Return the policy of a description; one that is not known or does not fit the columns is refused."""
    if bool(columns.levels) != (described.get("kind") == "quantized"):
        raise ArgumentError(
            f"levels are declared for {list(columns.levels)}, and the policy is {described!r:.80}; one with "
            "levels is 'quantized'"
        )
    arrays, d_a = Arrays(parameters, "policy"), len(columns.actions)
    match described:
        case {"kind": "quantized"}:
            own = [columns.levels.get(name, (0.0,)) for name in columns.actions]
            width = max(map(len, own))
            levels = np.array([(*one, *one[-1:] * (width - len(one))) for one in own])
            discrete = np.array([name in columns.levels for name in columns.actions])
            policy = Policy(_network(arrays, columns, "policy."), (levels, discrete))
        case {"kind": "deviation", "base": base, "policy": law}:
            limit = arrays.take("limit", d_a)
            arrays.require((limit >= 0).all(), "a negative limit of the deviation")
            policy = Policy(
                _law(law, arrays, columns, "policy."), base=(_law(base, arrays, columns, "base."), limit)
            )
        case {"kind": "gaussian-mlp", "num_action_samples": int() | None}:
            arrays.take("largest_std", d_a)
            policy = Policy(_network(arrays, columns, "", outputs=2))
        case {"kind": "gaussian", "mean": str() as mean, "num_action_samples": int() | None}:
            arrays.take("std", d_a)
            policy = Policy(_law({"kind": mean}, arrays, columns, "mean."))
        case _:
            policy = Policy(_law(described, arrays, columns, ""))
    arrays.end()
    return policy


def _law(described: Any, arrays: Arrays, columns: Columns, prefix: str) -> Part:
    d_a, d_f = len(columns.actions), len(columns.features)
    match described:
        case {"kind": "linear"}:
            if d_a == d_f and arrays.shape(f"{prefix}gain") == (d_a,):
                return Linear(np.diag(arrays.take(f"{prefix}gain", d_a)))
            return Linear(arrays.take(f"{prefix}gain", d_a, d_f))
        case {"kind": "mlp"}:
            return _network(arrays, columns, prefix)
        case {"kind": "formula"}:
            fields = Fields(described, "the policy")
            law = FormulaLaw.of(columns, fields.each("formulas", Fields.text), fields.texts("gains"))
            low, high = (arrays.take(f"{prefix}{name}", d_a) for name in ("low", "high"))
            scales, raw = (arrays.take(f"{prefix}{name}", len(law.gains)) for name in ("scales", "raw"))
            arrays.require((low < high).all(), "an empty range of actions")
            arrays.require((scales > 0).all(), "a scale that is not positive")
            return Formulas(law, dict(zip(law.gains, (scales * raw).tolist(), strict=True)), (low, high))
    raise ArgumentError(f"{described!r:.80} is not a known policy")


def _network(arrays: Arrays, columns: Columns, prefix: str, *, outputs: int = 1) -> Network:
    """Return a network; of two outputs per action, mean and deviation, the first is applied."""
    d_a, d_f, of = len(columns.actions), len(columns.features), f"{prefix}network."
    h, out = arrays.shape(f"{of}hidden.bias")[0], outputs * d_a
    W_1, b_1 = arrays.take(f"{of}hidden.weight", h, d_f), arrays.take(f"{of}hidden.bias", h)
    W_2, b_2 = arrays.take(f"{of}output.weight", out, h), arrays.take(f"{of}output.bias", out)
    found = Network(
        mean=arrays.take(f"{of}standardizer.mean", d_f),
        std=arrays.take(f"{of}standardizer.std", d_f),
        hidden=(np.ascontiguousarray(W_1.T), b_1),
        output=(np.ascontiguousarray(W_2[:d_a].T), b_2[:d_a]),
        center=arrays.take(f"{prefix}action_range.center", d_a),
        radius=arrays.take(f"{prefix}action_range.radius", d_a),
    )
    low, high = found.action_range  # equal if the radius is below rounding
    arrays.require((low < high).all(), "an empty range of actions")
    arrays.require((found.std > 0).all(), "a standard deviation that is not positive")
    return found
