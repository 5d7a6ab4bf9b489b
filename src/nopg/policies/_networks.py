"""The parts of network policies: standardised inputs, a small network, bounded outputs."""

from __future__ import annotations

import math
from typing import Self

import torch

from nopg._typing import ArrayLike, as_tensor
from nopg.errors import ArgumentError

# Position of the kink of a unit that is initialised as an input, in standard deviations below the mean.
_BEND = 5.0


class Standardizer(torch.nn.Module):
    """x ↦ (x − mean)/std per feature, both of shape (d_f,); a constant feature is only centred."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, mean: ArrayLike, std: ArrayLike) -> None:
        super().__init__()
        scale = as_tensor(std)
        self.register_buffer("mean", as_tensor(mean))
        self.register_buffer("std", torch.where(scale > 0, scale, 1.0))

    @classmethod
    def from_data(cls, features: torch.Tensor, weights: torch.Tensor | None = None) -> Self:
        """Return the standardisation of these rows, with weights (n,), one each by default."""
        # The deviation of a constant is not exactly 0 where its mean is rounded.
        constant = features.amin(dim=0) == features.amax(dim=0)
        if weights is None:
            mean, variance = features.mean(dim=0), features.var(dim=0, correction=0)
        else:
            mean = weights @ features / weights.sum()
            variance = weights @ (features - mean).square() / weights.sum()
        return cls(mean, variance.sqrt().masked_fill(constant, 0.0))

    def at(self, features: torch.Tensor) -> torch.Tensor:
        """Return standardised features."""
        return (features - self.mean) / self.std


class ActionRange(torch.nn.Module):
    """u ↦ centre + radius·tanh(u): the paper's a_max·tanh, between lowest and highest actions (d_a,)."""

    center: torch.Tensor
    radius: torch.Tensor

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        super().__init__()
        lowest, highest = as_tensor(low).reshape(-1), as_tensor(high).reshape(-1)
        if lowest.shape != highest.shape or not bool((lowest < highest).all()):
            raise ArgumentError(
                f"actions range from {lowest.tolist()} to {highest.tolist()}; every action needs low < high"
            )
        self.register_buffer("center", (lowest + highest) / 2)
        self.register_buffer("radius", (highest - lowest) / 2)

    def share(self, actions: torch.Tensor) -> torch.Tensor:
        """Return where actions lie in the range, from −1 to 1."""
        return (actions - self.center) / self.radius

    def at(self, raw: torch.Tensor) -> torch.Tensor:
        """Return actions inside the range."""
        return self.center + self.radius * raw.tanh()


class MLP(torch.nn.Module):
    """One hidden layer of ReLU units on standardised inputs, the supplement's network; weights in ±1/√fan-in.

    With `linear` the first units begin as the inputs, far from their kinks: linear laws are near.
    """

    def __init__(
        self,
        standardizer: Standardizer,
        num_outputs: int,
        *,
        hidden: int = 50,
        rng: torch.Generator,
        linear: bool = False,
    ) -> None:
        super().__init__()
        self.standardizer = standardizer
        d = len(standardizer.mean)
        self.hidden = _linear(d, hidden, rng)
        self.output = _linear(hidden, num_outputs, rng)
        if linear and d <= hidden:
            with torch.no_grad():
                self.hidden.weight[:d] = torch.eye(d, dtype=torch.float64)
                self.hidden.bias[:d] = _BEND
                self.output.bias.sub_(_BEND * self.output.weight[:, :d].sum(dim=1))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return outputs (m, num_outputs)."""
        return self.at(self.standardizer.at(features))

    def at(self, standardized: torch.Tensor) -> torch.Tensor:
        """Return outputs (m, num_outputs) at standardised features (m, d_f)."""
        outputs: torch.Tensor = self.output(torch.relu(self.hidden(standardized)))
        return outputs


def _linear(num_inputs: int, num_outputs: int, rng: torch.Generator) -> torch.nn.Linear:
    layer: torch.nn.Linear = torch.nn.utils.skip_init(
        torch.nn.Linear, num_inputs, num_outputs, dtype=torch.float64
    )
    bound = 1 / math.sqrt(num_inputs)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=rng)
    return layer
