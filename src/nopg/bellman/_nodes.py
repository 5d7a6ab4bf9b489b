"""Value nodes: states that carry the values of a Bellman equation, and smooth interpolation between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree

from nopg.bellman._interpolation import centered_weights
from nopg.models import LocalModel
from nopg.models._charts import farthest_points
from nopg.models._coordinates import StateCoordinates

_INTERPOLATED = 16
# Bandwidth of the weights in spacings of the nodes around, and how far weights may be off centre.
_WIDTH, _SLACK = 0.35, 1e-2
_MOST_CANDIDATES = 10_000
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Interpolation:
    """Non-negative weights on the nodes nearest to some states; they sum to 1 and are smooth in the states.

    With z the coordinates of s, yₖ = (zₖ − z)/h(s) and h a share of the distance to the first node left out,
    weights are P ∝ exp(−E + λ·y), E = ½‖y‖² − 2 log(1 − ‖y‖²/‖y_last‖²), λ such that the mean offset is −ρλ.

    Attributes:
        near: Numbers of the nodes, shape (m, k).
        weights: P, shape (m, k).
        slopes_of_logits: ∂(−E + λ·y)/∂z at fixed λ, shape (m, k, d_z).
        offsets: y, shape (m, k, d_z).
        offset_slope: ∂y/∂z = −1/(h u) − y ⊗ ∂log h, as the two parts (d_z,) over h (m, 1) and (m, d_z).
        coordinates: z of states.
    """

    near: torch.Tensor
    weights: torch.Tensor
    slopes_of_logits: torch.Tensor
    offsets: torch.Tensor
    offset_slope: tuple[torch.Tensor, torch.Tensor]
    coordinates: StateCoordinates

    def values(self, x: torch.Tensor) -> torch.Tensor:
        """Return Σ Pₖxₖ (m,) for values x (m, k) at the nodes."""
        return (self.weights * x).sum(dim=1)

    def slopes(self, x: torch.Tensor) -> torch.Tensor:
        """Return the derivative (m, d_s) of `values` by the raw states; λ is differentiated implicitly."""
        P, y = self.weights, self.offsets
        mean = (P[:, :, None] * y).sum(dim=1, keepdim=True)
        centered = y - mean
        weighted = P[:, :, None] * centered
        covariance = weighted.mT @ centered + _SLACK * torch.eye(y.shape[2], dtype=torch.float64)
        away = P * (x - self.values(x)[:, None])
        w: torch.Tensor = torch.linalg.solve(covariance, (away[:, :, None] * y).sum(dim=1))
        shares = away - P * (centered @ w[:, :, None])[:, :, 0]
        straight, stretched = self.offset_slope
        # The mean offset moves by ∂ȳ = −1/(h u) − ȳ ⊗ ∂log h even where the weights stand still.
        moved = -w * straight - (w * mean[:, 0]).sum(dim=1, keepdim=True) * stretched
        return self.coordinates.slopes((shares[:, :, None] * self.slopes_of_logits).sum(dim=1) - moved)


class Nodes:
    """Distinct raw states (m, d_s) that carry values, near each other in some coordinates."""

    def __init__(self, states: torch.Tensor, coordinates: StateCoordinates) -> None:
        self.states, self._coordinates, space = states, coordinates, coordinates.space
        self._places = coordinates.at(states)
        self._tree = cKDTree(space.embed(self._places).numpy())
        d = self._places.shape[1]
        ball = math.pi ** (d / 2) / math.gamma(d / 2 + 1)
        self._share = _WIDTH * (ball / _INTERPOLATED) ** (1 / d)
        distances, _ = self._tree.query(self._tree.data, k=min(2, len(states)))
        self.spacing = float(torch.as_tensor(distances).reshape(len(states), -1)[:, -1].median())

    @classmethod
    def covering(cls, model: LocalModel, count: int, visited: torch.Tensor | None = None) -> Nodes:
        """Return at most `count` nodes that cover the log of a model by a farthest-point rule.

        Half of them cover the states (v, d_s) that a controller visits, if there are some.
        """
        data, few = model.data, model.rows.first[model.rows.sample[:_MOST_CANDIDATES]]
        logged = torch.cat([data.states[few], data.next_states[few][~data.terminated[few]]])
        if visited is None or len(visited) == 0:
            return cls(_cover(logged, model.coordinates, count), model.coordinates)
        mine = _cover(visited, model.coordinates, count // 2)
        return cls(_cover(torch.cat([mine, logged]), model.coordinates, count, len(mine)), model.coordinates)

    def __len__(self) -> int:
        return len(self.states)

    def value(self, states: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return values x of the nodes, shape (n,), interpolated at raw states (m, d_s)."""
        between = self.interpolate(states)
        return between.values(x[between.near])

    def interpolate(self, states: torch.Tensor) -> Interpolation:
        """Return the weights at raw states (m, d_s)."""
        space, count, z = self._coordinates.space, len(self.states), self._coordinates.at(states)
        k = min(_INTERPOLATED, count - 1) or 1
        _, found = self._tree.query(space.embed(z).numpy(), k=min(k + 1, count))
        near = torch.as_tensor(found).reshape(len(states), -1)
        apart = space.offsets(z[:, None], self._places[near])  # (m, k + 1, d_z), from the state
        squared = apart.square().sum(dim=2)
        order = squared.argsort(dim=1, stable=True)  # an angle's arc and chord may disagree on who is last
        near, squared = near.gather(1, order), squared.gather(1, order)
        apart = apart.gather(1, order[:, :, None].expand_as(apart))
        last = squared[:, -1:].clamp(min=_TINY) * (1.0 + 1e-6)
        last_slope = -2.0 * (1.0 + 1e-6) * apart[:, -1] / space.units  # of d²_last by z
        near, apart, squared = near[:, :k], apart[:, :k], squared[:, :k]
        h = self._share * last.sqrt()
        offsets = apart / h[:, :, None]
        share = (squared / last).clamp(max=1.0 - 1e-9)
        logits = 2.0 * torch.log1p(-share)
        P, tilt = centered_weights(offsets, logits, _SLACK)

        stretched = 0.5 * last_slope / last  # ∂log h
        straight = 1.0 / (h * space.units)  # (m, d_z)
        # ∂y = −1/(h u) − y ⊗ ∂log h; −½‖y‖² + λ·y and the factor of the share follow by the chain rule.
        pull = tilt[:, None] - offsets  # ∂/∂y, (m, k, d_z)
        slopes = -pull * straight[:, None] - (pull * offsets).sum(dim=2, keepdim=True) * stretched[:, None]
        share_slope = (-2.0 * apart / space.units - share[:, :, None] * last_slope[:, None]) / last[
            :, :, None
        ]
        slopes = slopes - (2.0 / (1.0 - share))[:, :, None] * share_slope
        return Interpolation(near, P, slopes, offsets, (straight, stretched), self._coordinates)


def _cover(states: torch.Tensor, coordinates: StateCoordinates, count: int, kept: int = 0) -> torch.Tensor:
    """Return at most `count` distinct states that cover all, the first `kept` of them among these."""
    points = coordinates.space.embed(coordinates.at(states))
    _, number = torch.unique((points * 1e9).round(), dim=0, return_inverse=True)
    first = torch.full((int(number.max()) + 1,), len(states))
    first = first.scatter_reduce_(0, number, torch.arange(len(states)), "amin").sort().values
    kept = int((first < kept).sum())
    return states[first[farthest_points(points[first], count, kept=kept)]]
