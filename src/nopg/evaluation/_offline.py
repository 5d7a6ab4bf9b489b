"""Evaluate policies from data alone: a return with an interval, risks, influence of the data, a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from scipy import special

from nopg.baselines import baseline
from nopg.bellman import MultistepProblem
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.evaluation._behavior import LoggedBehavior, logged_returns
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._interval import DEVIATIONS, lower_return, standard_error, verdict_of
from nopg.evaluation._model_paths import ModelPaths, follow
from nopg.evaluation._region import region_of
from nopg.evaluation._results import LOGGED, Comparison, Difference, OfflineEvaluation
from nopg.evaluation._risk import Risk, risk_along, share_along
from nopg.inspect._describe import quick_findings
from nopg.inspect._findings import Finding
from nopg.models import LocalModel, RewardFunction

__all__ = ["LOGGED", "OfflineEvaluator", "compare", "evaluate_offline"]

_RISK_PATHS = 200


class OfflineEvaluator:
    """Evaluates policies on one model of the plant.

    Args:
        data: The log; returns are those from its starts.
        discount: γ.
        model: Model of the plant, such as the one a policy was trained on; by default fitted to the data.
        reward: The reward as a function, where it is known and no model is given.
        unknown_value: Value of leaving the data; by default the worst return that logged rewards allow.
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

    @classmethod
    def of(cls, problem: MultistepProblem) -> OfflineEvaluator:
        """Return the evaluator on the model of a problem."""
        v = problem.unknown_value
        return cls(problem.data, problem.discount, model=problem.model, unknown_value=v)

    def evaluate(self, policy: Any) -> OfflineEvaluation:
        """Return the predicted return of a policy with its interval and verdict.

        Args:
            policy: Anything that acts without memory; see `control_law`. A stochastic one acts by its mode.
        """
        return self._evaluation(self.follow(policy))

    def logged(self) -> OfflineEvaluation:
        """Return the evaluation of the logged behaviour, imitated by the nearest rows."""
        return self._evaluation(self._follow(LoggedBehavior(self.data, self.problem.metric)))

    def follow(self, policy: Any, *, steps: int | None = None) -> ModelPaths:
        """Return the paths of a policy through all parts of the model; see `evaluate`."""
        return self._follow(PolicyLaw.of(policy, self.data.schema), steps=steps)

    def compare(self, policies: Mapping[str, Any], *, baselines: Sequence[str] = ()) -> Comparison:
        """Return evaluations of policies by name, beside that of the logged behaviour.

        Args:
            policies: By name; see `evaluate`.
            baselines: Names of baselines to make of the same log and to evaluate too; see
                `nopg.baselines.BASELINES`.
        """
        if taken := {LOGGED, *baselines} & {*policies}:
            kind = "the logged behaviour" if LOGGED in taken else "a baseline"
            raise ArgumentError(f"{min(taken)!r} is the name of {kind}; use another name")
        made = {name: baseline(name, self.data, self.discount) for name in baselines}
        evaluations = {name: self.evaluate(policy) for name, policy in {**policies, **made}.items()}
        evaluations[LOGGED] = base = self.logged()
        gains = {name: self.difference(one, base) for name, one in evaluations.items() if name != LOGGED}
        return Comparison(evaluations, gains, logged_returns(self.data, self.discount))

    def difference(self, one: OfflineEvaluation, other: OfflineEvaluation) -> Difference:
        """Return how much more the first earns than the second.

        The interval allows for both values of leaving the data: as if the data went on, and the least.
        """
        apart = one.paths.returns - other.paths.returns
        mean, worst = float(apart[0].mean()), one.pessimistic_return - other.pessimistic_return
        biased = one.held_out.bias - other.held_out.bias
        error = max(math.hypot(standard_error(apart, one.paths), biased), 1e-12 * abs(mean), 1e-300)
        half = DEVIATIONS * error
        interval = (min(mean, worst) - half, max(mean, worst) + half)
        return Difference(mean, interval, float(special.ndtr(mean / error)))

    def influence(self, policy: Any) -> tuple[tuple[tuple[int, ...], float], ...]:
        """Return the rows of each group of episodes and their influence on the expected return.

        That is the return from all rows less the return from all other groups: statistics of groups add up,
        so leaving one out needs no second regression. The most influential come first.
        """
        rows, law = self.model.rows, PolicyLaw.of(policy, self.data.schema)
        if rows.num_groups == 1:
            return ()
        problem = self.problem.replace(model=self.model.without_groups())
        whole, *without = follow(problem, law, num_parts=rows.num_groups + 1).returns.mean(dim=1).tolist()
        found = [
            (tuple(rows.rows_of_group(group).tolist()), whole - rest) for group, rest in enumerate(without)
        ]
        return tuple(sorted(found, key=lambda one: -abs(one[1])))

    def risk(self, policy: Any, region: str | Callable[[Any], Any], steps: int) -> Risk:
        """Return the probability that a policy enters a region within some steps from the starts.

        The state at the start and the one in which a task ends count.

        Args:
            policy: See `evaluate`.
            region: Such as `"position > 0.3 or abs(angle) > 0.05"`: names of states, numbers, + - * /, abs,
                comparisons, and, or, not. Or a function of raw states (m, d_s).
            steps: Number of steps.
        """
        if steps < 1:
            raise ArgumentError(f"steps is {steps}; give at least 1")
        law, inside = PolicyLaw.of(policy, self.data.schema), region_of(region, self.data.schema)
        paths = self._follow(law, steps=steps, fewest=_RISK_PATHS)
        return risk_along(paths, inside, self.data, steps)

    def share_inside(
        self, one: OfflineEvaluation, region: str | Callable[[Any], Any]
    ) -> tuple[float, tuple[float, float]]:
        """Return the share of discounted time that a policy spends in a region, with its interval.

        That is (1 − γ)·Σₜ γᵗ over the steps t that lead into the region, the last step of a task included.

        Args:
            one: The result of `evaluate` for the policy.
            region: See `risk`.
        """
        return share_along(one.paths, region_of(region, self.data.schema), self.discount)

    def _follow(
        self, law: PolicyLaw | LoggedBehavior, *, steps: int | None = None, fewest: int | None = None
    ) -> ModelPaths:
        return follow(self.problem, law, num_parts=self.model.num_parts, steps=steps, fewest=fewest)

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        return quick_findings(self.data)

    def _evaluation(self, paths: ModelPaths) -> OfflineEvaluation:
        mean, pessimistic = float(paths.returns[0].mean()), float(paths.pessimistic[0].mean())
        error, unknown = standard_error(paths.returns, paths, floor=True), float(paths.unknown[0].mean())
        numbers = self.data.episodes
        verdict, reasons = verdict_of(
            unknown,
            error,
            self.model.return_range(self.discount),
            episodes=self.model.rows.units,
            alone=numbers is not None and bool((numbers == numbers[0]).all()),
            poor_fits=self.model.poor_fits,
            noise=self.model.noise,
            moves=self.model.exogenous_moves,
            findings=self._findings,
        )
        low, high = self.model.return_limits(self.discount)
        return OfflineEvaluation(
            expected_return=mean,
            interval=(max(lower_return(paths), low), min(mean + DEVIATIONS * error, high)),
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
    """Return the predicted return of a policy before it runs, with an interval and a verdict.

    It needs no behaviour probabilities and no simulator. For several policies see `compare`.

    Args:
        policy: Anything that acts without memory: a trained controller, a function of raw states (m, d_s), a
            model of Stable-Baselines3 or d3rlpy. Actions are clipped to declared bounds.
        data: The log; the return is that from its starts.
        discount: γ.
        reward: The reward as a function of states, actions and next states, where it is known.

    Example:
        >>> from nopg.envs import Pendulum, UniformAgent, collect
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
    baselines: Sequence[str] = (),
    reward: RewardFunction | None = None,
) -> Comparison:
    """Return evaluations of policies by name, with the gain of each over the logged behaviour.

    All are judged by one model; `Comparison.best` may be a baseline.

    Args:
        policies: By name; see `evaluate_offline`.
        data: The log.
        discount: γ.
        baselines: Names of baselines that are made of the same log, such as `lqr` and `td3bc`; see
            `nopg.baselines.BASELINES`. One with other settings is a policy: `nopg.baselines.baseline`.
        reward: The reward as a function, where it is known.
    """
    return OfflineEvaluator(data, discount, reward=reward).compare(policies, baselines=baselines)
