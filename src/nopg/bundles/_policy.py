"""The policy of a saved controller: its parameters, checked against its description and the columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nopg._columns import Columns
from nopg._formula_law import FormulaLaw
from nopg.bundles._bundle import Array
from nopg.errors import ArgumentError, BundleError


def check_policy(
    description: Mapping[str, Any], parameters: Mapping[str, Array], columns: Columns, place: str
) -> None:
    """Refuse a policy of an unknown kind, and parameters that are missing, too many, or of other shapes."""
    check = _Check(parameters, columns, place)
    check.policy(description)
    if check.left:
        raise check.refuse(f"the policy has no place for {min(check.left)}")


class _Check:
    """The parameters of a policy, taken one by one with their required shapes."""

    def __init__(self, parameters: Mapping[str, Array], columns: Columns, place: str) -> None:
        self.left, self.columns, self.place = dict(parameters), columns, place
        self.d_f, self.d_a = len(columns.features), len(columns.actions)

    def refuse(self, why: str) -> BundleError:
        return BundleError(f"{self.place}: {why}; save the controller again, or take another copy")

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self.left:
            raise self.refuse(f"{name} of the policy is missing")
        return self.left[name].shape

    def take(self, name: str, *shape: int, positive: bool = False) -> Array:
        if self.shape(name) != shape:
            raise self.refuse(f"{name} of the policy has shape {self.shape(name)}, not {shape}")
        value = self.left.pop(name)
        if positive and not (value > 0).all():
            raise self.refuse(f"{name} of the policy is not positive")
        return value

    def policy(self, description: Mapping[str, Any]) -> None:
        match description:
            case {"kind": "quantized"}:
                self.take("discrete", self.d_a)
                levels = self.take("levels", self.d_a, *self.shape("levels")[1:2])
                if levels.shape[1] < 1 or not (np.diff(levels, axis=1) >= 0).all():
                    raise self.refuse("the levels of the policy are not in rising order")
                self.network("policy.")
            case {"kind": "deviation"}:
                if not (self.take("limit", self.d_a) >= 0).all():
                    raise self.refuse("the limit of the deviation is negative")
                for one in ("base", "policy"):
                    self.part(description.get(one), f"{one}.")
            case {"kind": "gaussian-mlp"}:
                self.samples(description)
                self.take("largest_std", self.d_a)
                self.network(outputs=2)
            case {"kind": "gaussian", "mean": "linear" | "mlp" as mean}:
                self.samples(description)
                self.take("std", self.d_a)
                self.part({"kind": mean}, "mean.")
            case _:
                self.part(description, "")

    def part(self, description: Any, prefix: str) -> None:
        match description:
            case {"kind": "linear"}:
                name = f"{prefix}gain"
                is_diagonal = len(self.shape(name)) == 1 and self.d_a == self.d_f
                self.take(name, *((self.d_a,) if is_diagonal else (self.d_a, self.d_f)))
            case {"kind": "mlp"}:
                self.network(prefix)
            case {"kind": "formula"}:
                self.formulas(description, prefix)
            case _:
                raise self.refuse(f"{prefix or 'the policy '}is {description!r:.80}, which is not known")

    def samples(self, description: Mapping[str, Any]) -> None:
        count = description.get("num_action_samples")
        if not (count is None or type(count) is int):
            raise self.refuse(f"num_action_samples is {count!r:.80}, not a whole number")

    def network(self, prefix: str = "", *, outputs: int = 1) -> None:
        """Check a network with `outputs` outputs per action."""
        of, outputs = f"{prefix}network.", outputs * self.d_a
        h = self.shape(f"{of}hidden.bias")[:1]
        self.take(f"{of}hidden.weight", *h, self.d_f)
        self.take(f"{of}hidden.bias", *h)
        self.take(f"{of}output.weight", outputs, *h)
        self.take(f"{of}output.bias", outputs)
        self.take(f"{of}standardizer.mean", self.d_f)
        self.take(f"{of}standardizer.std", self.d_f, positive=True)
        center = self.take(f"{prefix}action_range.center", self.d_a)
        radius = self.take(f"{prefix}action_range.radius", self.d_a, positive=True)
        with np.errstate(over="ignore"):
            self.limits(
                center - radius, center + radius
            )  # empty if the radius is below the centre's rounding

    def formulas(self, description: Mapping[str, Any], prefix: str) -> None:
        try:
            law = FormulaLaw.read(self.columns, description)
            ones = {name: np.ones(1) for name in (*self.columns.states, *law.gains)}
            for formula in law.formulas:  # finds what only an evaluation shows, such as a division by 0
                formula(ones)
        except ArgumentError as error:
            raise self.refuse(str(error)) from None
        self.limits(*(self.take(f"{prefix}{name}", self.d_a) for name in ("low", "high")))
        self.take(f"{prefix}scales", len(law.gains), positive=True)
        self.take(f"{prefix}raw", len(law.gains))

    def limits(self, low: Array, high: Array) -> None:
        if not (low < high).all():
            raise self.refuse("the range of the actions is empty")
