"""`advise`: compare experiments by what their predicted rows would tell about a policy."""

from __future__ import annotations

from typing import Any

import torch

from nopg._checks import check_discount
from nopg._seeding import generator
from nopg._typing import RewardFunction
from nopg.advice._box import Bounds, Box, action_box, state_box
from nopg.advice._candidates import FAMILY, Candidate, Starts, TestSignal
from nopg.advice._results import Advice, Experiment
from nopg.advice._simulation import append, episode_plan, predicted_rows
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.evaluation import Assessment, OfflineEvaluator
from nopg.evaluation._behavior import LoggedBehavior
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._verdict import WEAK_UNKNOWN
from nopg.inspect._wording import listed

# An experiment with a larger share of rows outside the bounds of the states is ranked below the others.
_OFTEN_OUTSIDE = 0.2
_FEWEST_ROWS = 10
_VERDICTS = ("ok", "weak", "not identifiable")


def advise(
    data: Transitions,
    policy: Any,
    discount: float,
    *,
    action_bounds: Bounds | None = None,
    state_bounds: Bounds | None = None,
    reward: RewardFunction | None = None,
    rows: int = 200,
    seed: int = 0,
) -> Advice:
    """Return which experiment on the plant would tell most about the return of a policy.

    Twelve experiments are simulated on the model of the log: today's controller, the policy or a constant
    action, each with random steps of some sizes. The model is fitted again to the log with the simulated
    rows, and the policy is evaluated on it. As these rows come from the model, the expected return hardly
    moves; its interval and the unknown mass shrink as they would by such rows. This takes about thirteen
    fits of the model, a few seconds each.

    Args:
        data: The log.
        policy: The policy to be judged; see `evaluate_offline`.
        discount: γ.
        action_bounds: Lowest and highest value of actions in an experiment, by name; by default those
            declared with the log. Every action must have bounds.
        state_bounds: Lowest and highest value of states that an experiment may visit, by name; by default
            those declared with the log, else the range of the log.
        reward: The reward as a function, where it is known.
        rows: Number of rows of the experiment.
        seed: Seed of the simulated experiments.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> level = rng.uniform(0.0, 1.0, (60, 1))
        >>> valve = 1.0 - level  # the valve always followed the level
        >>> data = Transitions.from_arrays(level, valve, -level[:, 0], level + 0.1 * valve,
        ...                                action_names=["valve"], bounds={"valve": (0.0, 1.0)})
        >>> advice = advise(data, lambda levels: 0.2 + 0 * levels, 0.9, rows=40)
        >>> advice.today.verdict, advice.best.verdict
        ('not identifiable', 'ok')
    """
    check_discount(discount)
    if rows < _FEWEST_ROWS:
        raise ArgumentError(f"rows is {rows}; an experiment takes at least {_FEWEST_ROWS}")
    actions, states = action_box(data, action_bounds), state_box(data, state_bounds)
    now = OfflineEvaluator(data, discount, reward=reward)
    compared, today = _Comparison(now, policy, actions, states, rows=rows, seed=seed), now.assess(policy)
    found = [compared.experiment(one, today) for one in FAMILY]
    ranked = sorted(found, key=lambda one: (_runs_blind(one, today), *_rank(one)))
    return Advice(tuple(ranked), today, _notes(states))


