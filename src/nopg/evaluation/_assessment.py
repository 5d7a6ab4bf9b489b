"""The assessment of a controller: what it will return, how far that is known, and a verdict."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import torch
from scipy import special

from nopg.evaluation._held_out import HeldOutErrors
from nopg.evaluation._paths import Paths

Verdict = Literal["ok", "weak", "not identifiable"]

DEVIATIONS = 1.96
# Errors from halves of the groups, as a factor of their root mean square; calibrated on development plants.
INFLATION = 1.3


@dataclass(frozen=True, slots=True)
class Errors:
    """Standard errors of an expected return.

    Attributes:
        model: By halves of the log, held-out rows and the ends of the task.
        starts: Of the mean over new starts like the logged ones, the noise of the paths included.
        freedom: Degrees of freedom of the error of the starts.
    """

    model: float
    starts: float
    freedom: float = math.inf

    def with_bias(self, bias: float, *, least: float = 0.0) -> Errors:
        """Return the errors with a bias of the model, and at least so much of it."""
        return replace(self, model=max(math.hypot(self.model, bias), least))

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval, by Student's t for few starts."""
        if math.isinf(self.freedom):
            return DEVIATIONS * math.hypot(self.model, self.starts)
        # Returns are skewed: most starts of a regulator cost little and few cost much, which a few do not
        # show. Their deviation is therefore its upper 90 % limit.
        hidden = math.sqrt(self.freedom / special.chdtri(self.freedom, 0.9))
        return math.hypot(
            DEVIATIONS * self.model, special.stdtrit(self.freedom, 0.975) * hidden * self.starts
        )


@dataclass(frozen=True, slots=True)
class Gain:
    """How much more one controller returns than another, both on the same model and from the same starts.

    The distribution is normal on either side of the mean; the side of a loss is wider where held-out rows
    say that less is earned than predicted, or where one of them leaves the data.

    Attributes:
        mean: Expected.
        interval: 95 %.
    """

    mean: float
    interval: tuple[float, float]

    @property
    def probability_better(self) -> float:
        """The probability that the gain is positive; above .975 the interval does not hold 0."""
        low, high = self.interval
        width = max(self.mean - low if self.mean > 0 else high - self.mean, 1e-300) / DEVIATIONS
        return float(special.ndtr(self.mean / width))

    def or_measured(self, measured: Gain) -> Gain:
        """Return the narrower of two gains, the one over measured returns where they exclude each other."""
        # The imitated log shares errors with what is compared with it, but may miss what was logged.
        (low, high), (least, most) = self.interval, measured.interval
        return measured if low > most or high < least or most - least < high - low else self

    def to_dict(self) -> dict[str, Any]:
        """Return mean, interval and probability."""
        return {**asdict(self), "probability_better": self.probability_better}


