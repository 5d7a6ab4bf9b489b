"""What a policy will do, from data alone: a return with an interval, risks, and whether they can be known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from scipy import stats

from nopg._checks import check_discount
from nopg._seeding import generator
from nopg.bellman import BellmanSolution, ControlProblem
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.evaluation._behavior import LoggedBehavior, LoggedReturns, logged_returns
from nopg.evaluation._imagined import Imagination, ImaginedPaths, ImaginedPlant
from nopg.evaluation._influence import EquationAnswer, equation_answer
from nopg.evaluation._judge import PolicyLaw
from nopg.evaluation._region import region_of
from nopg.graph import DEFAULT_PRIOR_MASS, NadarayaWatson
from nopg.kernels import Bandwidths

__all__ = [
    "LOGGED",
    "Comparison",
    "Difference",
    "OfflineEvaluation",
    "OfflineEvaluator",
    "Risk",
    "Verdict",
    "compare",
    "evaluate_offline",
    "standard_error",
    "verdict_of",
]

Verdict = Literal["ok", "weak", "not identifiable"]
LOGGED = "logged"

# Calibrated on six plants with known truth; see docs/offline-evaluation.md.
_INFLATION = 1.3
# No answer is trusted to better than this share of its size.
_FINEST = 0.005
# Of the unknown mass, and of the standard error in units of how far logged rewards let returns differ.
_WEAK_UNKNOWN, _NO_UNKNOWN = 0.05, 0.2
_WEAK_ERROR, _NO_ERROR = 0.05, 0.3
_FEWEST_EPISODES = 6
_RISK_PATHS = 200
_FEW_INSIDE = 5


@dataclass(frozen=True)
class OfflineEvaluation:
    """What the data say of a policy before it runs.

    Attributes:
        expected_return: The discounted return to expect from the starts of the task.
        interval: Where it lies in 95 of 100 datasets, if the verdict is `ok`. It counts what the data leave
            open inside of them; what lies outside is counted by `unknown_mass`.
        standard_error: Half the width of the interval, over 1.96.
        unknown_mass: The discounted probability of leaving the data.
        pessimistic_return: The return if leaving the data is as bad as anything that was ever logged.
        leverage: How far predictions lie towards the edge of the data in state and action; see
            `nopg.graph.StepEstimate`.
        verdict: `ok`, `weak` or `not identifiable`.
        reasons: Why it is not `ok`.
        paths: Where the policy is expected to go.
        solve: Solves the paper's equation for the policy.
    """

    expected_return: float
    interval: tuple[float, float]
    standard_error: float
    unknown_mass: float
    pessimistic_return: float
    leverage: float
    verdict: Verdict
    reasons: tuple[str, ...]
    paths: ImaginedPaths
    solve: Callable[[], BellmanSolution]

    @cached_property
    def equation(self) -> EquationAnswer:
        """What the paper's equation says of the policy, and on which transitions that rests."""
        return equation_answer(self.solve())

    def __repr__(self) -> str:
        low, high = self.interval
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return (
            f"OfflineEvaluation(return {self.expected_return:.6g} in [{low:.6g}, {high:.6g}], "
            f"unknown mass {self.unknown_mass:.2%}, {self.verdict}{why})"
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """How much one policy earns more than another, both on the same imagined plants.

    Attributes:
        mean: Of the difference.
        interval: 95 %.
        probability_better: That it is positive.
    """

    mean: float
    interval: tuple[float, float]
    probability_better: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several policies on the same data.

    Attributes:
        evaluations: By name; `logged` is what was logged, imitated.
        gains: Over the logged behaviour, by name.
        seen: What logged episodes really earned, where they tell.
    """

    evaluations: Mapping[str, OfflineEvaluation]
    gains: Mapping[str, Difference]
    seen: LoggedReturns | None

    @property
    def best(self) -> str:
        """The name with the highest lower end of its interval among those that are not unidentifiable."""
        known = {
            name: one for name, one in self.evaluations.items() if one.verdict != "not identifiable"
        } or dict(self.evaluations)
        return max(known, key=lambda name: known[name].interval[0])

    def __str__(self) -> str:
        rows = [("policy", "return", "95 %", "gain over logged", "P(better)", "unknown", "verdict")]
        for name, one in self.evaluations.items():
            gain = self.gains.get(name)
            rows.append(
                (
                    name,
                    f"{one.expected_return:.4g}",
                    "[{:.4g}, {:.4g}]".format(*one.interval),
                    f"{gain.mean:+.3g}" if gain else "",
                    _probability(gain.probability_better) if gain else "",
                    f"{one.unknown_mass:.1%}",
                    one.verdict,
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        )
        return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True, slots=True)
class Risk:
    """The probability of entering a region within some steps.

    Attributes:
        low: The least that is compatible with the data.
        high: The most, everything that leaves the data counted as entering.
        estimate: If the plant goes on outside the data as it does at their edge.
        steps: Within how many.
        rows_inside: Logged states in the region.
        verdict: Whether the data can tell.
        reasons: Why not, or why hardly.
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
        return f"between {_probability(self.low)} and {_probability(self.high)} ({self.verdict}{why})"


class OfflineEvaluator:
    """Evaluates policies on one dataset; what does not depend on the policy is done once.

    Args:
        data: The log; returns are asked for from its starts.
        discount: γ.
        bandwidths: Selected from the data if not given.
        unknown_value: What leaving the data is worth in `pessimistic_return`; the worst if not given.
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
        self.data, self.discount = data, check_discount(discount)
        self.plant = ImaginedPlant(
            data, discount, bandwidths=bandwidths, unknown_value=unknown_value, imagination=imagination
        )

    def evaluate(self, policy: Any) -> OfflineEvaluation:
        """Return what the data say of a policy.

        Args:
            policy: Anything that acts without memory; see `control_law`. A stochastic one acts by its mode.
        """
        law = PolicyLaw.of(policy, self.data.schema)
        return self._answer(self.plant.imagine(law.mode), lambda: self._solve(law))

    def logged(self) -> OfflineEvaluation:
        """Return what the data say of the behaviour that was logged, imitated by its nearest rows."""
        behavior = LoggedBehavior(self.data, self.plant.bandwidths, seed=self.plant.imagination.seed)
        law = PolicyLaw(lambda states: behavior(self.data.schema.encode(states)), self.data.schema)
        return self._answer(self.plant.imagine(behavior), lambda: self._solve(law))

    def compare(self, policies: Mapping[str, Any]) -> Comparison:
        """Return evaluations of policies by name, beside the behaviour that was logged."""
        if LOGGED in policies:
            raise ArgumentError(f"{LOGGED!r} is the name of what was logged; call your policy otherwise")
        evaluations = {name: self.evaluate(policy) for name, policy in policies.items()}
        evaluations[LOGGED] = base = self.logged()
        gains = {name: self.difference(one, base) for name, one in evaluations.items() if name != LOGGED}
        return Comparison(evaluations, gains, logged_returns(self.data, self.discount))

    def difference(self, one: OfflineEvaluation, other: OfflineEvaluation) -> Difference:
        """Return how much the first earns more than the second."""
        apart = one.paths.returns - other.paths.returns
        mean, *halves = apart.mean(dim=1).tolist()
        chance = _chance_error(apart[0], self.plant.repeats)
        error = standard_error(mean, halves, chance, math.hypot(one.paths.tail, other.paths.tail))
        error = max(error, 1e-12 * abs(mean), 1e-300)
        half = 1.96 * error
        return Difference(mean, (mean - half, mean + half), float(stats.norm.cdf(mean / error)))

    def risk(self, policy: Any, region: str | Callable[[Any], Any], steps: int) -> Risk:
        """Return the probability that a policy enters a region within so many steps from the starts.

        Args:
            policy: See `evaluate`.
            region: See `region_of`.
            steps: H.
        """
        if steps < 1:
            raise ArgumentError(f"steps is {steps}; give at least 1")
        law, inside = PolicyLaw.of(policy, self.data.schema), region_of(region, self.data.schema)
        starts = self.plant.starts
        starts = starts.repeat(max(-(-_RISK_PATHS // len(starts)), 1), 1)
        paths = self.plant.imagine(law.mode, steps=steps, starts=starts)
        return _risk(paths, inside, self.data, steps)

    def share_inside(
        self, one: OfflineEvaluation, region: str | Callable[[Any], Any]
    ) -> tuple[float, tuple[float, float]]:
        """Return the share of discounted time that a policy spends in a region, with its interval.

        That is (1 − γ)·Σₜ γᵗ over the steps t that lead into the region, the last step of a task included;
        after the end no time is spent. The interval counts the same errors as that of the return.

        Args:
            one: What `evaluate` said of the policy.
            region: See `region_of`.
        """
        paths, gamma = one.paths, self.discount
        led_to = torch.cat([paths.states[1:], paths.last[None]])
        entered = region_of(region, self.data.schema)(led_to).double() * paths.going  # (T, (B + 1)·m)
        weights = (1.0 - gamma) * gamma ** torch.arange(len(entered)).double()
        late = entered[-max(len(entered) // 5, 1) :]
        ahead = gamma ** len(entered) if len(entered) == self.plant.horizon else 0.0
        shares = (weights @ entered + ahead * late.mean(dim=0)).view(paths.num_parts, -1)
        tail = ahead * float(late.std(dim=0, correction=0)[: shares.shape[1]].mean())
        mean, *halves = shares.mean(dim=1).tolist()
        error = standard_error(mean, halves, _chance_error(shares[0], self.plant.repeats), tail)
        return mean, (max(mean - 1.96 * error, 0.0), min(mean + 1.96 * error, 1.0))

    def _solve(self, law: PolicyLaw) -> BellmanSolution:
        data = self.data
        model = NadarayaWatson(data, self.plant.bandwidths, prior_mass=DEFAULT_PRIOR_MASS)
        problem = ControlProblem.build(model, data.schema.encode(data.starts), discount=self.discount)
        return problem.equation(law, generator(0, "offline evaluation")).solve()

    def _answer(self, paths: ImaginedPaths, solve: Callable[[], BellmanSolution]) -> OfflineEvaluation:
        mean, *halves = paths.returns.mean(dim=1).tolist()
        chance = _chance_error(paths.returns[0], self.plant.repeats)
        error = standard_error(mean, halves, chance, paths.tail, floor=True)
        unknown = float(paths.unknown[0].mean())
        numbers, count = self.data.episodes, int(self.plant.groups.max()) + 1
        alone = numbers is not None and bool((numbers == numbers[0]).all())
        verdict, reasons = verdict_of(unknown, error, self.plant.return_range, episodes=count, alone=alone)
        return OfflineEvaluation(
            expected_return=mean,
            interval=(mean - 1.96 * error, mean + 1.96 * error),
            standard_error=error,
            unknown_mass=unknown,
            pessimistic_return=min(float(paths.pessimistic[0].mean()), mean),
            leverage=paths.leverage,
            verdict=verdict,
            reasons=reasons,
            paths=paths,
            solve=solve,
        )


def standard_error(
    value: float, halves: Sequence[float], chance: float, tail: float, *, floor: bool = False
) -> float:
    """Return the standard error of what all data say, from what halves of them say.

    Args:
        value: What all data say.
        halves: What the halves say; with none the error is infinite.
        chance: The standard error that finitely many paths leave.
        tail: What is uncertain beyond the horizon.
        floor: Whether the error is at least half a percent of the value.
    """
    if not halves:
        return math.inf
    apart = math.sqrt(sum((half - value) ** 2 for half in halves) / len(halves))
    error = math.sqrt((_INFLATION * apart) ** 2 + chance**2 + tail**2)
    return max(error, _FINEST * abs(value)) if floor else error


def verdict_of(
    unknown: float, error: float, return_range: float, *, episodes: int, alone: bool = False
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the gate's word on an answer, and why it is not `ok`.

    Args:
        unknown: The unknown mass.
        error: The standard error.
        return_range: How far returns may differ by the rewards that were logged.
        episodes: How many there are, or parts and rows that stand for episodes.
        alone: Whether all rows are of one episode.
    """
    reasons = []
    relative = error / return_range if return_range > 0 and math.isfinite(error) else 0.0
    if episodes == 1:
        reasons.append("a single episode or row, from which no error can be told")
    elif alone:
        reasons.append("a single episode, whose tenths stand for episodes")
    elif episodes < _FEWEST_EPISODES:
        reasons.append(f"halves of {episodes} episodes tell little about the error")
    if unknown > _WEAK_UNKNOWN:
        reasons.append(f"{unknown:.0%} of the return's weight lies where the data know nothing")
    if relative > _WEAK_ERROR:
        reasons.append(f"the standard error is {relative:.0%} of what logged rewards make possible")
    if unknown > _NO_UNKNOWN or relative > _NO_ERROR or episodes == 1:
        return "not identifiable", tuple(reasons)
    return ("weak" if reasons else "ok"), tuple(reasons)


def evaluate_offline(
    policy: Any,
    data: Transitions,
    discount: float,
    *,
    bandwidths: Bandwidths | None = None,
    imagination: Imagination | None = None,
) -> OfflineEvaluation:
    """Return what the data say of a policy before it runs: its return with an interval, and a verdict.

    No behaviour probabilities, no simulator. For several policies make one `OfflineEvaluator`, or `compare`.

    Args:
        policy: Anything that acts without memory: a trained controller, a function of raw states (m, d_s), a
            model of Stable-Baselines3 or d3rlpy. What it asks for beyond declared bounds is cut off.
        data: The log; the return is that from its starts.
        discount: γ.
        bandwidths: Selected from the data if not given.
        imagination: How much is imagined.

    Example:
        >>> from nopg.environments import Pendulum
        >>> from nopg.rollouts import UniformAgent, collect
        >>> plant = Pendulum(start="random")
        >>> data = collect(plant, UniformAgent.within(plant), episodes=20, steps=25, seed=0)
        >>> rest = evaluate_offline(lambda states: 0 * states[:, :1], data, 0.9)
        >>> low, high = rest.interval
        >>> low < rest.expected_return < high
        True
    """
    evaluator = OfflineEvaluator(data, discount, bandwidths=bandwidths, imagination=imagination)
    return evaluator.evaluate(policy)


def compare(
    policies: Mapping[str, Any],
    data: Transitions,
    discount: float,
    *,
    bandwidths: Bandwidths | None = None,
    imagination: Imagination | None = None,
) -> Comparison:
    """Return evaluations of policies by name, with what each gains over the logged behaviour.

    Args:
        policies: By name; see `evaluate_offline`.
        data: The log.
        discount: γ.
        bandwidths: Selected from the data if not given.
        imagination: How much is imagined.
    """
    evaluator = OfflineEvaluator(data, discount, bandwidths=bandwidths, imagination=imagination)
    return evaluator.compare(policies)


def _chance_error(returns: torch.Tensor, repeats: int) -> float:
    """Return the standard error of a mean (m,) over starts that are each repeated."""
    by_start = returns.view(repeats, -1)
    return float((by_start.var(dim=0).mean() / by_start.numel()).sqrt())


def _risk(
    paths: ImaginedPaths, inside: Callable[[torch.Tensor], torch.Tensor], data: Transitions, steps: int
) -> Risk:
    """Return the risk along paths; see `Risk`."""
    entered = inside(paths.states) & (paths.going > 0)  # (T, (B + 1)·m)
    ever, first = entered.any(dim=0), entered.double().argmax(dim=0)
    at_entry = paths.left.gather(0, first[None])[0]
    going = (paths.going > 0).sum(dim=0) - 1
    at_end = paths.left.gather(0, going[None])[0]
    known = torch.where(ever, at_entry, 0.0)
    lost = torch.where(ever, 1.0 - at_entry, 1.0 - at_end)
    by_part = [part.view(paths.num_parts, -1).mean(dim=1) for part in (known, known + lost, ever.double())]
    low, high, estimate = (float(part[0]) for part in by_part)
    m = paths.returns.shape[1]
    error = [float((part[1:] - part[0]).square().mean().sqrt()) for part in by_part[:2]]
    # By Clopper and Pearson for m paths, and by what the halves say otherwise.
    floor = float(stats.beta.ppf(0.025, low * m, m - low * m + 1)) if low > 0 else 0.0
    ceiling = float(stats.beta.ppf(0.975, high * m + 1, m - high * m)) if high < 1 else 1.0
    low, high = max(min(floor, low - 1.96 * error[0]), 0.0), min(max(ceiling, high + 1.96 * error[1]), 1.0)

    rows = int(inside(data.states).sum() + inside(data.next_states[data.terminated]).sum())
    reasons = []
    lost_share = float(lost[:m].mean())
    if lost_share > _WEAK_UNKNOWN:
        reasons.append(f"{lost_share:.0%} of the paths leave the data")
    if rows < _FEW_INSIDE:
        reasons.append(f"only {rows} logged states lie inside" if rows else "no logged state lies inside")
    verdict: Verdict = "ok"
    if high - low > 0.5 or lost_share > _NO_UNKNOWN:
        verdict = "not identifiable"
    elif reasons:
        verdict = "weak"
    return Risk(low, high, estimate, steps, rows, verdict, tuple(reasons))


def _probability(share: float) -> str:
    """Return a probability as one reads it; never a bare 0 or 1."""
    if share < 0.001:
        return "<0.1 %"
    if share > 0.999:
        return ">99.9 %"
    return f"{100 * share:.1f} %"
