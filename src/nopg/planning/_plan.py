"""The value of open-loop plans on a model, its gradient, and two searches for better plans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nopg._typing import BoolArray, FloatArray
from nopg.bellman._multistep_terms import MultistepTerms
from nopg.models._rollout import Rollout, rollout

__all__ = ["OpenLoop", "Plans", "drawn", "improved"]

# Curvature pairs of the search; its first and longest step, in half ranges of an action; by what a step that
# gained nothing is shortened.
_PAIRS, _FIRST_STEP, _LONGEST_STEP, _SHORTER = 8, 0.3, 1.0, 0.3
_TINY = 1e-12
# Of the drawn plans, the share to which the next draws are fitted; the part of the old spread that stays.
_ELITE, _SPREAD_KEPT = 0.15, 0.1


@dataclass(frozen=True, slots=True)
class Plans:
    """Sequences of actions from some states, with their value by a model.

    Attributes:
        actions: Shape (T, m, d_a).
        values: Discounted return of each, its tail included, shape (m,).
        states: Predicted states, the first ones included, shape (T + 1, m, d_s).
        slopes: ∂value/∂action, shape (T, m, d_a); empty if not requested.
    """

    actions: FloatArray
    values: FloatArray
    states: FloatArray
    slopes: FloatArray

    def where(self, chosen: BoolArray, other: Plans) -> Plans:
        """Return these plans where `chosen` (m,) is true, elsewhere the others."""
        pick = chosen[:, None]
        return Plans(
            np.where(pick, self.actions, other.actions),
            np.where(chosen, self.values, other.values),
            np.where(pick, self.states, other.states),
            np.where(pick, self.slopes, other.slopes),
        )


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Values plans on the model of a problem: rewards, the share that leaves the data, a value at the end.

    Attributes:
        problem: Model, discount, value of the unknown, nodes.
        tail: Values of the nodes, shape (num_nodes,).
    """

    problem: MultistepTerms
    tail: torch.Tensor

    def evaluate(self, states: torch.Tensor, actions: FloatArray, *, slopes: bool = True) -> Plans:
        """Return plans of actions (T, m, d_a) from raw states (m, d_s) with their values.

        A path's share that leaves the data has the value of the unknown, as in the equation.
        """
        given = torch.as_tensor(actions)
        path = rollout(self.problem.model, lambda _, t: given[t], states, len(actions), slopes=slopes)
        return self.valued(path, actions, slopes=slopes)

    def valued(self, path: Rollout, actions: FloatArray, *, slopes: bool) -> Plans:
        """Return the plans of a rollout; actions (T, m, d_a) may be more than it took to its end."""
        problem, (T, m, _) = self.problem, path.actions.shape
        for charge in problem.charges:
            path = charge.applied(path, slopes=slopes)
        between = problem.nodes.interpolate(torch.as_tensor(path.states[-1]))
        at_nodes = self.tail[between.near]
        G, alive, _ = path.value(problem.discount, problem.unknown_value, between.values(at_nodes).numpy())
        found = np.zeros(actions.shape if slopes else (0, m, actions.shape[2]))
        if slopes:
            by_state = np.zeros((T, actions.shape[2], path.states.shape[2], m))  # nothing is fed back
            own = path.action_slopes(
                problem.discount,
                problem.unknown_value,
                G,
                tail_slope=between.slopes(at_nodes).T.numpy(),
                by_state=by_state,
            )
            found[:T] = (problem.discount ** np.arange(T)[:, None] * alive[:-1])[:, :, None] * own
        ended = path.states[-1:].repeat(len(actions) - T, axis=0)  # a path that has ended keeps its state
        return Plans(actions, G[0], np.concatenate([path.states, ended]), found)


