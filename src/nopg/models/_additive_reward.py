"""A learned reward of (s, a, s′): a sum of functions of one column or one difference of columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nopg._expressions import quoted
from nopg._typing import FloatArray, IntArray
from nopg.data import Schema, Transitions
from nopg.data._derive import RewardFormula, lag_name
from nopg.models._chart_selection import HeldOutFit
from nopg.models._regression_rows import RegressionRows
from nopg.models._sums import LEAST_RIDGE, ChartShape, GlobalFit, ridge_fit

# Rows that select terms, the most terms, and the knots of each.
_ROWS, _MOST_TERMS, _KNOTS = 2_000, 6, 24
# With more measured columns, differences are tried of those with a declared unit only.
_MANY_COLUMNS = 10
# Penalties on changes of slope, relative to the weight of the rows: while terms are tried, and at the end.
_RIDGE_IN_SEARCH, _RIDGES = 1e-5, (1e-4, 1e-5, 1e-6, 1e-7)
# Factor by which the held-out error must fall, and the least share of the variance, for a term: pieces of
# another one explain that much by chance. The factor is also that of the error of charts of (s, a), which are
# good enough below the threshold.
_WORTH_IT, _LEAST_SHARE, _ENOUGH = 0.9, 3e-3, 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveReward:
    """r = b + Σ_j f_j(z_j), f_j piecewise linear, z_j a column of (s, a, s′) or a difference of two.

    Rewards of a step usually depend on where it leads. In (s, a) they then have the edges of the reward and
    the dynamics of the plant in one, and what charts miss of that, a policy finds and exploits.
    """

    num_states: int  # d_s
    factors: Tensor  # of the columns of (s, a, s′) in each z_j, (k, 2 d_s + d_a)
    knots: Tensor  # of each f_j after the least z_j, (k, 1 + K)
    units: Tensor  # standard deviation of each z_j, (k, 1)
    ridge: float  # penalty on changes of slope, relative to the weight of the rows
    error: float  # mean squared error on held-out rows in units of the variance, each at most 1
    r_squared: float  # R² on held-out rows, given s′
    sums: GlobalFit  # of r on 1, z_j and its distances beyond the knots
    columns: Tensor  # (s, a, s′) of the distinct rows, (n, 2 d_s + d_a)

    @classmethod
    def of(cls, data: Transitions, rows: RegressionRows, error: float) -> AdditiveReward | None:
        """Return the sum that predicts held-out rows better than a fit of this error; None if none does."""
        target = data.states.shape[1]
        spread = float(rows.spread[target])
        if error <= _ENOUGH or len(rows.groups.unique()) < 2 or spread == 0.0:
            return None
        distinct = data.take(rows.first)
        columns = torch.cat([distinct.states, distinct.actions, distinct.next_states], dim=1)
        some, few = rows.sample[:_ROWS], columns[rows.sample[:_ROWS]]
        known = rows.take(some)

        def errors(factors: Tensor, ridges: tuple[float, ...]) -> list[tuple[float, float, float]]:
            """Return the held-out error, 1 − R² and the ridge, for each ridge."""
            X = _features(few, factors, *_places(few, factors))
            sums, found = GlobalFit.of(known, X, [target]), []
            for ridge in ridges:
                fits = _coefficients(sums, ridge, ~torch.eye(rows.num_groups, dtype=torch.bool))
                wrong = ((known.targets[:, target] - (X * fits[known.groups]).sum(dim=1)) / spread).square()
                found.append((float(wrong.clamp(max=1.0).mean()), float(wrong.clamp(max=4.0).mean()), ridge))
            return found

        candidates = [one for one in _candidates(data) if float((few @ one).std()) > 0.0]
        chosen, least = list[Tensor](), 1.0
        while candidates and len(chosen) < _MOST_TERMS:
            tried = [errors(torch.stack([*chosen, one]), (_RIDGE_IN_SEARCH,))[0][0] for one in candidates]
            if min(tried) > _WORTH_IT * least - _LEAST_SHARE:
                break
            least = min(tried)
            chosen.append(candidates.pop(tried.index(least)))
        if not chosen:
            return None
        factors = torch.stack(chosen)
        least, left, ridge = min(errors(factors, _RIDGES))
        if least > _WORTH_IT * error:
            return None
        knots, units = _places(few, factors)
        X = _features(columns, factors, knots, units)
        sums = GlobalFit.of(rows, X, [target])
        return cls(target, factors, knots, units, ridge, least, 1.0 - left, sums, columns)

    def instead_of(self, charts: HeldOutFit) -> HeldOutFit:
        """Return what is said of the fit in the place of charts; columns of s′ count as those of s."""
        named = (self.factors != 0.0).any(dim=0)
        used = named[: -self.num_states].clone()
        used[: self.num_states] |= named[-self.num_states :]
        shape = ChartShape(used, torch.zeros(len(used), dtype=torch.float64), 1, 0, math.inf)
        return HeldOutFit(shape, self.error, charts.error_of_all_inputs, self.r_squared)

    def squares(self, schema: Schema) -> RewardFormula | None:
        """Return the squared distances of each z_j from where f_j is largest, if that is within the log.

        They are what a regulator can make small in its place: where a difference is best near 0, it is an
        error from a set point.
        """
        names = [*map(quoted, (*schema.states, *schema.actions))]
        names += [f"next({name})" for name in names[: self.num_states]]
        [fit] = _coefficients(self.sums, self.ridge, torch.ones(1, len(self.sums.grams), dtype=torch.bool))
        parts, one = [], torch.ones(1, 1, dtype=torch.float64)
        terms = zip(fit[1:].view(len(self.knots), -1), self.knots, self.units, self.factors, strict=True)
        for each, knots, unit, factors in terms:
            best = int((_features(knots[:, None], one, knots[None], unit[None])[:, 1:] @ each).argmax())
            if 0 < best < len(knots) - 1:
                (first, *others) = factors.nonzero()[:, 0].tolist()
                signs = [names[k] if factors[k] > 0 else f"-{names[k]}" for k in (first, *others)]
                level = 0.0 if knots[best - 1] < 0.0 < knots[best + 1] else float(knots[best])
                parts.append(
                    f"({' + '.join(signs)} - {level!r})**2" if level else f"({' + '.join(signs)})**2"
                )
        return RewardFormula(f"-({' + '.join(parts)})", replace(schema, units={})) if parts else None

    def errors(self, rows: RegressionRows, inner: Tensor, outer: Tensor) -> Tensor:
        """Return squared errors in units of the variance on outer rows (m,), fitted to inner ones."""
        X, every = _features(self.columns, self.factors, self.knots, self.units), [self.num_states]
        sums = GlobalFit.of(rows.take(inner), X[inner], every)
        [fit] = _coefficients(sums, self.ridge, torch.ones(1, rows.num_groups, dtype=torch.bool))
        missed = rows.targets[outer][:, every] - X[outer] @ fit[:, None]
        squared: Tensor = (missed[:, 0] / rows.spread[self.num_states]).square()
        return squared

    def fitted(self, kept: Tensor) -> AdditiveFit:
        """Return the fit to parts (P, G) of the groups."""
        return AdditiveFit(self, _coefficients(self.sums, self.ridge, kept))


class AdditiveFit:
    """The coefficients (P, q) of a sum from parts of the groups, as a function of (s, a, s′)."""

    def __init__(self, reward: AdditiveReward, coefficients: Tensor) -> None:
        self._factors, self._knots = reward.factors.numpy(), reward.knots.numpy()[:, :, None]
        k = len(self._factors)
        each = coefficients[:, 1:].view(len(coefficients), k, -1) / reward.units
        self._level = coefficients[:, 0].numpy()
        self._slope, self._hinges = each[:, :, 0].T.numpy(), each[:, :, 1:].permute(1, 2, 0).numpy()

    def at(self, x: FloatArray, after: FloatArray, part: IntArray | None) -> tuple[FloatArray, FloatArray]:
        """Return rewards (m,) of steps from x = (s, a) (d, m) to s′ (d_s, m), and slopes (d + d_s, m)."""
        chosen: Any = slice(0, 1) if part is None else part
        slope, hinges = self._slope[:, chosen], self._hinges[:, :, chosen]
        beyond = (self._factors @ np.concatenate([x, after]))[:, None] - self._knots
        rewards = self._level[chosen] + (slope * beyond[:, 0]).sum(axis=0)
        rewards = rewards + (hinges * np.maximum(beyond[:, 1:], 0.0)).sum(axis=(0, 1))
        return rewards, self._factors.T @ (slope + (hinges * (beyond[:, 1:] > 0.0)).sum(axis=1))


def _candidates(data: Transitions) -> Iterator[Tensor]:
    """Yield factors (2 d_s + d_a,) of columns of (s, a, s′) and of differences of one unit."""
    schema, d_s, d = data.schema, len(data.schema.states), len(data.schema.states) + len(data.schema.actions)
    one = torch.eye(d + d_s, dtype=torch.float64)
    plain = [k for k, name in enumerate(schema.measured) if name not in schema.angles]
    units = [schema.units.get(schema.states[k], "") for k in plain]
    for begin in (d, 0):
        yield from (one[begin + k] for k in plain)
        for (k, unit), (other, its) in itertools.combinations(zip(plain, units, strict=True), 2):
            if unit == its and (unit or len(plain) <= _MANY_COLUMNS):
                yield one[begin + k] - one[begin + other]
    for k, name in enumerate(schema.actions):
        yield one[d_s + k]
        if lag_name(name, 1) in schema.states:
            yield one[d_s + k] - one[schema.states.index(lag_name(name, 1))]


def _places(columns: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the least value and K quantiles as knots (k, 1 + K), and units (k, 1), of each term."""
    z = columns @ factors.T
    shares = torch.linspace(0.0, 1.0, _KNOTS + 2, dtype=torch.float64)[:-1]
    return z.quantile(shares, dim=0).T.contiguous(), z.std(dim=0)[:, None]


def _features(columns: Tensor, factors: Tensor, knots: Tensor, units: Tensor) -> Tensor:
    """Return 1, then z − κ₀ and (z − κ)₊ of each term, in its unit, of columns (n, c), shape (n, q)."""
    beyond = ((columns @ factors.T)[:, :, None] - knots) / units
    each = torch.cat([beyond[:, :, :1], beyond[:, :, 1:].clamp(min=0.0)], dim=2)
    return torch.cat([each.new_ones(len(each), 1), each.flatten(1)], dim=1)


def _coefficients(sums: GlobalFit, ridge: float, kept: Tensor) -> Tensor:
    """Return coefficients (P, q) from parts (P, G) of the groups; changes of slope are penalised."""
    gram, moment = (torch.einsum("pg,gqr->pqr", kept.double(), one) for one in (sums.grams, sums.moments))
    penalty = torch.full(gram.shape[1:2], ridge, dtype=torch.float64)
    penalty[0] = penalty[1 :: _KNOTS + 1] = LEAST_RIDGE
    return ridge_fit(gram, moment, penalty * gram[:, :1, 0])[:, :, 0]
