"""The starts of a task as a sample: where it starts, how often, and how far they tell of new starts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from nopg._seeding import generator
from nopg._typing import IntArray
from nopg.data._held_out import canonical_order, duplicate_groups
from nopg.data._schema import Schema
from nopg.data._transitions import Transitions

# Parts of one recording whose means are taken as independent.
_BLOCKS = 10
# States that are not divided further when they are put in order, and digits that count then.
_TOGETHER, _DIGITS = 4, 10


@dataclass(frozen=True, eq=False)
class StartSet:
    """Distinct initial states (k, d_s), raw, and their shares (k,), neighbours near each other in any log.

    `blocks` (k,) number the stretches of a recording they belong to, None where starts are independent of
    each other; `count` is the number of independent starts that were logged, infinite where they are
    declared; `drawn` says whether they were drawn from more.
    """

    states: torch.Tensor
    weights: torch.Tensor
    blocks: IntArray | None
    count: float
    drawn: bool = False

    @classmethod
    def of(cls, data: Transitions) -> StartSet:
        """Return the starts of a log: declared states, or rows that are a sample of where a task starts."""
        rows, schema = data.start_rows, data.schema
        if rows is None:
            return cls.declared(data.starts, schema)
        some = data.take(rows)
        found, first, shares = _distinct(some.states, schema, some.weights)
        if data.start_kind == "episodes":  # copies of a row tell nothing of their own
            each = torch.bincount(duplicate_groups(some), some.weights)
            return cls(found, shares, None, float(each.sum() ** 2 / each.square().sum()))
        if data.episodes is None:
            return cls(found, shares, None, float(1.0 / shares.square().sum()))
        blocks = first * _BLOCKS // len(rows)
        return cls(found, shares, blocks, float(len(np.unique(blocks))))

    @classmethod
    def declared(cls, states: torch.Tensor, schema: Schema) -> StartSet:
        """Return declared raw states (n₀, d_s), equally likely."""
        found, _, shares = _distinct(states, schema)
        return cls(found, shares, None, math.inf)

    def __len__(self) -> int:
        return len(self.states)

    def few(self, most: int, *, purpose: str) -> StartSet:
        """Return all starts, or `most` of equal weight, each drawn from its own share."""
        if len(self) <= most:
            return self
        ends = self.weights.cumsum(dim=0)
        jitter = torch.rand(most, generator=generator(0, purpose), dtype=torch.float64)
        places = (torch.arange(most) + jitter) / most * float(ends[-1])
        drawn = torch.searchsorted(ends, places).clamp(max=len(self) - 1)
        return replace(
            self,
            states=self.states[drawn],
            weights=torch.full((most,), 1.0 / most, dtype=torch.float64),
            blocks=None if self.blocks is None else self.blocks[drawn.numpy()],
            drawn=True,
        )

    def places(self, states: torch.Tensor) -> torch.Tensor:
        """Return which of the starts raw states (m, d_s) are, −1 where they are none, shape (m,)."""
        both = torch.cat([self.states, states]).numpy()
        number = np.unique(both, axis=0, return_inverse=True)[1].ravel()
        place = np.full(len(both), -1)
        place[number[: len(self)]] = np.arange(len(self))
        return torch.as_tensor(place[number[len(self) :]])

    def only(self, kept: torch.Tensor) -> StartSet:
        """Return some of the starts, by flags (k,); their shares keep their proportions."""
        weights = self.weights[kept]
        return replace(
            self,
            states=self.states[kept],
            weights=weights / weights.sum(),
            blocks=None if self.blocks is None else self.blocks[kept.numpy()],
            count=self.count * float(kept.double().mean()) if self.blocks is None else self.count,
        )

    def mean(self, values: torch.Tensor) -> float:
        """Return the mean of values (k,) over the starts."""
        return float(self.weights @ values)

    def error(self, values: torch.Tensor) -> tuple[float, float]:
        """Return the standard error of a mean over the starts, for new ones, and its degrees of freedom.

        Of drawn values (k,) the differences of neighbours add to it.
        """
        drawn = 0.0
        if self.drawn:  # a stratified draw: neighbours tell how much
            apart = (values[1::2] - values[: len(values) // 2 * 2 : 2]).numpy()
            drawn = math.sqrt(float(np.square(apart).sum())) / len(values)
        if math.isinf(self.count):
            return drawn, math.inf
        if self.blocks is not None:
            spread, df = self._by_blocks(values)
        elif self.count <= 1.0:
            return drawn, math.inf
        else:
            about = values - self.mean(values)
            variance = float(self.weights @ about.square()) * self.count / (self.count - 1.0)
            spread, df = math.sqrt(variance / self.count), self.count - 1.0
        return math.hypot(spread, drawn), df

    def _by_blocks(self, values: torch.Tensor) -> tuple[float, float]:
        """Return the standard error by means of the stretches of a recording."""
        assert self.blocks is not None
        weights, found = self.weights.numpy(), values.numpy()
        size = np.bincount(self.blocks, weights).astype(np.float64)
        kept = size > 0
        means = np.bincount(self.blocks, weights * found)[kept] / size[kept]
        share, number = size[kept] / size[kept].sum(), int(kept.sum())
        if number < 2:
            return 0.0, math.inf
        about = means - share @ means
        return math.sqrt(float(np.square(share * about).sum()) * number / (number - 1)), number - 1.0


def _distinct(
    states: torch.Tensor, schema: Schema, weights: torch.Tensor | None = None
) -> tuple[torch.Tensor, IntArray, torch.Tensor]:
    """Return distinct states, the first place of each, and their shares, neighbours near each other."""
    _, first, own = np.unique(states.numpy(), axis=0, return_index=True, return_inverse=True)
    each = np.ones(len(states)) if weights is None else weights.numpy()
    counts = np.bincount(own.ravel(), each, len(first)).astype(np.float64)
    places = _order(states[torch.as_tensor(first)], schema).numpy()
    kept = np.asarray(first[places])
    shares = torch.as_tensor(counts[places] / counts.sum())
    return states[torch.as_tensor(kept)], kept, shares


def _order(states: torch.Tensor, schema: Schema) -> torch.Tensor:
    """Return an order of states in which neighbours are near, by halving again and again at medians."""
    features = schema.encode(states)
    spread = features.std(dim=0, correction=0)
    scaled = (features - features.mean(dim=0)) / torch.where(spread > 0, spread, 1.0)
    points, found = scaled.numpy().round(_DIGITS), list[IntArray]()
    parts = [canonical_order(scaled).numpy()]
    while parts:
        some = parts.pop()
        if len(some) <= _TOGETHER:
            found.append(some)
            continue
        column = int(points[some].std(axis=0).argmax())
        some = some[np.argsort(points[some, column], kind="stable")]
        parts += [some[len(some) // 2 :], some[: len(some) // 2]]
    return torch.as_tensor(np.concatenate(found))
