"""Rollouts of a controller on a local model, their value and its derivative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nopg._typing import BoolArray, FloatArray, IntArray, RewardFunction
from nopg.models._limits import in_turn
from nopg.models._local_model import LocalModel

Act = Callable[[Tensor, int], Tensor]
"""Actions (m, d_a) at state features (m, d_f) in step t."""

# Rate of leaving the data, per effective horizon 1/(1 − γ), at an unknown share m: −κ log(1 − m), capped.
_LEAVING_RATE, _FASTEST_LEAVING = 20.0, 10.0


def leaving_share(log_odds: FloatArray, discount: float) -> tuple[FloatArray, FloatArray]:
    """Return the share of a path that leaves the data in one step, and its derivative by the log-odds of m.

    The rate is per effective horizon, so it does not depend on the sampling time of the plant.

    Example:
        >>> fast, slow = (leaving_share(np.array([-3.0]), gamma)[0][0] for gamma in (0.9, 0.99))
        >>> bool(abs((1 - fast) - (1 - slow) ** 10) < 1e-12)
        True
    """
    rate = _LEAVING_RATE * np.logaddexp(0.0, log_odds)  # −log(1 − m) = log(1 + odds)
    inside = rate < _FASTEST_LEAVING
    stays = np.exp((discount - 1.0) * np.minimum(rate, _FASTEST_LEAVING))
    slope = (1.0 - discount) * stays * _LEAVING_RATE * np.exp(log_odds - np.logaddexp(0.0, log_odds))
    return 1.0 - stays, np.where(inside, slope, 0.0)


@dataclass(frozen=True, slots=True)
class Backup:
    """Derivatives of a step of m paths: its part of the return is r + γ G′, or v where it leaves the data."""

    move: FloatArray  # ∂s′/∂x for x = (s, a), (d_s, d, m)
    rewarding: FloatArray  # ∂r/∂x, (d, m)
    unknowing: FloatArray  # ∂log-odds/∂x of the unknown share, (d, m)
    stays: FloatArray  # share that stays in the data, (m,)
    goes_on: FloatArray  # γ times the share that does not end, (m,)
    by_leaving: FloatArray  # derivative of the return by these log-odds, (m,)

    def slope(self, later: FloatArray) -> FloatArray:
        """Return ∂G/∂x (d, m), given the derivative (d_s, m) of G′ by s′."""
        ahead = self.rewarding + self.goes_on * (later[:, None] * self.move).sum(axis=0)
        return np.asarray(self.stays * ahead + self.by_leaving * self.unknowing)


@dataclass(frozen=True, slots=True)
class Rollout:
    """Rollouts of one controller."""

    states: FloatArray  # raw states, the final ones included, (T + 1, m, d_s)
    measured: FloatArray  # the same as the sensors give them; the controller acts on these
    actions: FloatArray  # (T, m, d_a)
    rewards: FloatArray  # (T, m)
    log_odds: FloatArray  # log-odds of the unknown share at each (s, a), (T, m)
    going: FloatArray  # share of a path that had not ended before the step, here 1 or 0, (T + 1, m)
    costs: FloatArray  # further columns that the model predicts, (k, T, m)
    # ∂s′/∂x (T, d_s, d, m), ∂r/∂x (T, d, m) and ∂log-odds/∂x (T, d, m) for x = (s, a), if recorded
    slopes: tuple[FloatArray, FloatArray, FloatArray] | None
    cost_slopes: FloatArray | None  # ∂c/∂x (k, T, d, m), if recorded

    def __len__(self) -> int:
        return len(self.actions)

    def value(
        self, discount: float, unknown_value: float, tail: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the return G (T + 1, m) from each step on, with value v for leaving the data.

        The second and third are α (T + 1, m), the share of a path that has neither ended nor left the data,
        and the discounted share (m,) that leaves them. The tail (m,) is the value of the last states, 0 by
        default.
        """
        T, m = self.rewards.shape
        leaves, _ = leaving_share(self.log_odds, discount)
        alive = self.stays(discount) * self.going
        lost = np.einsum("t,tm->m", discount ** np.arange(T), alive[:-1] * leaves)
        G, goes_on = np.zeros((T + 1, m)), discount * self._goes_on
        if tail is not None:
            G[T] = tail
        for t in reversed(range(T)):
            ahead = self.rewards[t] + goes_on[t] * G[t + 1]
            G[t] = (1.0 - leaves[t]) * ahead + leaves[t] * unknown_value
        return G, alive, lost

    def stays(self, discount: float) -> FloatArray:
        """Return the share (T + 1, m) of a path that has not left the data, whether or not it has ended."""
        leaves, _ = leaving_share(self.log_odds, discount)
        return np.cumprod(np.concatenate([np.ones_like(leaves[:1]), 1.0 - leaves]), axis=0)

    @property
    def _goes_on(self) -> FloatArray:
        """The share (T, m) of what had not ended before a step that does not end with it."""
        before, after = self.going[:-1], self.going[1:]
        return np.divide(after, before, out=np.zeros_like(after), where=before > 0)

    def take(self, paths: IntArray) -> Rollout:
        """Return some of the paths, by number."""
        slopes, by_cost = self.slopes, self.cost_slopes
        names = ("states", "measured", "actions", "rewards", "log_odds", "going")
        return replace(
            self,
            **{name: getattr(self, name)[:, paths] for name in names},
            costs=self.costs[:, :, paths],
            slopes=slopes and (slopes[0][..., paths], slopes[1][..., paths], slopes[2][..., paths]),
            cost_slopes=None if by_cost is None else by_cost[..., paths],
        )

    def staying(self) -> Rollout:
        """Return the same rollouts with no path leaving the data."""
        return replace(self, log_odds=np.full_like(self.log_odds, -np.inf))

    def rewarded(self, rewards: FloatArray, by_x: FloatArray) -> Rollout:
        """Return the same rollouts with other rewards (T, m) and, if recorded, their slopes (T, d, m)."""
        slopes = self.slopes and (self.slopes[0], by_x, self.slopes[2])
        return replace(self, rewards=rewards, slopes=slopes)

    def action_slopes(
        self,
        discount: float,
        unknown_value: float,
        G: FloatArray,
        *,
        tail_slope: FloatArray,
        by_state: FloatArray,
    ) -> FloatArray:
        """Return ∂G_t/∂a_t (T, m, d_a) by the chain rule, backwards through the steps; see `value` for G.

        The tail has the derivative (d_s, m) by the last states, actions that by the states, (T, d_a, d_s, m).
        """
        slopes, p, d_s = np.empty_like(self.actions), tail_slope, self.states.shape[2]
        backups = self.backups(discount, unknown_value, G)
        for t in reversed(range(len(self))):
            q = backups[t].slope(p)
            slopes[t] = q[d_s:].T
            p = q[:d_s] + (q[d_s:, None] * by_state[t]).sum(axis=0)
        return slopes

    def backups(self, discount: float, unknown_value: float, G: FloatArray) -> list[Backup]:
        """Return the derivatives of every step; see `value` for G."""
        assert self.slopes is not None
        leaves, rises = leaving_share(self.log_odds, discount)
        goes_on = discount * self._goes_on
        by_leaving = (unknown_value - self.rewards - goes_on * G[1:]) * rises
        return [Backup(*parts) for parts in zip(*self.slopes, 1.0 - leaves, goes_on, by_leaving, strict=True)]