@dataclass(frozen=True)
class Assessment:
    """What a controller is predicted to return, from the data alone.

    Attributes:
        expected_return: The discounted return to expect from new starts like those of the task.
        interval: Where it lies in 95 of 100 datasets, if the verdict is `ok`. Its lower end counts leaving
            the data as worth the least; both stay within the returns that the logged rewards make possible.
        errors: Standard errors of the model and of the sample of starts.
        unknown_mass: The discounted probability of leaving the data.
        pessimistic_return: The return if leaving the data is as bad as anything that was ever logged.
        verdict: `ok`, `weak` or `not identifiable`.
        reasons: Why it is not `ok`.
        notes: What else the interval rests on: where the task starts, exogenous columns, few starts.
        paths: Predicted paths of the controller.
        least_gain: A smaller gain over another controller is none.
        measured: Logged returns from each start of the paths, shape (k,), NaN where too few rows follow it;
            of the logged behaviour alone.
    """

    expected_return: float
    interval: tuple[float, float]
    errors: Errors
    unknown_mass: float
    pessimistic_return: float
    verdict: Verdict
    reasons: tuple[str, ...]
    paths: Paths
    notes: tuple[str, ...] = ()
    least_gain: float = 0.0
    measured: torch.Tensor | None = None

    @property
    def standard_error(self) -> float:
        """Of the expected return."""
        return math.hypot(self.errors.model, self.errors.starts)

    @property
    def held_out(self) -> HeldOutErrors:
        """What errors of the model on episodes that it has not seen would change in the return."""
        return self.paths.held_out

    def gain_over(self, other: Assessment) -> Gain:
        """Return how much more this controller returns than another, errors that both share left out."""
        found = self._gain_on_model(other)
        return found if other.measured is None else found.or_measured(self._gain_on_log(other.measured))

    def _gain_on_model(self, other: Assessment) -> Gain:
        mine, theirs = self.paths.by_start, other.paths.by_start
        expected = mine.returns - theirs.returns
        worst = mine.worst - theirs.worst
        # The logged behaviour draws its actions, so that its paths are repeated on a plant without noise too.
        paths = max(self.paths, other.paths, key=lambda one: one.repeats)
        of_mine, of_theirs = (
            one.returns.repeat(1, paths.repeats // one.repeats) for one in (self.paths, other.paths)
        )
        errors = errors_of(of_mine - of_theirs, paths, expected)
        bias, half = self.held_out.less(other.held_out).certain, errors.half_width
        low, high = sorted((mine.starts.mean(expected), mine.starts.mean(worst)))
        return Gain(mine.starts.mean(expected), (low - half + min(bias, 0.0), high + half + max(bias, 0.0)))

    def _gain_on_log(self, measured: torch.Tensor) -> Gain:
        """Return the gain over returns logged from the same starts (k,), NaN where there are none."""
        mine, kept = self.paths.by_start, measured.isfinite()
        starts = mine.starts.only(kept)
        expected = (mine.returns - measured)[kept]
        worst = (mine.worst - measured)[kept]
        error, freedom = starts.error(expected)
        half = replace(self.errors, starts=error, freedom=freedom).half_width
        means = sorted((starts.mean(expected), starts.mean(worst)))
        return Gain(starts.mean(expected), (means[0] - half, means[1] + half))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields but the paths and what was measured."""
        names = [field.name for field in fields(self) if field.name not in {"paths", "measured"}]
        return {name: getattr(self, name) for name in names} | {"errors": asdict(self.errors)}

    def __repr__(self) -> str:
        low, high = self.interval
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return (
            f"Assessment(return {self.expected_return:.6g} in [{low:.6g}, {high:.6g}], "
            f"unknown mass {self.unknown_mass:.2%}, {self.verdict}{why})"
        )


def errors_of(values: torch.Tensor, paths: Paths, by_start: torch.Tensor | None = None) -> Errors:
    """Return the standard errors of a mean of values (P, m) over paths, such as that of a gain or a cost.

    `by_start` (k,) has the values from each of their starts, where they are known from more of them.
    """
    starts = paths.starts if by_start is None else paths.by_start.starts
    each = values[0].view(paths.repeats, -1)
    error, freedom = starts.error(each.mean(dim=0) if by_start is None else by_start)
    if math.isinf(starts.count) and not starts.drawn and paths.repeats > 1:
        # Declared starts have no spread of their own; in that of others is what noise leaves.
        noise = float(each.var(dim=0) @ paths.starts.weights) * float(starts.weights.square().sum())
        error = math.hypot(error, math.sqrt(noise / (paths.repeats if starts is paths.starts else 1)))
    return Errors(halves_error(values, paths.weights), error, freedom)


def halves_error(values: torch.Tensor, weights: torch.Tensor) -> float:
    """Return the standard error of a mean of values (P, m) over paths by the deviations of halves of the log.

    Estimates from half the rows err more, to the same side where fits are too stiff and to either side where
    they are uncertain; their deviation from the estimate measures its error. Without halves it is infinite.
    """
    value, *halves = (values @ weights).tolist()
    if not halves:
        return math.inf
    return INFLATION * math.sqrt(sum((half - value) ** 2 for half in halves) / len(halves))
