"""Evaluate policies from data alone: a return with an interval, risks, influence of the data, a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from nopg._typing import RewardFunction
from nopg.baselines import baseline
from nopg.bellman import MultistepProblem
from nopg.data import Transitions, start_note
from nopg.data._bounds import check_log
from nopg.data._derive import STARTS
from nopg.data._set_points import with_further_set_points
from nopg.data._start_set import StartSet
from nopg.errors import ArgumentError
from nopg.evaluation._assessment import Assessment, errors_of
from nopg.evaluation._behavior import LoggedBehavior, logged_returns, measured_returns
from nopg.evaluation._comparison import LOGGED, Comparison, choose
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._paths import Paths, follow
from nopg.evaluation._risk import Risk, region_of, risk_along
from nopg.evaluation._verdict import doubts_of_log, lost_starts, rare_events, untried_actions, verdict_of
from nopg.inspect import describe
from nopg.inspect._findings import Finding
from nopg.inspect._wording import count_of
from nopg.models import LocalModel
from nopg.models._residuals import RareRows

_RISK_PATHS = 200
# The least error of the model, and the least gain that counts, as shares of the range of returns that logged
# rewards allow.
_FINEST, _VISIBLE = 1e-4, 1e-5
# The log shows the end of a task to half a step, to all halves alike.
_HALF_A_STEP = 0.5
# Fewer starts are named beside the interval.
_FEW_STARTS = 10


class OfflineEvaluator:
    """Evaluates policies on one model of the plant.

    Args:
        data: The log; returns are those from its starts.
        discount: γ.
        reward: The reward as a function of states, actions and next states, where it is known.
        unknown_value: Value of leaving the data; by default the worst return that logged rewards allow.
        problem: An equation on a fitted model; by default a model is fitted to the data.
    """

    def __init__(
        self,
        data: Transitions,
        discount: float,
        *,
        reward: RewardFunction | None = None,
        unknown_value: float | None = None,
        problem: MultistepProblem | None = None,
    ) -> None:
        if problem is None:
            check_log(data)
            model, starts = LocalModel(data, reward=reward), StartSet.of(data)
            problem = MultistepProblem.build(model, starts, discount, unknown_value=unknown_value)
        self.problem, self.model = problem, problem.model
        self.data, self.discount = data, problem.discount
        self._logged = dict[int | None, Assessment]()

    @classmethod
    def of(cls, problem: MultistepProblem) -> OfflineEvaluator:
        """Return the evaluator on the model of a problem, with its starts."""
        return cls(problem.data, problem.discount, problem=problem)

    def starting_as(self, data: Transitions) -> OfflineEvaluator:
        """Return the evaluator on the same model from the starts of other data, or of these with others."""
        problem = self.problem.replace(start_set=StartSet.of(data))
        return OfflineEvaluator(data, self.discount, problem=problem)

    def at_further_set_points(self) -> OfflineEvaluator:
        """Return the evaluator from starts at other set points too; itself where the log holds none."""
        squares = self.model.squares
        further = with_further_set_points(self.data, None if squares is None else squares.text)
        return self if further is None else self.starting_as(further)

    def assess(self, policy: Any, *, parts: int | None = None) -> Assessment:
        """Return the predicted return of a controller with its interval and verdict.

        Args:
            policy: Anything that acts without memory; see `control_law`. A stochastic one acts by its mode.
            parts: How many parts of the model to follow it through, all by default. With fewer, as while a
                policy is trained, it begins in the starts of the equation alone.
        """
        return self._assessed(self.follow(policy, parts=parts))

    def logged(self, *, parts: int | None = None) -> Assessment:
        """Return the assessment of the logged behaviour, imitated by the nearest rows; see `assess`."""
        if parts not in self._logged:
            behavior = LoggedBehavior(self.data, self.problem.state_widths, parts=self._number(parts))
            paths = self.follow(behavior, parts=parts)
            measured = measured_returns(self.data, self.discount, paths.by_start.starts)
            self._logged[parts] = replace(self._assessed(paths), measured=measured)
        return self._logged[parts]

    def choose(
        self, found: Sequence[Assessment], *, parts: int | None = None, order: Sequence[int] | None = None
    ) -> int:
        """Return the place of the controller to run of some that were assessed with `parts`; see `choose`."""
        return choose(found, self.logged(parts=parts), order)

    def follow(
        self, policy: Any, *, parts: int | None = None, steps: int | None = None, fewest: int | None = None
    ) -> Paths:
        """Return the paths of a policy; see `assess`."""
        law = policy if isinstance(policy, LoggedBehavior) else PolicyLaw.of(policy, self.data.schema)
        number, every = self._number(parts), parts is None
        return follow(self.problem, law, num_parts=number, steps=steps, fewest=fewest, all_starts=every)

    def _number(self, parts: int | None) -> int:
        return self.model.num_parts if parts is None else min(parts, self.model.num_parts)

    def compare(self, policies: Mapping[str, Any], *, baselines: Sequence[str] = ()) -> Comparison:
        """Return assessments of policies and baselines by name, beside that of the logged behaviour."""
        if taken := {LOGGED, *baselines} & {*policies}:
            kind = "the logged behaviour" if LOGGED in taken else "a baseline"
            raise ArgumentError(f"{min(taken)!r} is the name of {kind}; use another name")
        made = {name: baseline(name, self.data, self.discount) for name in baselines}
        found = {name: self.assess(policy) for name, policy in {**policies, **made}.items()}
        found[LOGGED] = base = self.logged()
        gains = {name: one.gain_over(base) for name, one in found.items() if name != LOGGED}
        return Comparison(found, gains, logged_returns(self.data, self.discount))

    def influence(self, policy: Any) -> tuple[tuple[tuple[int, ...], float], ...]:
        """Return the rows of each group of episodes and their influence on the expected return, most first.

        That is the return from all rows less the return from all other groups. Statistics of groups add up.
        """
        rows, law = self.model.rows, PolicyLaw.of(policy, self.data.schema)
        if rows.num_groups == 1:
            return ()
        problem = self.problem.replace(model=self.model.without_groups())
        paths = follow(problem, law, num_parts=rows.num_groups + 1)
        whole, *without = (paths.returns @ paths.weights).tolist()
        found = [
            (tuple(rows.rows_of_group(group).tolist()), whole - rest) for group, rest in enumerate(without)
        ]
        return tuple(sorted(found, key=lambda one: -abs(one[1])))

    def risk(self, policy: Any, region: str | Callable[[Any], Any], steps: int) -> Risk:
        """Return the probability that a policy enters a region within some steps from the starts.

        The state at the start and the one in which a task ends count. For regions see `region_of`.
        """
        if steps < 1:
            raise ArgumentError(f"steps is {steps}; give at least 1")
        inside = region_of(region, self.data.schema)
        paths = self.follow(policy, steps=steps, fewest=_RISK_PATHS)
        return risk_along(paths, inside, self.data, steps)

    @property
    def least_error(self) -> float:
        """The least standard error of the model: no fit is exact."""
        return _FINEST * self.model.return_range(self.discount)

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        return describe(self.data).findings

    @cached_property
    def _rare(self) -> RareRows | None:
        found = self.model.residuals
        return None if found is None else RareRows.of(found, self.model.state_space, self.discount)

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """Why no prediction from this log is `ok`, whatever the controller; known before a training."""
        return doubts_of_log(self.model, self._findings)

    def _assessed(self, paths: Paths) -> Assessment:
        """Return the assessment of a controller by its paths."""
        found, span = paths.by_start, self.model.return_range(self.discount)
        mean, worst, unknown = map(found.starts.mean, (found.returns, found.pessimistic, found.unknown))
        ends = _HALF_A_STEP * float(paths.weights @ paths.end_rewards[0])
        errors = errors_of(paths.returns, paths, found.returns)
        errors = errors.with_bias(math.hypot(ends, paths.held_out.bias), least=self.least_error)
        lost, leaving = lost_starts(found, self.data.schema.measured)
        untried = untried_actions(paths, self.model, self.data.schema.actions)
        verdict, reasons = verdict_of(
            unknown,
            errors.model,
            span,
            doubts=(*leaving, *untried, *rare_events(self._rare, paths), *self.doubts),
            lost=lost,
            one_group=self.model.rows.num_groups == 1,
            findings=self._findings,
        )
        low, high = self.model.return_limits(self.discount)
        return Assessment(
            expected_return=mean,
            interval=(max(min(worst, mean) - errors.half_width, low), min(mean + errors.half_width, high)),
            errors=errors,
            unknown_mass=unknown,
            pessimistic_return=min(worst, mean),
            verdict=verdict,
            reasons=reasons,
            paths=paths,
            notes=self._notes,
            least_gain=_VISIBLE * span,
        )

    @cached_property
    def _notes(self) -> tuple[str, ...]:
        """What an interval rests on beside the model."""
        moved = [one for one in self.data.repairs.notes if one.startswith(STARTS)]
        count = int(min(self.problem.start_set.count, _FEW_STARTS))
        if count < _FEW_STARTS and self.data.start_kind != "rows":
            error = "and returns from others are not in the interval"
            error = "whose sampling error is in the interval" if count > 1 else error
            moved.append(f"{count_of(count, 'start')} in the log, {error}")
        return (start_note(self.data), *moved)


def evaluate_offline(
    policy: Any, data: Transitions, discount: float, *, reward: RewardFunction | None = None
) -> Assessment:
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
    return OfflineEvaluator(data, discount, reward=reward).assess(policy)


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
        baselines: Names of baselines to make of the same log, such as `lqr`; see `nopg.baselines.BASELINES`.
            One with other settings is a policy: `nopg.baselines.baseline`.
        reward: The reward as a function, where it is known.
    """
    return OfflineEvaluator(data, discount, reward=reward).compare(policies, baselines=baselines)
