"""Adam (Kingma and Ba, 2015), which climbs; `torch.optim` takes two seconds to import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

_FIRST, _SECOND, _LEAST = 0.9, 0.999, 1e-8


class Adam:
    """Moves parameters along a gradient whose size is about 1.

    Args:
        parameters: Changed in place.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters, self._count = parameters, 0
        self._means = [torch.zeros_like(one) for one in parameters]
        self._squares = [torch.zeros_like(one) for one in parameters]

    @torch.no_grad()
    def step(self, gradient: Sequence[torch.Tensor], rate: float) -> None:
        """Make one step of θ ← θ + rate · m̂ / (√v̂ + 10⁻⁸)."""
        self._count += 1
        first, second = 1.0 - _FIRST**self._count, 1.0 - _SECOND**self._count
        for theta, g, m, v in zip(self._parameters, gradient, self._means, self._squares, strict=True):
            m.mul_(_FIRST).add_((1.0 - _FIRST) * g)
            v.mul_(_SECOND).add_((1.0 - _SECOND) * g.square())
            theta.add_(rate * (m / first) / ((v / second).sqrt() + _LEAST))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return both moments and the number of steps."""
        moments = {f"mean.{k}": one for k, one in enumerate(self._means)}
        moments |= {f"square.{k}": one for k, one in enumerate(self._squares)}
        return {**moments, "count": torch.tensor(self._count)}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from what `state_dict` returned."""
        for k, (mean, square) in enumerate(zip(self._means, self._squares, strict=True)):
            mean.copy_(state[f"mean.{k}"])
            square.copy_(state[f"square.{k}"])
        self._count = int(state["count"])