class _Comparison:
    """Experiments on one model.

    Args:
        now: The evaluator on the log as it is.
        policy: The policy to be judged.
        actions: Bounds of the actions.
        states: Bounds of the states.
        rows: Number of rows of an experiment.
        seed: Seed of everything random.
    """

    def __init__(
        self, now: OfflineEvaluator, policy: Any, actions: Box, states: Box, *, rows: int, seed: int
    ) -> None:
        self.now, self.policy, self.actions, self.states = now, policy, actions, states
        self.rows, self.seed = rows, seed
        self.num_episodes, self.steps = episode_plan(now.data, rows)

    def experiment(self, candidate: Candidate, today: Assessment) -> Experiment:
        """Return a candidate with what it is predicted to tell."""
        data, names = self.now.data, self.now.data.schema.actions
        sizes = candidate.share * (self.actions.high - self.actions.low)
        level = self.actions.clip(data.actions.median(dim=0).values)
        starts = self._starts(candidate.starts, today)
        new, outside = predicted_rows(
            self.now.model,
            self._act(candidate, sizes, level),
            starts,
            steps=self.steps,
            rows=self.rows,
            box=self.states,
            seed=self.seed,
        )
        after = today if new is None else self._after(new)
        return Experiment(
            base=candidate.base,
            constant=_by_name(names, level) if candidate.base == "a constant action" else {},
            sizes=_by_name(names, sizes),
            share=candidate.share,
            hold=candidate.hold,
            starts=candidate.starts,
            initial_states=starts,
            steps=self.steps,
            rows=self.rows,
            interval=after.interval,
            unknown_mass=after.unknown_mass,
            verdict=after.verdict,
            outside=outside,
            too_far=outside > _OFTEN_OUTSIDE,
            units=data.schema.units,
            action_box=self.actions,
        )

    def _after(self, new: Transitions) -> Assessment:
        """Return the evaluation of the policy on the log with new rows; the unknown keeps its value."""
        now = self.now
        longer, v = append(now.data, new), now.problem.unknown_value
        reward = now.model.reward_function
        return OfflineEvaluator(longer, now.discount, reward=reward, unknown_value=v).assess(self.policy)

    def _act(self, candidate: Candidate, sizes: torch.Tensor, level: torch.Tensor) -> Any:
        """Return the actions of an experiment at state features."""
        data, rng = self.now.data, generator(self.seed, f"test signal {candidate}")
        signal = TestSignal(sizes, candidate.hold, rng)
        if candidate.base == "a constant action":
            base: Any = lambda features: level.expand(len(features), -1)  # noqa: E731
        elif candidate.base == "the policy":
            base = PolicyLaw.of(self.policy, data.schema).mode
        else:
            base = LoggedBehavior(data, self.now.problem.state_widths, seed=self.seed).mode
        return lambda features: self.actions.clip(signal.added_to(base, features))

    def _starts(self, kind: Starts, today: Assessment) -> torch.Tensor:
        """Return as many starts (m, d_s) as there are episodes."""
        rng, number = generator(self.seed, f"{kind} starts"), self.num_episodes
        if kind == "least known":
            states, weights = self._doubtful(today)
            if int((weights > 0).sum()) >= number:
                return states[torch.multinomial(weights, number, generator=rng)]
        usual = self.now.data.starts
        order = torch.cat(
            [torch.randperm(len(usual), generator=rng) for _ in range(-(-number // len(usual)))]
        )
        return usual[order[:number]]

    def _doubtful(self, today: Assessment) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states on the policy's predicted paths, and the discounted share that leaves the data there.

        States outside the bounds have weight 0.
        """
        paths = today.paths
        m = paths.returns.shape[1]
        states, going, stays = paths.states[:, :m], paths.going[:, :m], paths.stays[:, :m]
        discounts = self.now.discount ** torch.arange(len(states), dtype=torch.float64)
        lost = discounts[:, None] * going * (stays[:-1] - stays[1:]) * self.states.contains(states)
        return states.reshape(-1, states.shape[2]), lost.reshape(-1).clamp(min=0.0)


def _by_name(names: tuple[str, ...], values: torch.Tensor) -> dict[str, float]:
    return dict(zip(names, values.tolist(), strict=True))


def _runs_blind(one: Experiment, today: Assessment) -> bool:
    """Return whether nothing shows that an experiment holds the plant; such ones come after the others.

    Predicted paths are worth little where the verdict is `not identifiable`; the log shows what today's
    controller does.
    """
    return today.verdict == "not identifiable" and one.base != "today's controller"


def _rank(one: Experiment) -> tuple[bool, int, float]:
    """Return what experiments are sorted by.

    The interval alone would not do: where all logged rewards are alike it is narrow whatever is unknown.
    """
    return one.too_far, _VERDICTS.index(one.verdict), one.width * max(one.unknown_mass, WEAK_UNKNOWN)


def _notes(states: Box) -> tuple[str, ...]:
    """Return what limits the advice."""
    if not states.from_log:
        return ()
    return (
        f"No bounds are given for {listed(states.from_log)}: experiments stay within the range of the log "
        "there. Pass state_bounds to let them go further.",
    )
