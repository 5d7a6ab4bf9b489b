"""Regions of the state space: the probability of entering one, and discounted time spent inside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from scipy import special

from nopg._expressions import Expression
from nopg._typing import as_tensor
from nopg._units import check_units
from nopg.data import Schema, Transitions
from nopg.errors import ArgumentError
from nopg.evaluation._assessment import DEVIATIONS, Verdict, errors_of
from nopg.evaluation._paths import Paths
from nopg.evaluation._verdict import NO_UNKNOWN
from nopg.inspect._wording import chance

# From raw states (m, d_s) to whether they lie inside, booleans (m,).
Region = Callable[[torch.Tensor], torch.Tensor]
_FEW_INSIDE = 5
# Share of the paths that may leave the data.
_WEAK_LOST = 0.05


def region_of(region: str | Callable[[Any], Any], schema: Schema) -> Region:
    """Return a region as a function of raw states.

    It is given by such a function, or as `"position > 0.3 or abs(angle) > 0.05"`: names of states, numbers,
    comparisons and what else `Expression` understands.

    Example:
        >>> schema = Schema(("level", "flow"), ("valve",))
        >>> inside = region_of("1 < level < 2 and not flow < 0", schema)
        >>> inside(torch.tensor([[1.5, 1.0], [3.0, 1.0]])).tolist()
        [True, False]
    """
    if isinstance(region, str):
        margin = margin_of(region, schema)
        return lambda states: margin(states) > 0

    def inside(states: torch.Tensor) -> torch.Tensor:
        flat = states.reshape(-1, states.shape[-1])
        found = as_tensor(region(flat)).bool()
        if found.shape != (len(flat),):
            raise ArgumentError(
                f"the region returned shape {tuple(found.shape)} for {len(flat)} states; return one truth "
                "value for each, such as states[:, 0] > 1"
            )
        return found.reshape(states.shape[:-1])

    return inside


def margin_of(region: str, schema: Schema) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return how far raw states (…, d_s) lie inside a region, positive inside, in its own units."""
    expression = Expression(region, "the region")
    check_units(expression, schema.units)
    if not expression.is_condition:
        raise ArgumentError(f"the region {region!r} is not a condition on the states {list(schema.states)}")

    def margin(states: torch.Tensor) -> torch.Tensor:
        found = expression.margin({name: states[..., k] for k, name in enumerate(schema.states)})
        return torch.as_tensor(found)

    margin(torch.zeros(1, len(schema.states), dtype=torch.float64))  # report a wrong name at once
    return margin


@dataclass(frozen=True, slots=True)
class Risk:
    """The probability of entering a region within some steps.

    Attributes:
        low: Lower end; leaving the data counts as not entering.
        high: Upper end; leaving the data counts as entering.
        estimate: With the model extrapolated outside the data.
        steps: Number of steps.
        rows_inside: Logged states in the region.
        verdict: `ok`, `weak` or `not identifiable`.
        reasons: Why it is not `ok`.
    """

    low: float
    high: float
    estimate: float
    steps: int
    rows_inside: int
    verdict: Verdict
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"between {chance(self.low)} and {chance(self.high)} ({self.verdict}{why})"

    def finding(self, most: float) -> str:
        """Return what is shown about a limit on this probability: "kept", "exceeded" or "not shown".

        It is kept where the upper end is within the limit and the verdict is `ok`.
        """
        if self.low > most:
            return "exceeded"
        return "kept" if self.verdict == "ok" and self.high <= most else "not shown"


def risk_along(
    paths: Paths, inside: Callable[[torch.Tensor], torch.Tensor], data: Transitions, steps: int
) -> Risk:
    """Return the risk of a region along paths; some rows of the data lie inside it."""
    # A state counts if the step that led to it was made; so does one in which the task ends.
    led_to = inside(torch.cat([paths.states[1:], paths.last[None]])) & (paths.going > 0)
    entered = torch.cat([inside(paths.states[:1]), led_to])  # (T + 1, (B + 1)·m)
    ever, first = entered.any(dim=0), entered.double().argmax(dim=0)
    at_entry = paths.stays.gather(0, first[None])[0]
    at_end = paths.stays.gather(0, (paths.going > 0).sum(dim=0, keepdim=True))[0]
    known = torch.where(ever, at_entry, 0.0)
    lost = torch.where(ever, 1.0 - at_entry, 1.0 - at_end)
    by_part = [
        part.view(len(paths.returns), -1) @ paths.weights for part in (known, known + lost, ever.double())
    ]
    low, high, estimate = (float(part[0]) for part in by_part)
    m = paths.returns.shape[1]
    error = [float((part[1:] - part[0]).square().mean().sqrt()) for part in by_part[:2]]
    # By Clopper and Pearson for m paths, and by the differences of the halves.
    floor = float(special.betaincinv(low * m, m - low * m + 1, 0.025)) if low > 0 else 0.0
    ceiling = float(special.betaincinv(high * m + 1, m - high * m, 0.975)) if high < 1 else 1.0
    low = max(min(floor, low - DEVIATIONS * error[0]), 0.0)
    high = min(max(ceiling, high + DEVIATIONS * error[1]), 1.0)

    rows = int(inside(data.states).sum() + inside(data.next_states[data.terminated]).sum())
    reasons = []
    lost_share = float(lost[:m] @ paths.weights)
    if lost_share > _WEAK_LOST:
        reasons.append(f"{lost_share:.0%} of the paths leave the data")
    if rows < _FEW_INSIDE:
        reasons.append(f"only {rows} logged states lie inside" if rows else "no logged state lies inside")
    verdict: Verdict = "ok"
    if high - low > 0.5 or lost_share > NO_UNKNOWN:
        verdict = "not identifiable"
    elif reasons:
        verdict = "weak"
    return Risk(low, high, estimate, steps, rows, verdict, tuple(reasons))


def share_along(
    paths: Paths, inside: Callable[[torch.Tensor], torch.Tensor], discount: float
) -> tuple[float, tuple[float, float]]:
    """Return the share of discounted time inside a region along paths, with its interval.

    After the end no time is spent; after the paths the mean of their last fifth continues.
    """
    led_to = inside(torch.cat([paths.states[1:], paths.last[None]])).double()  # (T, P·m)
    entered = led_to * paths.going
    weights = (1.0 - discount) * discount ** torch.arange(len(entered)).double()
    late = paths.goes_on * led_to[-max(len(entered) // 5, 1) :].mean(dim=0)
    shares = (weights @ entered + discount ** len(entered) * late).view(len(paths.returns), -1)
    mean, half = float(shares[0] @ paths.weights), errors_of(shares, paths).half_width
    return mean, (max(mean - half, 0.0), min(mean + half, 1.0))
