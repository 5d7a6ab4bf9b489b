"""What a policy will do, from data alone: a return with an interval, risks, and whether they can be known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from scipy import special

from nopg.bellman import MultistepProblem
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.evaluation._behavior import LoggedBehavior, LoggedReturns, logged_returns
from nopg.evaluation._interval import (
    DEVIATIONS,
    NO_UNKNOWN,
    WEAK_UNKNOWN,
    Verdict,
    lower_return,
    standard_error,
    verdict_of,
)
from nopg.evaluation._model_paths import ModelPaths, follow
from nopg.evaluation._policy_law import PolicyLaw
from nopg.evaluation._region import region_of
from nopg.models import LocalModel, RewardFunction

__all__ = [
    "LOGGED",
    "Comparison",
    "Difference",
    "OfflineEvaluation",
    "OfflineEvaluator",
    "Risk",
    "compare",
    "evaluate_offline",
]

LOGGED = "logged"

_RISK_PATHS = 200
_FEW_INSIDE = 5


@dataclass(frozen=True)
class OfflineEvaluation:
    """What the data say of a policy before it runs.

    Attributes:
        expected_return: The discounted return to expect from the starts of the task.
        interval: Where it lies in 95 of 100 datasets, if the verdict is `ok`. Its lower end counts leaving
            the data as worth the least; both stay within the returns that the logged rewards make possible.
        standard_error: Of the expected return, from halves of the episodes and the noise of the plant.
        unknown_mass: The discounted probability of leaving the data.
        pessimistic_return: The return if leaving the data is as bad as anything that was ever logged.
        verdict: `ok`, `weak` or `not identifiable`.
        reasons: Why it is not `ok`.
        paths: Where the policy is expected to go.
    """

    expected_return: float
    interval: tuple[float, float]
    standard_error: float
    unknown_mass: float
    pessimistic_return: float
    verdict: Verdict
    reasons: tuple[str, ...]
    paths: ModelPaths

    def __repr__(self) -> str:
        low, high = self.interval
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return (
            f"OfflineEvaluation(return {self.expected_return:.6g} in [{low:.6g}, {high:.6g}], "
            f"unknown mass {self.unknown_mass:.2%}, {self.verdict}{why})"
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """How much one policy earns more than another, both on the same model.

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
    """Evaluates policies on one model of the plant.

    Args:
        data: The log; returns are asked for from its starts.
        discount: γ.
        model: Of the plant, such as the one a policy was trained on; fitted to the data if not given.
        reward: The reward as a function, where it is known and no model is given.
        unknown_value: What leaving the data is worth; the worst if not given.
    """

    def __init__(
        self,
        data: Transitions,
        discount: float,
        *,
        model: LocalModel | None = None,
        reward: RewardFunction | None = None,
        unknown_value: float | None = None,
    ) -> None:
        self.data, self.model = data, model or LocalModel(data, reward=reward)
        self.problem = MultistepProblem.build(self.model, data.starts, discount, unknown_value=unknown_value)
        self.discount = self.problem.discount

    def evaluate(self, policy: Any) -> OfflineEvaluation:
        """Return what the data say of a policy.

        Args:
            policy: Anything that acts without memory; see `control_law`. A stochastic one acts by its mode.
        """
        return self._evaluation(self.follow(policy))

    def logged(self) -> OfflineEvaluation:
        """Return what the data say of the behaviour that was logged, imitated by its nearest rows."""
        return self._evaluation(self._follow(LoggedBehavior(self.data, self.problem.metric)))

    def follow(self, policy: Any, *, steps: int | None = None) -> ModelPaths:
        """Return the paths of a policy through all parts of the model; see `evaluate`."""
        return self._follow(PolicyLaw.of(policy, self.data.schema), steps=steps)

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
        mean = float(apart[0].mean())
        error = max(standard_error(apart, one.paths), 1e-12 * abs(mean), 1e-300)
        half = DEVIATIONS * error
        return Difference(mean, (mean - half, mean + half), float(special.ndtr(mean / error)))

    def influence(self, policy: Any) -> tuple[tuple[tuple[int, ...], float], ...]:
        """Return the rows of each group of episodes and what the expected return owes to them.

        That is the return from all rows less the return from all other groups: statistics of groups add up,
        so leaving one out is no second regression. The most influential come first.
        """
        rows, law = self.model.rows, PolicyLaw.of(policy, self.data.schema)
        G = rows.num_groups
        if G == 1:
            return ()
        kept = torch.cat([torch.ones(1, G, dtype=torch.bool), ~torch.eye(G, dtype=torch.bool)])
        problem = self.problem.replace(model=self.model.with_parts(kept))
        whole, *without = follow(problem, law, num_parts=G + 1).returns.mean(dim=1).tolist()
        found = [
            (tuple(rows.rows_of_group(group).tolist()), whole - rest) for group, rest in enumerate(without)
        ]
        return tuple(sorted(found, key=lambda one: -abs(one[1])))

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
        paths = self._follow(law, steps=steps, fewest=_RISK_PATHS)
        return _risk(paths, inside, self.data, steps)

    def share_inside(
        self, one: OfflineEvaluation, region: str | Callable[[Any], Any]
    ) -> tuple[float, tuple[float, float]]:
        """Return the share of discounted time that a policy spends in a region, with its interval.

        That is (1 − γ)·Σₜ γᵗ over the steps t that lead into the region, the last step of a task included;
        after the end no time is spent, and after the paths the last fifth of them goes on.

        Args:
            one: What `evaluate` said of the policy.
            region: See `region_of`.
        """
        paths, gamma = one.paths, self.discount
        led_to = torch.cat([paths.states[1:], paths.last[None]])
        entered = region_of(region, self.data.schema)(led_to).double() * paths.going  # (T, P·m)
        weights = (1.0 - gamma) * gamma ** torch.arange(len(entered)).double()
        late = entered[-max(len(entered) // 5, 1) :].mean(dim=0)
        shares = (weights @ entered + gamma ** len(entered) * late).view(paths.num_parts, -1)
        mean = float(shares[0].mean())
        error = standard_error(shares, paths)
        return mean, (max(mean - DEVIATIONS * error, 0.0), min(mean + DEVIATIONS * error, 1.0))

    def _follow(
        self, law: PolicyLaw | LoggedBehavior, *, steps: int | None = None, fewest: int | None = None
    ) -> ModelPaths:
        return follow(self.problem, law, num_parts=self.model.num_parts, steps=steps, fewest=fewest)

    def _evaluation(self, paths: ModelPaths) -> OfflineEvaluation:
        mean, pessimistic = float(paths.returns[0].mean()), float(paths.pessimistic[0].mean())
        error = standard_error(paths.returns, paths, floor=True)
        unknown = float(paths.unknown[0].mean())
        numbers = self.data.episodes
        alone = numbers is not None and bool((numbers == numbers[0]).all())
        verdict, reasons = verdict_of(
            unknown,
            error,
            self.model.return_range(self.discount),
            episodes=self.model.rows.units,
            alone=alone,
            poor_fits=self.model.poor_fits,
        )
        low, high = self.model.return_limits(self.discount)
        ends = (lower_return(paths), mean + DEVIATIONS * error)
        return OfflineEvaluation(
            expected_return=mean,
            interval=(max(ends[0], low), min(ends[1], high)),
            standard_error=error,
            unknown_mass=unknown,
            pessimistic_return=min(pessimistic, mean),
            verdict=verdict,
            reasons=reasons,
            paths=paths,
        )


def evaluate_offline(
    policy: Any, data: Transitions, discount: float, *, reward: RewardFunction | None = None
) -> OfflineEvaluation:
    """Return what the data say of a policy before it runs: its return with an interval, and a verdict.

    No behaviour probabilities, no simulator. For several policies make one `OfflineEvaluator`, or `compare`.

    Args:
        policy: Anything that acts without memory: a trained controller, a function of raw states (m, d_s), a
            model of Stable-Baselines3 or d3rlpy. What it asks for beyond declared bounds is cut off.
        data: The log; the return is that from its starts.
        discount: γ.
        reward: The reward as a function of states, actions and next states, where it is known.

    Example:
        >>> from nopg.envs import Pendulum
        >>> from nopg.envs import UniformAgent, collect
        >>> plant = Pendulum(start="random")
        >>> data = collect(plant, UniformAgent.within(plant), episodes=20, steps=25, seed=0)
        >>> rest = evaluate_offline(lambda states: 0 * states[:, :1], data, 0.9)
        >>> low, high = rest.interval
        >>> low < rest.expected_return < high
        True
    """
    return OfflineEvaluator(data, discount, reward=reward).evaluate(policy)


def compare(
    policies: Mapping[str, Any],
    data: Transitions,
    discount: float,
    *,
    reward: RewardFunction | None = None,
) -> Comparison:
    """Return evaluations of policies by name, with what each gains over the logged behaviour.

    Args:
        policies: By name; see `evaluate_offline`.
        data: The log.
        discount: γ.
        reward: The reward as a function, where it is known.
    """
    return OfflineEvaluator(data, discount, reward=reward).compare(policies)


def _risk(
    paths: ModelPaths, inside: Callable[[torch.Tensor], torch.Tensor], data: Transitions, steps: int
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
    floor = float(special.betaincinv(low * m, m - low * m + 1, 0.025)) if low > 0 else 0.0
    ceiling = float(special.betaincinv(high * m + 1, m - high * m, 0.975)) if high < 1 else 1.0
    low = max(min(floor, low - DEVIATIONS * error[0]), 0.0)
    high = min(max(ceiling, high + DEVIATIONS * error[1]), 1.0)

    rows = int(inside(data.states).sum() + inside(data.next_states[data.terminated]).sum())
    reasons = []
    lost_share = float(lost[:m].mean())
    if lost_share > WEAK_UNKNOWN:
        reasons.append(f"{lost_share:.0%} of the paths leave the data")
    if rows < _FEW_INSIDE:
        reasons.append(f"only {rows} logged states lie inside" if rows else "no logged state lies inside")
    verdict: Verdict = "ok"
    if high - low > 0.5 or lost_share > NO_UNKNOWN:
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
