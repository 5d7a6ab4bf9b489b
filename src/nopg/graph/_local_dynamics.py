"""The plant as local fits: where an action leads from any state, for which reward, what is known there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.graph._local_fit import (
    FitShape,
    LocalFit,
    best_shape,
    fit_at,
    moved,
    raw_units,
)
from nopg.graph._prior_mass import check_prior_mass
from nopg.graph._state_support import StateSupport, cell_corners
from nopg.kernels import GaussianKernel
from nopg.neighbors import NeighborSearch, neighbor_search

__all__ = ["LocalDynamics", "PathStep", "raw_bounds", "walk", "within_bounds"]

# A path of which less than this is left goes no farther.
_LEAST_LEFT = 1e-6


class LocalDynamics:
    """x_z(a) = z + c_z + B_z a and r_z(a), fitted at every state z that is asked for.

    A state that few samples stand at is unknown to the share m = β/(β + S), S being its support.

    Args:
        data: The transitions.
        metric: A kernel on state features; distances between states are measured in its bandwidths.
        shape: Of the local fits; by default what predicts held-out rows best.
        prior_mass: β; by default from the rule of `StateSupport.prior_mass`.
        hold: Steps that an action lasts.
        discount: γ of one step, for the rewards while an action is held.
    """

    def __init__(
        self,
        data: Transitions,
        metric: GaussianKernel,
        *,
        shape: FitShape | None = None,
        prior_mass: float | None = None,
        hold: int = 1,
        discount: float = 1.0,
    ) -> None:
        if hold < 1:
            raise ArgumentError(f"hold is {hold}; an action lasts at least 1 step")
        if shape is not None and (shape.num_neighbors < 1 or not shape.ridge > 0):
            raise ArgumentError(f"the shape is {shape}; neighbours and ridge must be positive")
        if len(metric.bandwidth) != len(data.schema.features):
            raise ArgumentError(
                f"the metric has {len(metric.bandwidth)} bandwidths, the data have the features "
                f"{list(data.schema.features)}; give one each"
            )
        self.data, self.metric = data, metric
        self.hold, self.discount = hold, discount
        rewards = sum(discount**step for step in range(hold)) * data.rewards
        self.reward_low, self.reward_high = float(rewards.min()), float(rewards.max())
        self.bounds = raw_bounds(data)
        self.units = raw_units(data.schema, metric)

        self.samples = neighbor_search(metric.scale(data.features))
        self.shape = shape or best_shape(data, metric, self.samples)
        self.state_support = StateSupport(data, metric)
        self.prior_mass = (
            self.state_support.prior_mass(data) if prior_mass is None else check_prior_mass(prior_mass)
        )

    def fit_at(self, features: torch.Tensor) -> LocalFit:
        """Return the local fits at state features (m, d_f)."""
        fit = fit_at(self.data, self.metric, self.samples, features, self.shape)
        return fit if self.hold == 1 else fit.held(self.hold, self.discount)

    def outcomes(self, features: torch.Tensor, fit: LocalFit, actions: torch.Tensor) -> torch.Tensor:
        """Return the features (m, d_f) that actions (m, d_a) lead to from state features (m, d_f)."""
        step, _ = self.displacements(features, fit, actions)
        return moved(self.data.schema, features, step)

    def displacements(
        self, features: torch.Tensor, fit: LocalFit, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return raw displacements (m, d_s) that keep to the declared bounds, and which are free to move."""
        return within_bounds(self.bounds, features, fit.at(actions)[:, :-1])

    def rewards(self, fit: LocalFit, actions: torch.Tensor) -> torch.Tensor:
        """Return the predicted rewards (m,) of actions (m, d_a), none beyond those ever seen."""
        return fit.at(actions)[:, -1].clamp(self.reward_low, self.reward_high)

    def ended_share(self, features: torch.Tensor) -> torch.Tensor:
        """Return how much of the data around state features (m, d_f) ended the task, shape (m,)."""
        if len(features) == 0 or not bool(self.data.terminated.any()):
            return torch.zeros(len(features), dtype=torch.float64)
        distances, near = self._ends.nearest(self.metric.scale(features), cell_corners(self.data.schema))
        share = torch.softmax(-0.5 * (distances / self.state_support.width).square(), dim=1)
        ended = (share * self.data.terminated[near.long()].double()).sum(dim=1)
        return ended.clamp(max=1.0)  # shares sum to 1 but for rounding

    @cached_property
    def _ends(self) -> NeighborSearch:
        return neighbor_search(self.metric.scale(self.data.next_features))


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of all paths.

    Attributes:
        places: The state features they are at, shape (m, d_f).
        actions: What is done there, shape (m, d_a).
        rewards: What is earned there, shape (m,).
        known: The share of the place that the data know, shape (m,).
        unknown: The rest, shape (m,).
        left: The share of the path that has neither left the data nor ended before, shape (m,).
    """

    places: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    known: torch.Tensor
    unknown: torch.Tensor
    left: torch.Tensor


@torch.no_grad()
def walk(
    dynamics: LocalDynamics,
    act: Callable[[torch.Tensor], torch.Tensor],
    places: torch.Tensor,
    steps: int,
) -> Iterator[PathStep]:
    """Follow the fits from places (m, d_f) until nothing is left of any path.

    Args:
        dynamics: The plant.
        act: From state features (m, d_f) to actions (m, d_a).
        places: Where the paths begin.
        steps: The most that are taken.
    """
    left = torch.ones(len(places), dtype=places.dtype)
    for _ in range(steps):
        known, unknown = dynamics.state_support.split(places, dynamics.prior_mass)
        fit, actions = dynamics.fit_at(places), act(places)
        yield PathStep(places, actions, dynamics.rewards(fit, actions), known, unknown, left)

        left = left * known
        going = left > _LEAST_LEFT
        if not bool(going.any()):
            break
        places = torch.where(going[:, None], dynamics.outcomes(places, fit, actions), places)
        left = left * (1.0 - dynamics.ended_share(places))


def within_bounds(
    bounds: Mapping[int, tuple[int, float, float]], features: torch.Tensor, step: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return raw displacements (m, d_s) cut so that bounds are kept, and which are free to move.

    Args:
        bounds: What `raw_bounds` returns.
        features: Where from, shape (m, d_f).
        step: The displacements wanted, shape (m, d_s).
    """
    if not bool(step.isfinite().all()):
        raise ArgumentError(
            "predicted states are NaN or infinite; look at the parameters of the policy, "
            "or at rows that lie far from all others"
        )
    step, free = step.clone(), torch.ones_like(step)
    for column, (feature, low, high) in bounds.items():
        wanted = features[:, feature] + step[:, column]
        free[:, column] = ((wanted > low) & (wanted < high)).double()
        step[:, column] = wanted.clamp(low, high) - features[:, feature]
    return step, free


def raw_bounds(data: Transitions) -> dict[int, tuple[int, float, float]]:
    """Return raw column → (its feature, lowest, highest) where bounds are declared; an angle has none."""
    schema = data.schema
    return {
        column: (schema.feature_columns.index(column), *schema.bounds[name])
        for column, name in enumerate(schema.states)
        if name in schema.bounds and name not in schema.angles
    }