@torch.no_grad()
def rollout(
    model: LocalModel,
    act: Act,
    states: Tensor,
    steps: int,
    *,
    part: IntArray | None = None,
    noise: FloatArray | None = None,
    slopes: bool = False,
) -> Rollout:
    """Return rollouts of a controller on the model; a path that has ended keeps its state.

    The controller acts on measured states, which rewards and the end of the task depend on as well.

    Args:
        model: Model of the plant.
        act: The controller.
        states: Raw initial states, shape (m, d_s).
        steps: Largest number of steps; fewer if all paths end.
        part: Part of the model for each path, shape (m,).
        noise: Standard normal numbers for disturbances and sensors, shape (steps, m, 2 d_s); without them the
            plant has no noise.
        slopes: Whether to record derivatives.
    """
    low, high = model.bounds
    known = model.steps.known
    d_s, costs = model.num_states, slice(model.num_states + 1, model.num_states + 1 + model.num_costs)
    s = in_turn(np.ascontiguousarray(states.numpy().T), *model.turns)
    going = np.ones(len(states), dtype=bool)
    visited, alive = [s], [going]
    y, seen = s, [s]
    steps_made, tape = list[tuple[FloatArray, ...]](), list[tuple[FloatArray, ...]]()
    for t in range(steps):
        a = act(model.data.schema.encode(torch.as_tensor(y.T)), t).detach().double().numpy().T
        inputs, measured = np.concatenate([s, a]), None if y is s else np.concatenate([y, a])
        out, slope = _step(model, inputs, measured, part, going, slopes=slopes, noise=noise is not None)
        wanted = s + out[:d_s]
        if noise is not None:
            z = model.noise.factor @ noise[t, :, :d_s].T
            wanted += out[-1 - d_s : -1] * z
            model.steps.exogenous.move(wanted, s, noise[t, :, :d_s].T, part)
        rewards = np.clip(out[d_s], *model.reward_clamp)
        if slopes:
            by_x = slope[:d_s] if noise is None else slope[:d_s] + slope[-1 - d_s : -1] * z[:, None]
            by_x[np.arange(d_s), np.arange(d_s)] += 1.0
            by_x *= ((wanted >= low) & (wanted <= high))[:, None]
            known.complete_slopes(by_x)
            tape.append((by_x, slope[d_s] * (rewards == out[d_s]), slope[-1], slope[costs]))
        steps_made.append((a, rewards, out[-1], out[costs]))
        after = in_turn(np.clip(wanted, low, high), *model.turns)
        seen_after = after
        if noise is not None and model.noise.sensors.any():
            seen_after = in_turn(after + model.noise.sensors[:, None] * noise[t, :, d_s:].T, *model.turns)
        known.complete(seen_after, y, a)  # of what is measured
        after[known.num_measured :] = seen_after[known.num_measured :]
        exact, s = seen_after is after, np.where(going, after, s)
        y = s if exact else np.where(going, seen_after, y)
        visited.append(s)
        seen.append(y)
        if not model.termination.never:
            going = going & ~model.termination.ended(torch.as_tensor(y.T)).numpy()
        alive.append(going)
        if not going.any():
            break
    actions, earned, log_odds, spent = (np.stack(column) for column in zip(*steps_made, strict=True))
    path = Rollout(
        states=np.stack(visited).transpose(0, 2, 1),
        measured=np.stack(seen).transpose(0, 2, 1),
        actions=actions.transpose(0, 2, 1),
        rewards=earned,
        log_odds=log_odds,
        going=np.stack(alive).astype(np.float64),
        costs=spent.swapaxes(0, 1),
        slopes=None,
        cost_slopes=None,
    )
    if slopes:
        moves, rewarding, unknowing, by_cost = (np.stack(one) for one in zip(*tape, strict=True))
        path = replace(path, slopes=(moves, rewarding, unknowing), cost_slopes=by_cost.swapaxes(0, 1))
    return _with_rewards(path, model, part)


