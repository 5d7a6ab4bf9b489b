"""A receding-horizon controller on the local model: plans, the search for better ones, and their use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch

from nopg._seeding import generator
from nopg._typing import ArrayLike, BoolArray, FloatArray, IntArray, as_tensor
from nopg.bellman import MultistepProblem, Solution
from nopg.bellman._multistep_solution import MultistepSolution
from nopg.errors import ArgumentError
from nopg.models._rollout import Rollout, rollout, with_slopes

# Lengths of a step that are tried at once; of equal values the first is taken, which stays.
_STEPS = (0.0, 1.0, 0.5, 0.2, 0.05)
# Damping of the curvature by actions, in ranges of the reward per squared half range of an action: at first,
# at least, and the factors by which it falls after a step that gained and rises after none.
_DAMPING, _LEAST_DAMPING, _FALLS, _RISES = 1e-3, 1e-6, 0.2, 10.0
# Differences of slopes are over this share of the units of inputs.
_APART = 0.05
# Rounds in which several actions are put to their best within limits, one after the other.
_SWEEPS = 10
# A predicted gain below this share of value and range of the reward ends the search.
_TINY = 1e-9
# Random plans: decisions in each, their spread in half ranges of an action, and how many of the best of them
# are improved.
_DECISIONS, _SPREAD, _IMPROVED = 12, 0.5, 3


@dataclass(frozen=True, slots=True)
class Plans:
    """Paths from some states with the feedback that keeps a plant near them: a = aₜ + Kₜ(s − sₜ)."""

    actions: FloatArray  # Shape (T, m, d_a)
    states: FloatArray  # Predicted states, the first ones included, shape (T + 1, m, d_s)
    gains: FloatArray  # K, shape (T, m, d_a, d_s)
    values: FloatArray  # Discounted return of each, its tail included, shape (m,)

    @classmethod
    def of_actions(cls, actions: FloatArray, num_states: int) -> Plans:
        """Return plans of actions (T, m, d_a) without feedback, not yet followed from anywhere."""
        T, m, d_a = actions.shape
        return cls(
            actions, np.zeros((T + 1, m, num_states)), np.zeros((T, m, d_a, num_states)), np.full(m, -np.inf)
        )

    def take(self, plans: IntArray) -> Plans:
        """Return some of the plans, by number."""
        return Plans(self.actions[:, plans], self.states[:, plans], self.gains[:, plans], self.values[plans])

    def beside(self, other: Plans) -> Plans:
        """Return these plans, then the others."""
        actions, states, gains = (
            np.concatenate([getattr(self, name), getattr(other, name)], axis=1)
            for name in ("actions", "states", "gains")
        )
        return Plans(actions, states, gains, np.concatenate([self.values, other.values]))

    def after_a_step(self) -> Plans:
        """Return what is left of the plans, its last step twice."""
        actions, states, gains = (
            np.concatenate([one[1:], one[-1:]]) for one in (self.actions, self.states, self.gains)
        )
        return Plans(actions, states, gains, self.values)


@dataclass(frozen=True, slots=True)
class _Followed:
    """Plans as they went, their paths (shorter if all have ended), and G (T + 1, m) from each step on."""

    plans: Plans
    path: Rollout
    G: FloatArray

    def take(self, paths: IntArray) -> _Followed:
        return _Followed(self.plans.take(paths), self.path.take(paths), self.G[:, paths])


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """Values and improves plans: rewards, the share that leaves the data, a value at the end."""

    problem: MultistepProblem  # Model, discount, value of the unknown, nodes
    tail: torch.Tensor  # Values of the nodes, shape (num_nodes,)
    low: FloatArray  # Least actions, shape (d_a,)
    high: FloatArray  # Largest actions, shape (d_a,)

    def evaluate(self, states: torch.Tensor, plans: Plans) -> Plans:
        """Return plans as they go from raw states (m, d_s), with their feedback, and their values."""
        return self._follow(states, plans, slopes=False).plans

    def improved(self, states: torch.Tensor, plans: Plans, iterations: int) -> Plans:
        """Return plans from raw states (m, d_s) that are at least as good as these.

        Every iteration solves the linear-quadratic task along the paths backwards (the iterative LQR; Li and
        Todorov, 2004) within the limits of actions (Tassa et al., 2014), and follows its feedback with steps
        of several lengths; each path takes its best one.
        """
        now, m, n = self._follow(states, plans, slopes=True), len(states), len(_STEPS)
        damping, lengths = np.full(m, _DAMPING), np.repeat(_STEPS, m)
        everywhere, many = states.repeat(n, 1), np.tile(np.arange(m), n)
        for _ in range(iterations):
            change, gains, gain = self._feedback(now, damping)
            if (gain <= _TINY * (self._reward_range + np.abs(now.plans.values))).all():
                break
            around = replace(now.plans, gains=gains).take(many)
            tried = self._follow(everywhere, around, change[:, many] * lengths[:, None], slopes=True)
            best = tried.plans.values.reshape(n, m).argmax(axis=0)
            now = tried.take(best * m + np.arange(m))
            damping = np.where(best > 0, np.maximum(_FALLS * damping, _LEAST_DAMPING), _RISES * damping)
        return now.plans

    def _follow(
        self, states: torch.Tensor, plans: Plans, change: FloatArray | None = None, *, slopes: bool
    ) -> _Followed:
        """Return plans as they go from raw states, changed by (T, m, d_a)."""
        schema, T = self.problem.model.data.schema, len(plans.actions)

        def act(features: torch.Tensor, t: int) -> torch.Tensor:
            off = schema.difference(torch.as_tensor(plans.states[t]), schema.decode(features)).numpy()
            actions = plans.actions[t] + np.einsum("mas,ms->ma", plans.gains[t], off)
            if change is not None:
                actions = actions + change[t]
            return torch.as_tensor(np.clip(actions, self.low, self.high))

        path = rollout(self.problem.model, act, states, T, slopes=slopes)
        for charge in self.problem.charges:
            path = charge.applied(path)
        between = self.problem.nodes.interpolate(torch.as_tensor(path.states[-1]))
        tail = between.values(self.tail[between.near]).numpy()
        G, _, _ = path.value(self.problem.discount, self.problem.unknown_value, tail)
        left = T - len(path)  # a path that has ended keeps its state
        went = Plans(
            np.concatenate([path.actions, plans.actions[T - left :]]),
            np.concatenate([path.states, path.states[-1:].repeat(left, axis=0)]),
            plans.gains,
            np.where(np.isfinite(G[0]), G[0], -np.inf),
        )
        return _Followed(went, path, G)

    def _feedback(self, now: _Followed, damping: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return changes (T, m, d_a) and gains (T, m, d_a, d_s) that are best to second order.

        The third is Σ slope · change (m,), which is 0 where nothing can be gained. Curvature is that of
        rewards, of the value at the end and of leaving the data along its gradient; that of the dynamics and
        of the charges is left out, and what is convex counts as straight. Damping shortens the changes; the
        gains are those of the task without it, since the next plan may begin with them.
        """
        path, plans = now.path, now.plans
        (T, m, _), d_s = path.actions.shape, path.states.shape[2]
        backups = path.backups(self.problem.discount, self.problem.unknown_value, now.G)
        change, gains = np.zeros_like(plans.actions), np.zeros_like(plans.gains)
        gain, unit = np.zeros(m), self._reward_range * np.diag(((self.high - self.low) / 2) ** -2)
        of_rewards = self._reward_curvature(path)
        end = torch.as_tensor(path.states[-1])
        p, P = self._tail_slopes(end), _concave(self._tail_slopes, end.numpy(), self._units[:d_s])
        for t in reversed(range(T)):
            one = backups[t]
            q, F, u = one.slope(p.T).T, one.move.transpose(2, 0, 1), one.unknowing.T
            Q = one.stays[:, None, None] * (of_rewards[t] + one.goes_on[:, None, None] * (_T(F) @ P @ F))
            Q -= np.abs(one.by_leaving)[:, None, None] * u[:, :, None] * u[:, None, :]
            q_a, Q_as, Q_aa = q[:, d_s:], Q[:, d_s:, :d_s], Q[:, d_s:, d_s:]
            room = self.low - path.actions[t], self.high - path.actions[t]
            k, K = _within(room, q_a, Q_as, Q_aa - _LEAST_DAMPING * unit, damping[:, None, None] * unit)
            change[t], gains[t] = k, K
            gain = (q_a * k).sum(axis=1) + one.stays * one.goes_on * gain
            p = q[:, :d_s] + _times(_T(K), q_a + _times(Q_aa, k)) + _times(_T(Q_as), k)
            P = Q[:, :d_s, :d_s] + _T(K) @ (Q_aa @ K + Q_as) + _T(Q_as) @ K
            P = (P + _T(P)) / 2
        return np.nan_to_num(change), np.nan_to_num(gains), gain

    @property
    def _reward_range(self) -> float:
        return max(self.problem.model.reward_high - self.problem.model.reward_low, np.finfo(np.float64).tiny)

    @property
    def _units(self) -> FloatArray:
        """Units of states and actions, shape (d,)."""
        units: FloatArray = self.problem.model.rows.space.units.numpy()
        return units

    def _tail_slopes(self, states: torch.Tensor | FloatArray) -> FloatArray:
        """Return the derivative (m, d_s) of the value at the end."""
        between = self.problem.nodes.interpolate(torch.as_tensor(states))
        found: FloatArray = between.slopes(self.tail[between.near]).numpy()
        return found

    def _reward_curvature(self, path: Rollout) -> FloatArray:
        """Return second derivatives of the reward along paths, shape (T, m, d, d)."""
        assert path.slopes is not None
        T, m, d_a = path.actions.shape
        d_s = path.states.shape[2]
        x = np.concatenate([path.states[:-1], path.actions], axis=2).reshape(T * m, -1)
        function = self.problem.model.reward_function
        if function is None:
            found = _concave(lambda at: self.problem.model.steps.reward_slopes(at.T).T, x, self._units)
        else:
            moves = path.slopes[0].transpose(0, 3, 1, 2).reshape(T * m, d_s, -1)
            after = path.states[1:].reshape(T * m, d_s)

            def slopes(at: FloatArray) -> FloatArray:
                """Return the derivative by (s, a), s′ moving with them."""
                later = after + _times(moves, at - x)
                _, (s, a, by_later) = with_slopes(function, at[:, :d_s], at[:, d_s:], later)
                return np.concatenate([s, a], axis=1) + _times(_T(moves), by_later)

            found = _concave(slopes, x, self._units)
        return found.reshape(T, m, d_s + d_a, -1)


