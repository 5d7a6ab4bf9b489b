"""Selection of inputs, distances, radius, degree and ridge of each target on held-out groups of rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nopg.models._regression_rows import RegressionRows, design
from nopg.models._sums import LEAST_RIDGE, ChartShape, GlobalFit, kernel_weights, ridge_fit

# Rows whose errors select a shape, at the end and while inputs are tried, and rows they are predicted from:
# the time of the selection is proportional to their products.
_ROWS_HELD_OUT, _ROWS_HELD_OUT_IN_SEARCH, _ROWS_KNOWN = 400, 200, 4_000
# Candidates at the end, and the few while inputs are tried: reference rows per coefficient, ridges.
_SIZES, _RIDGES = (2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0), (1e-6, 1e-4, 1e-2, 1e-1, 1.0)
_FEW_SIZES, _FEW_RIDGES = (3.0, 10.0), (1e-4, 1e-1)
# Rows that a held-out row is compared with: 30, the largest size, for each of 8 coefficients. Of fits with
# more of them the largest sizes are left out.
_MOST_NEIGHBORS = 240
# With more inputs charts are local in few of them, and no polynomial is of degree 2.
_MANY_INPUTS, _MOST_SCHEDULING = 8, 3
# Candidate factors of the weight of an input in distances; 0 makes the fit global in that input.
_FACTORS = (0.0, 0.3, 3.0)
# Errors within this factor of the least, or below the threshold, are equal: the simpler shape is selected.
_AS_GOOD, _NEGLIGIBLE = 1.03, 1e-10
# Up to this error the global fit is selected, even if charts are better.
_ENOUGH = 1e-6
# Squared errors in units of the variance are clipped at this value in R²: an outlier is one bad row.
LARGEST_ERROR = 4.0
# Factor by which the error must fall to keep an input or a distance of its own.
_WORTH_IT = 0.95
# A shape with fewer inputs, or that of another target, fits as well unless more held-out rows are fitted
# worse by it than better, by so many standard deviations of chance: a mean of squares is that of a few rows,
# such as those at a kink.
_SIGNS = 2.0
# Least radius, in units of the inputs.
_LEAST_RADIUS = 1e-9
# Factor by which the error of a target may grow with the shape of another target.
_SHARED = 1.01
# Rows around a held-out one whose residuals are compared with its own, and the least rank correlation of both
# and the least variance of the residuals for which noise that depends on the place is worth charts.
_ROWS_OF_NOISE, _UNEVEN, _VISIBLE_NOISE = 30, 0.3, 1e-3


@dataclass(frozen=True, slots=True)
class HeldOutFit:
    """The selected shape of a target and its error on held-out rows."""

    shape: ChartShape  # of its charts
    error: float  # mean squared error on held-out rows in units of the target's variance, each at most 1
    error_of_all_inputs: float  # the same with all inputs in use and unweighted distances
    r_squared: float  # R² on held-out rows; errors are clipped at two standard deviations of the target


def select_shapes(
    rows: RegressionRows, left_out: Sequence[int] = (), derived: Sequence[int] = ()
) -> list[HeldOutFit]:
    """Return the fit of each target; targets that are fitted as well by the same shape share it.

    Targets left out need no fit; theirs is exact. Derived inputs are computed from others, such as the memory
    of a controller. They are left out where a fit is as good without them: in a log they follow the others,
    elsewhere they may not.
    """
    search = _Search(rows)
    varies = rows.inputs.amax(dim=0) > rows.inputs.amin(dim=0)
    many = int(varies.sum()) > _MANY_INPUTS
    plain = _Inputs(varies, torch.zeros_like(varies, dtype=torch.float64) if many else varies.double())
    base = search.errors(plain, final=True)
    tried, fits = [base], list[HeldOutFit]()
    exact = HeldOutFit(ChartShape(plain.used, plain.metric, 1, 0, math.inf), 0.0, 0.0, 1.0)
    for target in range(rows.targets.shape[1]):
        if target in left_out:
            fits.append(exact)
            continue
        alone = _best(base, target)
        reference = base[alone][target]
        floor = _NEGLIGIBLE if alone.is_local else _ENOUGH
        local = _scheduling(search, plain, target, floor) if many else plain
        inputs = _select_inputs(search, local, target, floor, exact=reference <= floor, derived=derived)
        if inputs is not plain:
            tried.append(search.errors(inputs, final=True))
            best = _best(tried[-1], target)
            fewer = bool((plain.used & ~inputs.used)[list(derived)].any())
            if tried[-1][best][target] < max((_AS_GOOD if fewer else _WORTH_IT) * reference, floor):
                alone = best
        if not alone.is_local and search.uneven(alone, target):
            alone = _best({shape: tried[-1][shape] for shape in tried[-1] if shape.is_local} or base, target)
        shape, error = alone, min(errors[alone][target] for errors in tried if alone in errors)
        enough = max(_SHARED * error, _NEGLIGIBLE)
        others = [
            (other, errors[other][target])
            for k, other in enumerate(fit.shape for fit in fits)
            if k not in left_out
            and (other.is_local or not alone.is_local)
            and not search.mostly_worse(other, alone, target)
            for errors in tried
            if other in errors and errors[other][target] <= enough
        ]
        shape, error = others[0] if others else (shape, error)
        fits.append(HeldOutFit(shape, error, reference, 1.0 - search.unexplained[shape][target]))
    return fits


@dataclass(frozen=True, slots=True, eq=False)
class _Inputs:
    """The inputs that are regressors, and the weight of each in distances."""

    used: Tensor
    metric: Tensor

    @property
    def key(self) -> tuple[object, ...]:
        """A hashable value, equal for equal inputs."""
        return tuple(self.used.tolist()), tuple(self.metric.tolist())

    def changed(self, column: int, weight: float, *, used: bool = True) -> _Inputs:
        """Return the inputs with another weight of one, which may no longer be used."""
        inputs = _Inputs(self.used.clone(), self.metric.clone())
        inputs.used[column], inputs.metric[column] = used, weight
        return inputs


def _scheduling(search: _Search, plain: _Inputs, target: int, floor: float) -> _Inputs:
    """Return inputs of which a few are local, found one by one; charts are linear in all others."""
    best, least = plain, max(search.least(plain, target), floor)
    for _ in range(_MOST_SCHEDULING):
        tried = [best.changed(column, 1.0) for column in best.used.nonzero()[:, 0].tolist()]
        errors = [max(search.least(one, target), floor) for one in tried]
        if min(errors) > _WORTH_IT * least:
            break
        best, least = tried[errors.index(min(errors))], min(errors)
    return best


def _select_inputs(
    search: _Search, plain: _Inputs, target: int, floor: float, *, exact: bool, derived: Sequence[int]
) -> _Inputs:
    """Return the inputs of one target by coordinate search: scale their distances, then drop inputs.

    Distances come first. Charts that are local in all inputs may be worse than others without one of them,
    such as an action with a small price beside a steep penalty, which a fit that is global in it keeps.
    Derived inputs are dropped before that, the latest of them at the beginning. No input is dropped without
    which most held-out rows are fitted worse. Errors below the floor are equal; if the fit is exact with all
    inputs, distances are not scaled.
    """
    if search.spread[target] == 0:
        return plain
    best, least = plain, max(search.least(plain, target), floor)
    columns = plain.used.nonzero()[:, 0].tolist()
    computed = sorted((k for k in columns if k in derived), reverse=True)
    for some, drops in ((computed, True), (() if exact else columns, False), (columns, True)):
        for column in some:
            if not best.used[column] or int(best.used.sum()) == 1:
                continue
            weight, tried = float(best.metric[column]), [best.changed(column, 0.0, used=False)]
            if not drops:
                tried = [best.changed(column, k * weight) for k in _FACTORS]
            for one in tried:
                error = max(search.least(one, target), floor)
                if drops and search.mostly_worse(search.best(one, target), search.best(best, target), target):
                    continue
                if error <= (_AS_GOOD if drops else _WORTH_IT) * least:
                    best, least = one, min(error, least)
    return best


class _Search:
    """Predictions of the rows of each group from the other groups, for many shapes.

    Attributes:
        rows: Those of the log that the search knows.
        space: Units and angles of the inputs.
        spread: Standard deviation of each target.
        unexplained: Mean squared error of each target by shape, large errors cut at the limit of R².
    """

    def __init__(self, rows: RegressionRows) -> None:
        self.rows, self.space = rows.take(rows.sample[:_ROWS_KNOWN]), rows.space
        self.spread = rows.spread
        self.unexplained: dict[ChartShape, list[float]] = {}
        self._scale = torch.where(rows.spread > 0, rows.spread, 1.0)
        self._tried: dict[tuple[object, ...], dict[ChartShape, list[float]]] = {}
        self._uneven: dict[ChartShape, list[float]] = {}
        self._by_row: dict[ChartShape, Tensor] = {}

    def uneven(self, shape: ChartShape, target: int) -> bool:
        """Return whether the noise of a global fit depends on where a row is."""
        return self._uneven[shape][target] > _UNEVEN

    def least(self, inputs: _Inputs, target: int) -> float:
        """Return the least error of a target over a few shapes."""
        if inputs.key not in self._tried:
            self._tried[inputs.key] = self.errors(inputs, final=False)
        return min(errors[target] for errors in self._tried[inputs.key].values())

    def best(self, inputs: _Inputs, target: int) -> ChartShape:
        """Return the shape with the least error of a target among a few."""
        self.least(inputs, target)
        errors = self._tried[inputs.key]
        return min(errors, key=lambda shape: errors[shape][target])

    def mostly_worse(self, one: ChartShape, other: ChartShape, target: int) -> bool:
        """Return whether a shape fits most held-out rows worse than another one, by a sign test."""
        mine, its = (self._by_row[shape][:, target] for shape in (one, other))
        apart = mine[: len(its)].clamp(min=_NEGLIGIBLE) - its[: len(mine)].clamp(min=_NEGLIGIBLE)
        return float(apart.sign().sum()) > _SIGNS * math.sqrt(int((apart != 0).sum()))

    def errors(self, inputs: _Inputs, *, final: bool) -> dict[ChartShape, list[float]]:
        """Return the error of each target for every candidate shape."""
        rows, errors = self.rows, dict[ChartShape, list[float]]()
        held_out = torch.arange(min(_ROWS_HELD_OUT if final else _ROWS_HELD_OUT_IN_SEARCH, len(rows)))
        squared, near = self._neighbors(inputs, held_out)
        everywhere = ChartShape(inputs.used, inputs.metric, 1, 0, math.inf)

        def note(shape: ChartShape, missed: Tensor) -> None:
            wrong = (missed / self._scale).square()
            errors[shape] = wrong.clamp(max=1.0).mean(dim=0).tolist()
            self._by_row[shape] = wrong
            self.unexplained[shape] = wrong.clamp(max=LARGEST_ERROR).mean(dim=0).tolist()

        if near.shape[1] == 0:
            note(everywhere, self._scale.expand(len(held_out), -1))
            self._uneven[everywhere] = [0.0] * len(self._scale)
            return errors
        regressors = inputs.used.nonzero()[:, 0]
        degrees = (1, 2) if len(regressors) <= _MANY_INPUTS else (1,)
        missed = {g: self._residuals(inputs, held_out, near, g) for g in degrees}
        for g, (around, truth) in missed.items():
            shape = replace(everywhere, global_degree=g)
            note(shape, truth)
            self._uneven[shape] = self._unevenness(around, truth).tolist()
        if not bool((inputs.metric > 0).any()):
            return errors
        apart = self.space.offsets(rows.inputs[held_out][:, None], rows.inputs[near])[:, :, regressors]
        phi, local = {degree: design(apart, degree) for degree in degrees}, inputs.metric[regressors]
        sizes, ridges = (_SIZES, _RIDGES) if final else (_FEW_SIZES, _FEW_RIDGES)
        plans = [*itertools.product((1,), degrees, sizes)]
        plans += [(2, 1, size) for size in _FEW_SIZES if final and 2 in degrees]
        for g, degree, size in plans:
            residuals, truth = missed[g]
            shape = ChartShape(inputs.used, inputs.metric, degree, 0, 0.0, g)
            K = math.ceil(size * shape.num_coefficients)
            if near.shape[1] < K:
                continue
            radius = squared[:, K - 1 : K].sqrt() * (1.0 + 1e-6)
            kappa = kernel_weights(squared[:, :K], radius) * rows.weights[near][:, :K]
            weighted = phi[degree][:, :K] * kappa[:, :, None]
            gram, moment = weighted.mT @ phi[degree][:, :K], weighted.mT @ residuals[:, :K]
            # Penalties are those of offsets in radii.
            scaled = torch.where(local > 0, local / radius.clamp(min=_LEAST_RADIUS), 1.0)
            units = design(scaled, degree)[:, :, None]
            gram, moment, total = gram * units * units.mT, moment * units, gram[:, 0, 0, None]
            for ridge in ridges:
                penalty = ((ridge + LEAST_RIDGE) * total).expand(-1, gram.shape[1])
                level = ridge_fit(gram, moment, penalty)[:, 0]
                note(replace(shape, num_neighbors=K, ridge=ridge), level - truth)
        return errors

    def _unevenness(self, around: Tensor, own: Tensor) -> Tensor:
        """Return the rank correlation (t,) of the size of residuals (m, t) with that of their neighbours'.

        The residuals around (m, K, t) are those at the nearest rows of other groups.
        """
        ranks = [
            size.argsort(dim=0).argsort(dim=0).double()
            for size in (around[:, :_ROWS_OF_NOISE].abs().mean(dim=1), own.abs())
        ]
        one, other = (rank - rank.mean(dim=0) for rank in ranks)
        correlation = (one * other).sum(dim=0) / one.square().sum(dim=0).clamp(min=1.0)
        visible = (own / self._scale).square().mean(dim=0) > _VISIBLE_NOISE
        return torch.where(visible, correlation, 0.0)

    def _neighbors(self, inputs: _Inputs, held_out: Tensor) -> tuple[Tensor, Tensor]:
        """Return squared distances and indices (m, K) of the nearest rows of other groups."""
        rows = self.rows
        points = self.space.embed(rows.inputs, inputs.metric)
        squared = torch.cdist(points[held_out], points).square()
        own = rows.groups[held_out][:, None] == rows.groups
        wanted = max(_MOST_NEIGHBORS, math.ceil(_FEW_SIZES[-1] * (1 + int(inputs.used.sum()))))
        most = min(wanted, int((~own).sum(dim=1).min()))
        squared, near = squared.masked_fill(own, math.inf).topk(most, dim=1, largest=False)
        return squared, near

    def _residuals(
        self, inputs: _Inputs, held_out: Tensor, near: Tensor, degree: int
    ) -> tuple[Tensor, Tensor]:
        """Return residuals of global fits without a row's group, at its neighbours (m, K, t) and itself."""
        rows = self.rows
        features = self.space.features(rows.inputs, inputs.used, degree)
        whole = GlobalFit.of(rows, features, list(range(rows.targets.shape[1])))
        fits = whole.coefficients(~torch.eye(rows.num_groups, dtype=torch.bool))
        left, own = rows.targets - features @ fits, rows.groups[held_out]  # (G, n, t), (m,)
        return left[own[:, None], near], left[own, held_out]


def _best(errors: dict[ChartShape, list[float]], target: int) -> ChartShape:
    """Return the simplest shape whose error is near the least."""
    least = _AS_GOOD * min(each[target] for each in errors.values())
    floors = {True: _NEGLIGIBLE, False: _ENOUGH}
    good = [shape for shape, each in errors.items() if each[target] <= max(least, floors[shape.is_local])]
    return min(
        good,
        key=lambda shape: (
            shape.is_local,
            shape.global_degree,
            shape.num_coefficients,
            -shape.ridge,
            -shape.num_neighbors,
        ),
    )
