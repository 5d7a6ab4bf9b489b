"""A receding-horizon controller on the local model, with the value of an equation at the end of its plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from nopg._seeding import generator
from nopg._typing import ArrayLike, FloatArray, as_tensor
from nopg.bellman import Solution
from nopg.bellman._multistep_solution import MultistepSolution
from nopg.errors import ArgumentError
from nopg.models._rollout import rollout
from nopg.planning._plan import Plans, PlanSearch

# Random plans: decisions in each, their spread in half ranges of an action, and how many of the best of them
# are improved.
_DECISIONS, _SPREAD, _IMPROVED = 12, 0.5, 3


@dataclass(frozen=True, slots=True)
class PlannerConfig:
    """Settings of a planner.

    Attributes:
        horizon: Steps of a plan; by default those of the equation.
        candidates: Random plans to begin with; the best of them are improved beside the policy's own.
        first_iterations: Steps of the search without a last plan to go on from.
        iterations: Steps of the search in a controller that goes on from its last plan.
        end_value: Whether the value of the policy counts where a plan ends. Without it plans have to be long
            enough to show where they lead; that is better where the policy fails, such as in a swing-up.
        seed: Random seed of the draws.
    """

    horizon: int | None = None
    candidates: int = 40
    first_iterations: int = 25
    iterations: int = 2
    end_value: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.horizon is not None and self.horizon < 1) or min(
            self.candidates, self.first_iterations, self.iterations
        ) < 0:
            raise ArgumentError(
                f"horizon = {self.horizon}, candidates = {self.candidates}, first_iterations = "
                f"{self.first_iterations}, iterations = {self.iterations}; the horizon must be positive, "
                "numbers at least 0"
            )


class Planner:
    """At every state the best sequence of actions on the model; its first action is applied.

    A plan earns the rewards of the model, the unknown value for the share that leaves the data, and the
    value of a policy where it ends. The policy's own rollout and the best of some random plans are improved
    by the iterative LQR: by the model's account a plan is never worse than the policy. As a function of raw
    states (m, d_s) it can be evaluated and simulated like any controller; `controller` also goes on from its
    last plan, with the feedback around it.

    Args:
        solution: Of the multi-step equation under the policy, such as `TrainingResult.solution`.
        config: Settings.
    """

    def __init__(self, solution: Solution, config: PlannerConfig | None = None) -> None:
        if not isinstance(solution, MultistepSolution):
            raise ArgumentError("a planner needs a model with rollouts; train with model='local'")
        problem = solution.problem
        if problem.data.schema.levels:
            raise ArgumentError("a planner does not keep the levels of actions; use the trained policy")
        self.problem, self.policy, self.config = problem, solution.policy, config or PlannerConfig()
        values = solution.values[0]
        tail = values if self.config.end_value else torch.zeros_like(values)
        low, high = problem.model.action_limits.numpy()
        self.search = PlanSearch(problem, tail, low, high)

    @property
    def horizon(self) -> int:
        """Steps of a plan."""
        return self.config.horizon or self.problem.horizon

    def plan(self, states: torch.Tensor, last: Plans | None = None) -> Plans:
        """Return plans from raw states (m, d_s).

        Args:
            states: Raw states.
            last: Plans of the step before, to go on from.
        """
        search, m, config = self.search, len(states), self.config
        own = search.evaluate(states, self._by_policy(states))
        if last is not None:
            left = search.evaluate(states, last.after_a_step())
            better = np.where(left.values >= own.values, 0, m) + np.arange(m)
            return search.improved(states, left.beside(own).take(better), config.iterations)
        begun, few = own, min(_IMPROVED, config.candidates)
        if few:
            many = search.evaluate(states.repeat(config.candidates, 1), self._drawn(m))
            best = np.argsort(-many.values.reshape(-1, m), axis=0, kind="stable")[:few]
            begun = own.beside(many.take((best * m + np.arange(m)).ravel()))
        found = search.improved(states.repeat(1 + few, 1), begun, config.first_iterations)
        best = found.values.reshape(-1, m).argmax(axis=0)
        return found.take(best * m + np.arange(m))

    def _by_policy(self, states: torch.Tensor) -> Plans:
        """Return plans of what the policy does."""
        T, d_a, model = self.horizon, self.problem.model.num_actions, self.problem.model
        own = rollout(model, lambda features, _: self.policy.mode(features), states, T)
        actions = np.concatenate([own.actions, np.zeros((T - len(own), len(states), d_a))])
        clipped = np.clip(actions, self.search.low, self.search.high)
        return Plans.of_actions(clipped, model.num_states)

    def _drawn(self, m: int) -> Plans:
        """Return random plans around the middle of the actions, the same for m states, in turn."""
        T, search, count = self.horizon, self.search, self.config.candidates
        hold = max(T // _DECISIONS, 1)
        rng, d_a = generator(self.config.seed, "random plans"), len(search.low)
        draws = torch.randn((-(-T // hold), count, d_a), generator=rng, dtype=torch.float64).numpy()
        unit, middle = (search.high - search.low) / 2, (search.high + search.low) / 2
        actions = np.clip(middle + _SPREAD * unit * draws, search.low, search.high)
        held = actions.repeat(hold, axis=0)[:T].repeat(m, axis=1)
        return Plans.of_actions(held, self.problem.model.num_states)

    def __call__(self, states: ArrayLike) -> FloatArray | torch.Tensor:
        """Return the first actions (m, d_a) of plans from raw states (m, d_s), or (d_a,) from (d_s,)."""
        given = as_tensor(states)
        found = self.plan(given.reshape(-1, self.problem.model.num_states)).actions[0]
        found = found[0] if given.ndim == 1 else found
        return torch.as_tensor(found) if isinstance(states, torch.Tensor) else found

    def controller(self) -> PlanningController:
        """Return a controller that goes on from its last plan."""
        return PlanningController(self)


class PlanningController:
    """A planner in one run, or in several side by side: every plan begins with the last one."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self._last: Plans | None = None

    def reset(self) -> Self:
        """Forget the last plan, and return the controller."""
        self._last = None
        return self

    def act(self, state: ArrayLike) -> FloatArray:
        """Return the action (d_a,) at a raw state (d_s,), or actions (m, d_a) at those (m, d_s) of m runs."""
        given = as_tensor(state)
        states = given.reshape(-1, self.planner.problem.model.num_states)
        before = self._last
        if before is not None and len(before.values) != len(states):
            raise ArgumentError(
                f"{len(states)} states are given, {len(before.values)} in the step before; call reset first"
            )
        self._last = self.planner.plan(states, before)
        first: FloatArray = self._last.actions[0]
        return first[0] if given.ndim == 1 else first

    __call__ = act