def _concave(slopes: Callable[[FloatArray], FloatArray], x: FloatArray, units: FloatArray) -> FloatArray:
    """Return second derivatives (n, d, d) at points (n, d) by differences, without what is convex."""
    at, steps = slopes(x), np.diag(_APART * units)
    H = np.stack([(slopes(x + step) - at) * units / _APART for step in steps], axis=2)
    curved, along = np.linalg.eigh((H + _T(H)) / 2)
    return np.asarray((along * np.minimum(curved, 0.0)[:, None]) @ _T(along) / units / units[:, None])


def _within(
    room: tuple[FloatArray, FloatArray],
    q: FloatArray,
    Q_as: FloatArray,
    Q_aa: FloatArray,
    damping: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the change k (m, d_a) within limits with the largest q·k + ½k·(Q_aa − damping)k, and gains.

    One action after the other is put to its best, some times over; what is not at a limit then is solved for.
    What is at a limit has no gains.
    """
    (low, high), d_a, Q = room, q.shape[1], Q_aa - damping
    k = np.zeros_like(q)
    for column in [*range(d_a)] * (_SWEEPS if d_a > 1 else 1):
        rises = q[:, column] + (Q[:, column] * k).sum(axis=1)
        wanted = k[:, column] - rises / Q[:, column, column]
        k[:, column] = np.clip(wanted, low[:, column], high[:, column])
    free = (k > low) & (k < high)
    at_limits = np.where(free, 0.0, k)
    ahead = -((q + _times(Q, at_limits)) * free)[:, :, None]
    solved = at_limits + np.linalg.solve(_among(free, Q), ahead)[:, :, 0]
    inside = ((solved >= low) & (solved <= high)).all(axis=1, keepdims=True)
    gains: FloatArray = np.linalg.solve(_among(free, Q_aa), -Q_as * free[:, :, None])
    return np.where(inside, solved, k), gains


def _among(free: BoolArray, Q: FloatArray) -> FloatArray:
    """Return the rows and columns of Q (m, d, d) that are free (m, d), −1 on the diagonal for others."""
    kept: FloatArray = np.where(free[:, :, None] & free[:, None, :], Q, 0.0)
    return kept - np.eye(free.shape[1]) * ~free[:, :, None]


def _T(A: FloatArray) -> FloatArray:
    return A.swapaxes(-1, -2)


def _times(A: FloatArray, x: FloatArray) -> FloatArray:
    return np.asarray((A @ x[:, :, None])[:, :, 0])


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
        """Return plans from raw states (m, d_s)."""
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
        found = self.controller().act(states)
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
