"""The Gaussian product kernel, in log space."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from nopg.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class GaussianKernel:
    """k(x, y) = exp(−½ Σₖ (xₖ − yₖ)²/hₖ²), of peak 1; its constant cancels or is absorbed in β.

    Attributes:
        bandwidth: h, in the units of the columns, positive, shape (d,).

    Example:
        >>> import torch
        >>> kernel = GaussianKernel(torch.tensor([1.0, 2.0]))
        >>> kernel.log(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0]))
        tensor(-1.)
    """

    bandwidth: Tensor

    def __post_init__(self) -> None:
        h = self.bandwidth
        if h.ndim != 1 or not bool((h.isfinite() & (h > 0)).all()):
            raise ArgumentError(f"bandwidth is {h.tolist()}; give one positive, finite number per column")

    def scale(self, points: Tensor) -> Tensor:
        """Return points (..., d) in units of the bandwidth."""
        return points / self.bandwidth

    def log(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log k of points (..., d) and (..., d), broadcast over all but the last dimension."""
        return -0.5 * self.scale(x - y).square().sum(dim=-1)

    def draw(self, center: Tensor, noise: Tensor) -> Tensor:
        """Return samples of the kernel as a density: centers (..., d) moved by normal noise times h."""
        return center + noise * self.bandwidth
