"""A receding-horizon controller on the local model, with the value of an equation at the end of its plans."""

from __future__ import annotations

import time
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
from nopg.planning._plan import OpenLoop, Plans, drawn, improved

__all__ = ["Planner", "PlannerConfig", "PlanningController"]

_TIMED_CALLS = 5
# Of random changes: decisions in a plan; their spread in half ranges of an action, and rounds, without a plan
# to go on from.
_DECISIONS = 12
_SPREAD, _FIRST_SPREAD, _FIRST_ROUNDS = 0.3, 0.5, 5


@dataclass(frozen=True, slots=True)
class PlannerConfig:
    """Settings of a planner.

    Attributes:
        horizon: Steps of a plan; by default those of the equation.
        hold: Steps for which random changes of a plan are held; by default a twelfth of the horizon.
        candidates: Plans that are drawn in each round of the cross-entropy search.
        rounds: Rounds of this search, in a controller that goes on from its last plan; without one there are
            five times as many.
        iterations: Steps of the gradient search from the best plan drawn.
        end_value: Whether the value of the policy counts where a plan ends. Without it plans have to be long
            enough to show where they lead; that is better where the policy fails, such as in a swing-up.
        seed: Random seed of the draws.
    """

    horizon: int | None = None
    hold: int | None = None
    candidates: int = 40
    rounds: int = 2
    iterations: int = 4
    end_value: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        lengths = [one for one in (self.horizon, self.hold) if one is not None]
        if min(lengths, default=1) < 1 or min(self.candidates, self.rounds, self.iterations) < 0:
            raise ArgumentError(
                f"horizon = {self.horizon}, hold = {self.hold}, candidates = {self.candidates}, rounds = "
                f"{self.rounds}, iterations = {self.iterations}; lengths must be positive, numbers at least 0"
            )


class Planner:
    """At every state the best sequence of actions on the model; its first action is applied.

    A plan earns the rewards of the model, the unknown value for the share that leaves the data, and the
    value of a policy where it ends. It begins with the policy's own rollout; random changes (the
    cross-entropy method), then a gradient search make it better: by the model's account it is never worse
    than the policy. As a function of raw states (m, d_s) it can be evaluated and simulated like any
    controller; `controller` also goes on from its last plan.

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
        self.task = OpenLoop(problem, values if self.config.end_value else torch.zeros_like(values))
        self.low, self.high = (part.numpy() for part in problem.data.actions.aminmax(dim=0))

    @property
    def horizon(self) -> int:
        """Steps of a plan."""
        return self.config.horizon or self.problem.horizon

    def plan(self, states: torch.Tensor, last: FloatArray | None = None, *, step: int = 0) -> Plans:
        """Return plans from raw states (m, d_s).

        Args:
            states: Raw states.
            last: Plans (T, m, d_a) of the step before, to go on from.
            step: Number of the step, for other draws in every step.
        """
        T, m, config = self.horizon, len(states), self.config
        own = rollout(self.problem.model, lambda features, _: self.policy.mode(features), states, T)
        actions = np.concatenate([own.actions, np.zeros((T - len(own), m, len(self.low)))])
        given = [np.clip(actions, self.low, self.high)]
        if last is not None:
            given.append(np.concatenate([last[1:], last[-1:]]))
        everywhere = states.repeat(len(given), 1)
        tried = self.task.evaluate(everywhere, np.concatenate(given, axis=1), slopes=False)
        best = tried.values.reshape(-1, m).argmax(axis=0)
        begun = np.stack(given)[best, :, np.arange(m)].transpose(1, 0, 2)
        hold = config.hold or max(T // _DECISIONS, 1)
        rounds = config.rounds * (_FIRST_ROUNDS if last is None else 1)
        begun = drawn(
            self.task,
            states,
            begun,
            low=self.low,
            high=self.high,
            draws=self._draws((rounds, config.candidates, -(-T // hold), len(self.low)), step),
            hold=hold,
            spread=_FIRST_SPREAD if last is None else _SPREAD,
        )
        plans = self.task.evaluate(states, begun)
        return improved(self.task, states, plans, low=self.low, high=self.high, iterations=config.iterations)

    def _draws(self, shape: tuple[int, ...], step: int) -> FloatArray:
        """Return standard normal numbers, the same for all states of a step."""
        rng = generator(self.config.seed, f"random plans, step {step}")
        found: FloatArray = torch.randn(shape, generator=rng, dtype=torch.float64).numpy()
        return found

    def __call__(self, states: ArrayLike) -> FloatArray | torch.Tensor:
        """Return the first actions (m, d_a) of plans from raw states (m, d_s), or (d_a,) from (d_s,)."""
        given = as_tensor(states)
        found = self.plan(given.reshape(-1, self.problem.model.num_states)).actions[0]
        found = found[0] if given.ndim == 1 else found
        return torch.as_tensor(found) if isinstance(states, torch.Tensor) else found

    def seconds_per_action(self) -> float:
        """Return the measured wall time of one action at one state, the longest of a few."""
        controller, times = PlanningController(self), []
        states = self.problem.data.states[: _TIMED_CALLS + 1]
        for state in states:
            began = time.perf_counter()
            controller.act(state.numpy())
            times.append(time.perf_counter() - began)
        return max(times[1:], default=times[0])

    def controller(self, *, interval: float | None = None) -> PlanningController:
        """Return a controller that goes on from its last plan.

        Args:
            interval: Sampling interval in s; a planner that takes longer for one action is refused.
        """
        if interval is not None and (taken := self.seconds_per_action()) > interval:
            raise ArgumentError(
                f"one action takes {taken:.3g} s here, longer than the sampling interval of {interval:g} s; "
                "lower horizon, candidates or iterations, or use the trained policy"
            )
        return PlanningController(self)


class PlanningController:
    """A planner in one run, or in several side by side: every plan begins with the last one."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self._last: FloatArray | None = None
        self._step = 0

    def reset(self) -> Self:
        """Forget the last plan, and return the controller."""
        self._last, self._step = None, 0
        return self

    def act(self, state: ArrayLike) -> FloatArray:
        """Return the action (d_a,) at a raw state (d_s,), or actions (m, d_a) at those (m, d_s) of m runs."""
        given = as_tensor(state)
        states = given.reshape(-1, self.planner.problem.model.num_states)
        if self._last is not None and self._last.shape[1] != len(states):
            raise ArgumentError(
                f"{len(states)} states are given, {self._last.shape[1]} in the step before; call reset first"
            )
        self._last = self.planner.plan(states, self._last, step=self._step).actions
        self._step += 1
        action: FloatArray = self._last[0, 0] if given.ndim == 1 else self._last[0]
        return action

    __call__ = act