def _with_rewards(path: Rollout, model: LocalModel, part: IntArray | None) -> Rollout:
    """Return the rollout with rewards of where its steps lead, as drawn and measured; predicted ones stay."""
    if model.steps.reward is not None:
        x = np.concatenate([path.measured[:-1], path.actions], axis=2)
        after, parts = path.measured[1:], None if part is None else np.tile(part, len(path))
        found, by = model.steps.reward.at(_by_column(x), _by_column(after), parts)
        values = np.clip(found, *model.reward_clamp)
        rewards, by_x = _along(path, values, (by * (values == found)).T)
    elif model.reward_function is not None:
        rewards, by_x = along(path, model.reward_function)
    else:
        return path
    return path.rewarded(rewards, by_x)


def _by_column(steps: FloatArray) -> FloatArray:
    """Return columns (k, T·m) of steps (T, m, k)."""
    return steps.reshape(-1, steps.shape[2]).T


def _along(path: Rollout, values: FloatArray, by: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return values (T, m) of all steps (T·m,), and their derivative by (s, a), (T, d, m).

    The derivative by (s, a, s′) is `by` (T·m, ·), if wanted.
    """
    T, m = path.rewards.shape
    if path.slopes is None or by is None:
        return values.reshape(T, m), np.zeros((T, 0, m))
    by, moves = by.reshape(T, m, -1).transpose(0, 2, 1), path.slopes[0]
    d = moves.shape[2]
    return values.reshape(T, m), by[:, :d] + (by[:, d:, None] * moves).sum(axis=1)


def _step(
    model: LocalModel,
    x: FloatArray,
    measured: FloatArray | None,
    part: IntArray | None,
    going: BoolArray,
    *,
    slopes: bool,
    noise: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return `OneStep.step` of the paths that have not ended, 0 for the others."""
    if going.all():
        return model.steps.step(x, part, measured=measured, slopes=slopes, noise=noise)
    own = None if part is None else part[going]
    seen = None if measured is None else measured[:, going]
    among = model.steps.step(x[:, going], own, measured=seen, slopes=slopes, noise=noise)
    out, by_x = (np.zeros((*one.shape[:-1], len(going))) for one in among)
    out[..., going], by_x[..., going] = among
    return out, by_x


def along(path: Rollout, function: RewardFunction) -> tuple[FloatArray, FloatArray]:
    """Return a function of (s, a, s′) along all steps (T, m), and its derivative by (s, a), if recorded."""
    parts = (_by_column(part).T for part in (path.measured[:-1], path.actions, path.measured[1:]))
    values, grads = with_slopes(function, *parts, slopes=path.slopes is not None)
    return _along(path, values, np.concatenate(grads, axis=1) if grads else None)


def with_slopes(
    function: RewardFunction, s: FloatArray, a: FloatArray, after: FloatArray, *, slopes: bool = True
) -> tuple[FloatArray, tuple[FloatArray, ...]]:
    """Return a function of (s, a, s′) at rows (n,), and its derivatives by the three, (n, ·) if wanted."""
    parts = [torch.as_tensor(part).requires_grad_(slopes) for part in (s, a, after)]
    with torch.set_grad_enabled(slopes):
        values = function(*parts)
        total = values.sum()
    numbers: FloatArray = values.detach().double().numpy()
    if not slopes:
        return numbers, ()
    grads = torch.autograd.grad(total, parts, allow_unused=True, materialize_grads=True)
    return numbers, tuple(part.numpy() for part in grads)