def drawn(
    task: OpenLoop,
    states: torch.Tensor,
    actions: FloatArray,
    *,
    low: FloatArray,
    high: FloatArray,
    draws: FloatArray,
    hold: int,
    spread: float,
) -> FloatArray:
    """Return plans (T, m, d_a) at least as good, by the cross-entropy method around those given.

    Args:
        task: Values the plans.
        states: Raw states (m, d_s).
        actions: To begin with, (T, m, d_a).
        low: Least actions, shape (d_a,).
        high: Largest actions, shape (d_a,).
        draws: Standard normal numbers (rounds, k, ⌈T/hold⌉, d_a), the same for all states.
        hold: Steps for which a change of the plan is held.
        spread: Standard deviation of the first changes, in half ranges of an action.
    """
    T, m, d_a = actions.shape
    rounds, k, decisions = draws.shape[:3]
    if not rounds * k:
        return actions
    unit, elite = (high - low) / 2, max(round(_ELITE * k), 1)

    def changed(by: FloatArray) -> FloatArray:
        plans: FloatArray = np.clip(actions + unit * by.repeat(hold, axis=-3)[..., :T, :, :], low, high)
        return plans

    middle, best = np.zeros((2, decisions, m, d_a))
    deviation = np.full_like(middle, spread)
    for draw in draws:
        changes = np.concatenate([best[None], middle[None], middle + deviation * draw[:, :, None]])
        plans = changed(changes).transpose(1, 0, 2, 3).reshape(T, -1, d_a)
        values = task.evaluate(states.repeat(len(changes), 1), plans, slopes=False).values
        order = np.argsort(-values.reshape(-1, m), axis=0)[:elite]
        chosen = np.take_along_axis(changes, order[:, None, :, None], axis=0)
        best, middle = chosen[0], chosen.mean(axis=0)
        deviation = chosen.std(axis=0) + _SPREAD_KEPT * deviation
    return changed(best)


def improved(
    task: OpenLoop, states: torch.Tensor, plans: Plans, *, low: FloatArray, high: FloatArray, iterations: int
) -> Plans:
    """Return plans at least as good, by projected steps of L-BFGS, each state with a step of its own.

    Args:
        task: Values the plans.
        states: Raw states (m, d_s).
        plans: To begin with, with slopes.
        low: Least actions, shape (d_a,).
        high: Largest actions, shape (d_a,).
        iterations: Number of rollouts.
    """
    unit, step = (high - low) / 2, np.ones(plans.actions.shape[1])
    memory: list[tuple[FloatArray, FloatArray]] = []
    for _ in range(iterations):
        x, g = plans.actions / unit, plans.slopes * unit
        free = ~(((plans.actions <= low) & (g < 0)) | ((plans.actions >= high) & (g > 0)))
        direction = _ascent_direction(g * free, memory) * free
        longest = np.abs(direction).max(axis=(0, 2), initial=0.0)
        limit = _LONGEST_STEP / np.maximum(longest, _TINY)
        scale = step * (np.minimum(limit, 1.0) if memory else _FIRST_STEP / _LONGEST_STEP * limit)
        moved = np.clip(plans.actions + scale[None, :, None] * direction * unit, low, high)
        tried = task.evaluate(states, moved)
        better = tried.values > plans.values
        change = np.where(better[:, None], tried.actions / unit - x, 0.0)
        memory.append((change, np.where(better[:, None], g - tried.slopes * unit, 0.0)))
        memory = memory[-_PAIRS:]
        step = np.where(better, np.minimum(2.0 * step, 1.0), _SHORTER * step)
        plans = tried.where(better, plans)
    return plans


def _ascent_direction(g: FloatArray, memory: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Return H g (T, m, d_a), H the inverse curvature by the two-loop recursion, for each state apart."""
    q, used = g.copy(), []
    scale = np.ones(g.shape[1])
    for change, fall in memory:  # oldest first; of a concave function both point the same way
        sy, yy = _dot(change, fall), _dot(fall, fall)
        good = sy > 1e-8 * np.sqrt(_dot(change, change) * yy) + _TINY**2
        used.append((change, fall, np.where(good, 1.0 / np.where(good, sy, 1.0), 0.0)))
        scale = np.where(good, sy / np.where(good, yy, 1.0), scale)
    shares = []
    for change, fall, rho in reversed(used):
        share = rho * _dot(change, q)
        shares.append(share)
        q = q - share[None, :, None] * fall
    q = scale[None, :, None] * q
    for (change, fall, rho), share in zip(used, reversed(shares), strict=True):
        q = q + (share - rho * _dot(fall, q))[None, :, None] * change
    return q


def _dot(x: FloatArray, y: FloatArray) -> FloatArray:
    found: FloatArray = np.einsum("tma,tma->m", x, y)
    return found
