"""The unknown share of a state and an action as a torch module."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch

from nopg._support import BLENDED, TINY, ChartSupport, FitVariance, Support


class _Constants(torch.nn.Module):
    """A module whose constants are buffers: the exporter rounds a Python number in a formula to float32."""

    one: torch.Tensor

    def __init__(self, kind: torch.dtype) -> None:
        super().__init__()
        self.kind = kind
        self.keep(one=1.0)

    def keep(self, **values: npt.ArrayLike) -> None:
        """Register numbers in the dtype, and whole numbers and flags as they are."""
        for name, value in values.items():
            given = torch.as_tensor(np.asarray(value))
            self.register_buffer(name, given.to(self.kind) if given.is_floating_point() else given)


class SupportGraph(_Constants):
    """`Support.unknown`, at raw states and actions.

    Args:
        support: Where the data are.
        kind: Of all numbers.

    Attributes:
        size: Number of differences that one row takes.
    """

    low: torch.Tensor
    high: torch.Tensor
    margin: torch.Tensor
    inside: torch.Tensor
    slope: torch.Tensor

    def __init__(self, support: Support, kind: torch.dtype) -> None:
        super().__init__(kind)
        self.keep(low=support.low, high=support.high, margin=support.margin)
        self.keep(inside=support.inside, slope=support.slope)
        self.charts = torch.nn.ModuleList(_Charts(one, kind) for one in support.charts)
        self.fits = torch.nn.ModuleList(_Fit(one, kind) for one in support.fits)
        self.size = max([one.places.size for one in support.charts], default=len(support.low))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the unknown share (m,) at inputs (m, d); 1 where a number is too large."""
        beyond = (inputs - torch.minimum(torch.maximum(inputs, self.low), self.high)) / self.margin
        distance = (beyond * beyond).sum(dim=1)
        for fit in self.fits:
            distance = distance + fit(inputs)
        if len(self.charts):
            distance = distance + torch.stack([one(inputs) for one in self.charts]).amax(dim=0)
        log_odds = self.inside + self.slope * distance
        return torch.where(log_odds.isnan(), self.one, self.one / (self.one + (-log_odds).exp()))


class _Charts(_Constants):
    """`ChartSupport.distance`."""

    places: torch.Tensor
    centers: torch.Tensor
    radii: torch.Tensor
    covariance: torch.Tensor
    columns: torch.Tensor
    circular: torch.Tensor
    turns: torch.Tensor
    phases: torch.Tensor
    scales: torch.Tensor
    angles: torch.Tensor
    periods: torch.Tensor
    smallest: torch.Tensor
    least: torch.Tensor

    def __init__(self, charts: ChartSupport, kind: torch.dtype) -> None:
        super().__init__(kind)
        self.count = charts.num_nearest
        self.keep(places=charts.places, centers=charts.centers, radii=np.square(charts.radii))
        self.keep(covariance=charts.covariance, smallest=float(torch.finfo(kind).tiny), least=TINY)
        is_angle = charts.periods > 0
        self.keep(angles=is_angle, periods=np.where(is_angle, charts.periods, 1.0))
        local = np.flatnonzero(charts.weights)
        columns = np.repeat(local, 1 + is_angle[local])
        turns = np.where(is_angle, 2 * math.pi / np.where(is_angle, charts.periods, 1.0), 1.0)[columns]
        sine = np.diff(columns, prepend=-1) == 0
        circular = is_angle[columns]
        self.is_local = len(columns) > 0
        # Cosines as sines: older runtimes lack Cos in float64.
        self.keep(columns=columns, circular=circular, turns=turns, scales=charts.weights[columns] / turns)
        self.keep(phases=np.where(circular & ~sine, math.pi / 2, 0.0))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return δ² (m,) at inputs (m, d)."""
        found, near = self._squared(inputs).topk(self.count, dim=1, largest=False)
        own = near[:, : min(BLENDED, max(self.count - 1, 1))]
        apart = inputs[:, None] - self.centers[own]  # (m, k, d)
        apart = torch.where(self.angles, apart - self.periods * (apart / self.periods).round(), apart)
        bent = (self.covariance[own] @ apart[..., None])[..., 0]
        values = found[:, : own.shape[1]] / self.radii[own] + (bent * apart).sum(dim=2)
        if self.count == 1:
            return values[:, 0]
        rest = self.one - torch.minimum(found[:, :-1] / torch.maximum(found[:, -1:], self.smallest), self.one)
        b = rest * rest / self.least + self.one  # the exporter drops a summand as small as `TINY`
        return (b * values).sum(dim=1) / b.sum(dim=1)

    def _squared(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return squared distances (m, C)."""
        if not self.is_local:
            return (inputs[:, :1] - inputs[:, :1]) * self.places
        # Differences, not products: in float32 the squares of large inputs would cancel the distance.
        turned = inputs[:, self.columns] * self.turns
        points = torch.where(self.circular, (turned + self.phases).sin(), turned) * self.scales
        apart = points[:, :, None] - self.places
        return (apart * apart).sum(dim=1)


class _Fit(_Constants):
    """`FitVariance.at`."""

    columns: torch.Tensor
    origin: torch.Tensor
    units: torch.Tensor
    circular: torch.Tensor
    phases: torch.Tensor
    center: torch.Tensor
    covariance: torch.Tensor
    first: torch.Tensor
    second: torch.Tensor

    def __init__(self, fit: FitVariance, kind: torch.dtype) -> None:
        super().__init__(kind)
        first, circular = fit.first, np.zeros(len(fit.first), dtype=np.bool_)
        circular[first.sines] = circular[first.sines - 1] = True
        phases = np.where(circular, math.pi / 2, 0.0)
        phases[first.sines] = 0.0
        self.keep(columns=first.columns, origin=first.origin[:, 0], units=first.units[:, 0])
        self.keep(circular=circular, phases=phases, center=fit.center, covariance=fit.covariance)
        self.degree = fit.degree
        self.keep(first=fit.pairs[0], second=fit.pairs[1])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the variance (m,) at inputs (m, d)."""
        scaled = (inputs[:, self.columns] - self.origin) / self.units
        features = torch.where(self.circular, (scaled + self.phases).sin(), scaled)
        if self.degree == 2:
            features = torch.cat([features, features[:, self.first] * features[:, self.second]], dim=1)
        apart = features - self.center
        return ((apart @ self.covariance) * apart).sum(dim=1)
