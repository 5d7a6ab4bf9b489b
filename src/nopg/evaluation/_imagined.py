"""What a policy would do and earn if the plant went where the data say: many paths from every start."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from nopg._seeding import generator
from nopg.bandwidths import select_bandwidths
from nopg.data import Transitions, held_out_groups
from nopg.graph import (
    EndRule,
    LocalRegression,
    StateSupport,
    Subsets,
    moved,
    raw_bounds,
    raw_states,
    within_bounds,
)
from nopg.kernels import Bandwidths
from nopg.neighbors import NeighborSearch, neighbor_search

__all__ = ["FeatureLaw", "Imagination", "ImaginedPaths", "ImaginedPlant"]

# From state features (m, d_f) to actions (m, d_a).
FeatureLaw = Callable[[torch.Tensor], torch.Tensor]

# The share of the return's weight that may lie beyond the horizon; the last rewards stand for it.
_TAIL = 0.01
_REWARD_MARGIN = 1.0
_LEAST_LEFT = 1e-6


@dataclass(frozen=True, slots=True)
class Imagination:
    """How much is imagined.

    Attributes:
        halves: Random halves of the episodes from which everything is imagined again, an even number.
        most_starts: Initial states that paths begin in, at most; drawn evenly where there are more.
        fewest_paths: Paths that one set of data imagines at least; every start is repeated, at least once.
        seed: Of halves and noise.
    """

    halves: int = 8
    most_starts: int = 50
    fewest_paths: int = 40
    seed: int = 0


@dataclass(frozen=True)
class ImaginedPaths:
    """Paths of one policy. Part 0 of the samples is all of them, the others are halves.

    Attributes:
        returns: Discounted, of every part and path, shape (B + 1, m).
        pessimistic: The same with the unknown value where a path leaves the data, shape (B + 1, m).
        unknown: The discounted mass that leaves the data, shape (B + 1, m).
        tail: What the rewards beyond the horizon are uncertain by, in units of the return.
        leverage: Of the predictions along the paths, see `StepEstimate`, weighted like rewards.
        states: Raw states of all paths, part after part, shape (T, (B + 1)·m, d_s).
        actions: Shape (T, (B + 1)·m, d_a).
        rewards: Shape (T, (B + 1)·m).
        left: The share of a path that has neither left the data nor ended before, shape (T, (B + 1)·m).
        going: The share that has not ended before, whatever the data know, shape (T, (B + 1)·m).
        last: Raw states that the last step led to, shape ((B + 1)·m, d_s).
        num_parts: B + 1.
    """

    returns: torch.Tensor
    pessimistic: torch.Tensor
    unknown: torch.Tensor
    tail: float
    leverage: float
    states: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    left: torch.Tensor
    going: torch.Tensor
    last: torch.Tensor
    num_parts: int


class ImaginedPlant:
    """The plant as the data describe it, for any number of policies.

    Paths follow local fits step by step, so no value is spread over neighbouring states as in the Bellman
    equation. What the fits miss is added as noise of the size of their residuals. All of it is done again
    from random halves of the episodes: half the data err by more, to the same side where the fits are too
    stiff and to either side where they are uncertain, and by how much is the measure of error.

    Args:
        data: The transitions; paths begin in their starts.
        discount: γ.
        bandwidths: The metric of states; selected from the data if not given.
        unknown_value: What leaving the data is worth; the worst reward for ever if not given.
        imagination: How much is imagined.
    """

    def __init__(
        self,
        data: Transitions,
        discount: float,
        *,
        bandwidths: Bandwidths | None = None,
        unknown_value: float | None = None,
        imagination: Imagination | None = None,
    ) -> None:
        self.data, self.discount = data, discount
        self.imagination = imagination or Imagination()
        self.bandwidths = bandwidths or select_bandwidths(data)
        self.regression = LocalRegression(data, self.bandwidths)
        self.support = StateSupport(data, self.bandwidths.state_kernel)
        self.prior_mass = self.support.prior_mass(data)
        low, high = float(data.rewards.min()), float(data.rewards.max())
        margin = _REWARD_MARGIN * (high - low)
        self._reward_low, self._reward_high = low - margin, high + margin
        self._bounds = raw_bounds(data)
        worst = float(data.rewards.min()) / (1.0 - discount)
        worst = min(worst, 0.0) if bool(data.terminated.any()) else worst
        self.unknown_value = worst if unknown_value is None else unknown_value

        _, groups = torch.unique(held_out_groups(data), return_inverse=True)
        self.groups = groups
        self.kept = _halves(groups, self.imagination)
        self.ends = EndRule.of(data, self.kept)
        starts = data.starts
        wanted = self.imagination
        starts = starts[:: -(-len(starts) // wanted.most_starts)]
        self.repeats = max(-(-wanted.fewest_paths // len(starts)), 2)
        self.starts = starts.repeat(self.repeats, 1)

    @property
    def return_range(self) -> float:
        """How far returns may differ by the rewards that were logged, for ever or until the end."""
        rewards = self.data.rewards
        if bool(self.data.terminated.any()):
            low, high = min(float(rewards.min()), 0.0), max(float(rewards.max()), 0.0)
        else:
            low, high = float(rewards.min()), float(rewards.max())
        return (high - low) / (1.0 - self.discount)

    @property
    def horizon(self) -> int:
        """T, after which a hundredth of the return's weight is left."""
        return max(math.ceil(math.log(_TAIL) / math.log(self.discount)), 1) if self.discount > 0 else 1

    def imagine(
        self, law: FeatureLaw, *, steps: int | None = None, starts: torch.Tensor | None = None
    ) -> ImaginedPaths:
        """Return the paths of a law from raw states (m, d_s), by default the starts of the task.

        The same noise meets every law, step by step, so that what two of them earn differs by what they do.
        """
        gamma, count, schema = self.discount, len(self.kept), self.data.schema
        begin = self.starts if starts is None else starts
        m, T = len(begin), self.horizon if steps is None else steps
        noise = generator(self.imagination.seed, "what fits miss")
        subsets = Subsets(self.kept, torch.arange(count).repeat_interleave(m))
        places = schema.encode(begin).repeat(count, 1)
        left, going = torch.ones(count * m, dtype=torch.float64), torch.ones(count * m, dtype=torch.float64)
        total, pessimistic, lost = torch.zeros(3, count * m, dtype=torch.float64)
        taken: list[tuple[torch.Tensor, ...]] = []
        for t in range(T):
            known, unknown = self.support.split(places, self.prior_mass)
            actions = law(places)
            # The same residual for every part, so that parts differ by their fits.
            pick = torch.rand(m, dtype=torch.float64, generator=noise).repeat(count)
            step = self.regression.at(places, actions, subsets=subsets, pick=pick)
            rewards = step.reward.clamp(self._reward_low, self._reward_high)
            total += gamma**t * going * rewards
            pessimistic += gamma**t * left * (known * rewards + unknown * self.unknown_value)
            lost += gamma**t * left * unknown
            taken.append((schema.decode(places), actions, rewards, left, going, step.leverage))

            left = left * known
            displacement, _ = within_bounds(self._bounds, places, step.displacement + step.missed)
            places = torch.where(going[:, None] > 0, moved(schema, places, displacement), places)
            if self.ends is not None:
                stays = 1.0 - self.ends.ended(raw_states(schema, places), subsets.part)
            else:
                stays = 1.0 - self._ended_share(places)
            left, going = left * stays, going * stays
            if not bool((going > _LEAST_LEFT).any()):
                break

        # Where a path goes on, the mean of the last fifth of its rewards goes on for ever.
        states, acts, earned, lefts, goings, leverages = (
            torch.stack(column) for column in zip(*taken, strict=True)
        )
        late = (goings * earned)[-max(len(taken) // 5, 1) :]
        ahead = gamma ** len(taken) / (1.0 - gamma) * late.mean(dim=0)
        total += going * ahead
        pessimistic += left * ahead
        uncertain = gamma ** len(taken) / (1.0 - gamma) * going * late.std(dim=0, correction=0)
        weight = (gamma ** torch.arange(len(taken)).double())[:, None] * goings
        return ImaginedPaths(
            returns=total.view(count, m),
            pessimistic=pessimistic.view(count, m),
            unknown=lost.view(count, m),
            tail=float(uncertain[:m].mean()),
            leverage=float((weight * leverages)[:, :m].sum() / weight[:, :m].sum()),
            states=states,
            actions=acts,
            rewards=earned,
            left=lefts,
            going=goings,
            last=schema.decode(places),
            num_parts=count,
        )

    def _ended_share(self, places: torch.Tensor) -> torch.Tensor:
        """Return 1 where the next state seen nearest to state features (m, d_f) ended the task, else 0."""
        _, near = self._next_states.nearest(self.bandwidths.state_kernel.scale(places), 1)
        return self.data.terminated[near[:, 0].long()].double()

    @cached_property
    def _next_states(self) -> NeighborSearch:
        return neighbor_search(self.bandwidths.state_kernel.scale(self.data.next_features))


def _halves(groups: torch.Tensor, imagination: Imagination) -> torch.Tensor:
    """Return all rows, then random halves of the groups and what each leaves out, shape (B + 1, n)."""
    rng, count = generator(imagination.seed, "halves"), int(groups.max()) + 1
    parts = [torch.ones(count, dtype=torch.bool)]
    for _ in range(imagination.halves // 2 if count > 1 else 0):
        half = torch.zeros(count, dtype=torch.bool)
        half[torch.randperm(count, generator=rng)[: count // 2]] = True
        parts += [half, ~half]
    return torch.stack(parts)[:, groups]
