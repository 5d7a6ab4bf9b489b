"""`advise`: compare experiments by what their predicted rows would tell about a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from nopg._checks import check_discount
from nopg._seeding import generator
from nopg._typing import RewardFunction
from nopg.advice._experiments import Advice, Bounds, Box, Candidate, Experiment, boxes, random_steps
from nopg.data import Transitions
from nopg.data._episodes import episode_rows
from nopg.errors import ArgumentError
from nopg.evaluation import Assessment, OfflineEvaluator
from nopg.evaluation._behavior import LoggedBehavior
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._verdict import WEAK_UNKNOWN
from nopg.inspect._wording import listed
from nopg.large_logs._log import joined
from nopg.models import LocalModel
from nopg.models._rollout import rollout

FAMILY = (
    Candidate("today's controller", 0.1),
    Candidate("today's controller", 0.5),
    Candidate("today's controller", 0.5, hold=3),
    Candidate("today's controller", 0.5, starts="least known"),
    Candidate("the policy", 0.1),
    Candidate("the policy", 0.5),
    Candidate("the policy", 0.5, hold=3),
    Candidate("the policy", 0.1, starts="least known"),
    Candidate("the policy", 0.5, starts="least known"),
    Candidate("a constant action", 0.5),
    Candidate("a constant action", 0.5, hold=3),
    Candidate("a constant action", 0.5, starts="least known"),
)
"""All experiments that are compared."""

_FEWEST_ROWS = 10
_FEWEST_NEW, _FEWEST_EPISODES = 4, 6
# Paths are simulated for this multiple of the episodes, as some end early or leave the bounds.
_SPARE = 2
_VERDICTS = ("ok", "weak", "not identifiable")


def advise(
    data: Transitions,
    policy: Any,
    discount: float,
    *,
    bounds: Bounds | None = None,
    reward: RewardFunction | None = None,
    rows: int = 200,
    seed: int = 0,
) -> Advice:
    """Return which experiment on the plant would tell most about the return of a policy.

    Twelve experiments are simulated on the model of the log: today's controller, the policy or a constant
    action, each with random steps of some sizes. The model is fitted again to the log with the simulated
    rows, and the policy is evaluated on it. As these rows come from the model, the expected return hardly
    moves; its interval and the unknown mass shrink as they would by such rows.

    Args:
        data: The log.
        policy: The policy to be judged; see `evaluate_offline`.
        discount: γ.
        bounds: Lowest and highest value of actions and states in an experiment, by name; by default those
            declared with the log, for states else the range of the log. Every action must have bounds.
        reward: The reward as a function, where it is known.
        rows: Number of rows of the experiment.
        seed: Seed of the simulated experiments.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> level = rng.uniform(0.0, 1.0, (30, 1))
        >>> valve = 1.0 - level  # the valve always followed the level
        >>> data = Transitions.from_arrays(level, valve, -level[:, 0], level + 0.1 * valve,
        ...                                action_names=["valve"], bounds={"valve": (0.0, 1.0)})
        >>> advice = advise(data, lambda levels: 0.2 + 0 * levels, 0.5, rows=20)
        >>> advice.today.verdict, advice.best.verdict
        ('not identifiable', 'ok')
    """
    check_discount(discount)
    if rows < _FEWEST_ROWS:
        raise ArgumentError(f"rows is {rows}; an experiment takes at least {_FEWEST_ROWS}")
    actions, states = boxes(data, bounds)
    now = OfflineEvaluator(data, discount, reward=reward)
    today = now.assess(policy)
    compared = _Comparison(now, policy, today, actions, states, rows, seed)

    def rank(one: Experiment) -> tuple[bool, bool, int, float]:
        # Without a verdict nothing shows that an experiment holds the plant but the log: today's controller.
        # The interval alone would not do: where all logged rewards are alike it is narrow.
        blind = today.verdict == "not identifiable" and one.base != "today's controller"
        by_width = one.width * max(one.unknown_mass, WEAK_UNKNOWN)
        return blind, one.too_far, _VERDICTS.index(one.verdict), by_width

    ranked = sorted(map(compared.experiment, FAMILY), key=rank)
    notes = (
        f"No bounds are given for {listed(states.from_log)}: experiments stay within the range of the log "
        "there. Pass bounds to let them go further.",
    )
    return Advice(tuple(ranked), today, notes if states.from_log else ())


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Experiments on the model of the log as it is, within bounds of actions and states."""

    now: OfflineEvaluator
    policy: Any
    today: Assessment
    actions: Box
    states: Box
    rows: int
    seed: int

    def experiment(self, candidate: Candidate) -> Experiment:
        """Return a candidate with what it is predicted to tell; the unknown keeps its value."""
        now, data, after = self.now, self.now.data, self.today
        number, steps = episode_plan(data, self.rows)
        sizes = candidate.share * (self.actions.high - self.actions.low)
        level = self.actions.clip(data.actions.median(dim=0).values)
        starts, act = self._starts(candidate, number), self._act(candidate, sizes, level)
        new, outside = predicted_rows(
            now.model, act, starts, steps=steps, rows=self.rows, box=self.states, seed=self.seed
        )
        if new is not None:
            reward, v = now.model.reward_function, now.problem.unknown_value
            longer = OfflineEvaluator(append(data, new), now.discount, reward=reward, unknown_value=v)
            after = longer.assess(self.policy)
        constant = level if candidate.base == "a constant action" else level[:0]
        return Experiment(
            **asdict(candidate),
            constant=dict(zip(data.schema.actions, constant.tolist(), strict=False)),
            sizes=dict(zip(data.schema.actions, sizes.tolist(), strict=True)),
            initial_states=starts,
            steps=steps,
            rows=self.rows,
            interval=after.interval,
            unknown_mass=after.unknown_mass,
            verdict=after.verdict,
            outside=outside,
            units=data.schema.units,
            action_box=self.actions,
        )

    def _act(
        self, candidate: Candidate, sizes: torch.Tensor, level: torch.Tensor
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return the actions of an experiment at state features."""
        data, rng = self.now.data, generator(self.seed, f"test signal {candidate}")
        signal = random_steps(sizes, candidate.hold, rng)
        if candidate.base == "a constant action":
            return lambda features: self.actions.clip(level + signal(len(features)))
        base = (
            PolicyLaw.of(self.policy, data.schema)
            if candidate.base == "the policy"
            else LoggedBehavior(data, self.now.problem.state_widths, seed=self.seed)
        )
        return lambda features: self.actions.clip(base.mode(features) + signal(len(features)))

    def _starts(self, candidate: Candidate, number: int) -> torch.Tensor:
        """Return so many starts (m, d_s): those of the log, or states in which paths leave the data."""
        rng = generator(self.seed, f"{candidate.starts} starts")
        if candidate.starts == "least known":
            paths, m = self.today.paths, self.today.paths.returns.shape[1]
            states, going, stays = paths.states[:, :m], paths.going[:, :m], paths.stays[:, :m]
            discounts = self.now.discount ** torch.arange(len(states), dtype=torch.float64)
            lost = discounts[:, None] * going * (stays[:-1] - stays[1:]) * self.states.contains(states)
            weights = lost.reshape(-1).clamp(min=0.0)
            if int((weights > 0).sum()) >= number:
                return states.flatten(0, 1)[torch.multinomial(weights, number, generator=rng)]
        usual = self.now.data.starts
        order = [torch.randperm(len(usual), generator=rng) for _ in range(-(-number // len(usual)))]
        return usual[torch.cat(order)[:number]]


def episode_plan(data: Transitions, rows: int) -> tuple[int, int]:
    """Return number and length of the episodes: as in the log, at least four, enough for a verdict `ok`."""
    lengths = [len(one) for one in episode_rows(data)] or [rows]
    usual = int(torch.tensor(lengths).median())
    number = min(max(-(-rows // usual), _FEWEST_NEW, _FEWEST_EPISODES - len(lengths)), rows)
    return number, -(-rows // number)


def predicted_rows(
    model: LocalModel,
    act: Callable[[torch.Tensor], torch.Tensor],
    starts: torch.Tensor,
    *,
    steps: int,
    rows: int,
    box: Box,
    seed: int,
) -> tuple[Transitions | None, float]:
    """Return at most so many rows of an experiment on the model, and the share of rows outside the bounds.

    A path counts until it leaves the bounds of the states; None if no row is left.
    """
    starts = starts.repeat(_SPARE, 1)
    rng = generator(seed, "noise of an experiment")
    noise = torch.randn(steps, len(starts), 2 * model.num_states, generator=rng, dtype=torch.float64).numpy()
    path = rollout(model, lambda features, _: act(features), starts, steps, noise=noise)
    measured, going = torch.as_tensor(path.measured), torch.as_tensor(path.going) > 0
    within = box.contains(measured).long().cumprod(dim=0).bool()
    kept = (going[:-1] & within[:-1] & within[1:]).T
    outside = 1.0 - float(kept.sum() / going[:-1].sum())
    episode, step = kept.nonzero()[:rows].T
    if len(step) == 0:
        return None, outside
    ended = ~going[step + 1, episode]
    last = torch.cat([episode[1:] != episode[:-1], torch.ones(1, dtype=torch.bool)])
    found = Transitions(
        states=measured[step, episode],
        actions=torch.as_tensor(path.actions)[step, episode],
        rewards=torch.as_tensor(path.rewards)[step, episode],
        next_states=measured[step + 1, episode],
        terminated=ended,
        truncated=last & ~ended,
        schema=model.data.schema,
        episodes=episode,
    )
    return found, outside


def append(data: Transitions, new: Transitions) -> Transitions:
    """Return a log with rows of new episodes added; the starts of the task stay those of the log."""
    parts, weighted = [data, new], data.weights is not None or new.weights is not None
    for k, one in enumerate(parts):
        episodes = torch.arange(len(one)) if one.episodes is None else one.episodes
        weights = torch.ones(len(one)).double() if weighted and one.weights is None else one.weights
        parts[k] = replace(one, episodes=episodes, weights=weights)
    both, begins = joined(parts), None
    if (rows := data.start_rows) is not None:
        begins = torch.zeros(len(both), dtype=torch.bool).index_fill(0, rows, True)
    return replace(both, initial_states=data.initial_states, begins=begins)
