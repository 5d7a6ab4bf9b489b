"""The monitor: takes rows of a run one by one or together, and says whether all is as predicted."""

from __future__ import annotations

import math
import os
from functools import cached_property

import numpy as np
import torch

from nopg._typing import ArrayLike, BoolArray, FloatArray, as_tensor
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._other_log import check_columns
from nopg.monitoring._detector import Detector
from nopg.monitoring._run import Facts, Rows, check_return, predicted_outside
from nopg.monitoring._scores import LAGS, Row, Scorer
from nopg.monitoring._status import Change, Status, judge, likely_causes
from nopg.training import TrainingResult, load

# Rows after a change that tell its cause, and rows taken at once.
_CAUSE_ROWS, _AT_ONCE = 500, 1_000
# Rows in which the plant is looked for, and the fewest of them that count.
_RECENT, _FEWEST = 200, 50
# Actions farther from the controller's, in standard deviations of the logged ones, are another controller's.
_OTHER_ACTIONS = 0.01
_LARGEST_LOG = 700.0
# After an alarm `update` compares returns every so many steps.
_RETURNS_EVERY = 50


class Monitor:
    """Watches a plant under a trained controller, or under the old one with the new one in shadow.

    Each row is predicted one step ahead by the model that trained the controller, from the *measured* state
    and action, so that another behaviour does not count as another plant. Errors are ranked among those of
    held-out rows of the log, and bets on faults are added up over all possible times of a change.

    **False alarms.** An unchanged plant raises an alarm within n steps with probability at most
    n·false_alarms/horizon, by Doob's inequality, if, given the past, the rank of an error has a mean of at
    most zero in either direction after an allowance for the error of the model. Where the model is wrong by
    more, alarms are more frequent; the guide gives measured rates. Rows outside the log are not tested.

    Args:
        result: A trained controller with its data, or the path of one that was saved.
        false_alarms: Probability of a false alarm within the horizon, between 0 and 1.
        horizon: Number of steps.
        shadow: Whether another controller acts; by default this is told from the actions.
    """

    def __init__(
        self,
        result: TrainingResult | str | os.PathLike[str],
        *,
        false_alarms: float = 0.05,
        horizon: int = 10_000,
        shadow: bool | None = None,
    ) -> None:
        if not 0 < false_alarms < 1:
            raise ArgumentError(f"false_alarms is {false_alarms}; give a probability such as 0.05")
        if horizon < 1:
            raise ArgumentError(f"horizon is {horizon}; give at least 1 step")
        self.result = result if isinstance(result, TrainingResult) else load(result)
        self.threshold = horizon / false_alarms
        self._evaluator = self.result.evaluator
        self._model, self.schema = self._evaluator.model, self._evaluator.data.schema
        self._scorer, self._declared_shadow = Scorer(self._model), shadow
        self._law = PolicyLaw.of(self.result.policy, self.schema)
        self.reset()

    def reset(self) -> None:
        """Forget the run, for instance after a repair."""
        units = self._model.state_space.units.numpy()
        self._detector = Detector(len(self._scorer.columns), self._model.num_actions, units)
        self._run, self._evidence = Rows(), 0.0
        self._alarm: tuple[int, int] | None = None
        self._returns: Facts | None = None
        self._checked = -_RETURNS_EVERY

    @property
    def step(self) -> int:
        """Number of steps so far."""
        return self._detector.step

    def update(
        self,
        state: ArrayLike,
        action: ArrayLike,
        reward: float,
        next_state: ArrayLike,
        *,
        terminated: bool = False,
    ) -> Status:
        """Take one step of the run; return what is known of it.

        Returns are compared after an alarm only, every 50 steps, since that takes longer; see `status`. A row
        whose state is not the next state of the row before begins a new sequence.

        Args:
            state: Raw state (d_s,).
            action: The action that was applied, (d_a,).
            reward: Its reward.
            next_state: The measured next state (d_s,).
            terminated: Whether the task ended.
        """
        row = tuple(as_tensor(part).reshape(-1) for part in (state, action, reward, next_state))
        sizes = (self._model.num_states, self._model.num_actions, 1, self._model.num_states)
        if tuple(map(len, row)) != sizes or not bool(torch.cat(row).isfinite().all()):
            raise DataError(
                f"a row is {sizes[0]} states, {sizes[1]} actions, a reward and {sizes[0]} next states, all "
                "finite; leave out rows of failed sensors"
            )
        s, a, r, after = row
        self._take((s[None], a[None], r, after[None]), np.zeros(1, bool), np.array([terminated]))
        return self._status(returns=self._alarm is not None and self.step >= self._checked + _RETURNS_EVERY)

    def watch(self, data: Transitions) -> Status:
        """Take the rows of a dataset in their order; return what is known after the last."""
        check_columns(data.schema, self.schema, "the run")
        linked = data.continues.numpy()
        for some in torch.arange(len(data)).split(_AT_ONCE):
            rows = data.take(some)
            columns = (rows.states, rows.actions, rows.rewards, rows.next_states)
            self._take(columns, linked[some.numpy()], rows.terminated.numpy())
        return self.status

    @property
    def status(self) -> Status:
        """What is known of the run, the measured against the predicted return included."""
        return self._status(returns=True)

    @property
    def shadow(self) -> bool:
        """Whether another controller acts: as given, else whether most recent actions are another's."""
        if self._declared_shadow is not None or not len(self._run):
            return bool(self._declared_shadow)
        units = self._model.rows.space.units[self._model.num_states :].numpy()
        return bool(((self._apart() / units).max(axis=1) > _OTHER_ACTIONS).mean() > 0.5)

    def history(self) -> dict[str, FloatArray]:
        """Return the rows by name: `step`, `evidence`, `unknown`, then measured and predicted columns.

        A state or the reward has two entries, such as `level` (after the step) and `predicted level`, an
        action `valve` and `controller valve`. At least the last 50 000 rows are kept.
        """
        run = self._run
        if not len(run):
            return {}
        found = {"step": run.dropped + np.arange(1.0, len(run) + 1.0)}
        found |= {name: run[name] for name in ("evidence", "unknown")}
        measured = np.column_stack([run["next_states"], run["rewards"]])
        for k, name in enumerate((*self.schema.states, "reward")):
            found |= {name: measured[:, k], f"predicted {name}": run["predicted"][:, k]}
        for k, name in enumerate(self.schema.actions):
            found |= {name: run["actions"][:, k], f"controller {name}": run["controller"][:, k]}
        return found

    def _take(self, rows: Row, linked: BoolArray, terminated: BoolArray) -> None:
        """Test rows and keep them; the first continues the run if its state is the last next state."""
        run, scorer, m = self._run, self._scorer, len(linked)
        scores = scorer.score(rows)
        if len(run) and not run["terminated"][-1]:
            linked[0] = np.array_equal(run["next_states"][-1], rows[0][0].numpy())
        names = ("states", "actions", "rewards", "next_states")
        run.append(
            **{name: part.numpy() for name, part in zip(names, rows, strict=True)},
            **scores._asdict(),
            terminated=terminated,
            linked=linked,
            controller=np.asarray(self._law.mode(self.schema.encode(rows[0])).numpy()),
            evidence=np.zeros(m),
        )
        before = slice(-m - LAGS, None)
        r, shifts = (scorer.whiten(run[name][before], run["linked"][before])[-m:] for name in ("z", "shifts"))
        allowance = scorer.allowance(scores)
        bets = self._detector.factors(shifts, allowance, scorer.ranks(r, allowance), ~scores.outside)
        run["evidence"][-m:] = [self._count(one) for one in bets]

    def _count(self, bets: FloatArray) -> float:
        """Take the bets of one step; return the evidence after it, and note an alarm."""
        log_evidence = self._detector.update(bets)
        if self._alarm is None and log_evidence >= math.log(self.threshold):
            self._alarm = (self._detector.since, self.step)
        self._evidence = math.exp(min(log_evidence, _LARGEST_LOG))
        return self._evidence

    def _status(self, *, returns: bool) -> Status:
        causes, shadow, run = self._causes(), self.shadow, self._run
        compared: Facts | None = None
        if returns:
            first = 0 if shadow else self._first_changed
            self._returns, self._checked = check_return(self._evaluator, self._law, run, first), self.step
        known = self._returns if returns or self._alarm else None
        if shadow:
            apart = self._apart().mean(axis=0).tolist()
            compared = {"difference": dict(zip(self.schema.actions, apart, strict=True))}
            compared |= {name: known and known[name] for name in ("predicted", "measured")}
            known = None
        region = self._region()
        verdict, reasons = judge(causes, region, known, shadow=shadow)
        return Status(
            step=self.step,
            verdict=verdict,
            reasons=reasons,
            evidence=self._evidence,
            threshold=self.threshold,
            change=causes[0] if causes else None,
            others=causes[1:],
            operating_region=region,
            return_check=known,
            shadow=compared,
        )

    def _causes(self) -> tuple[Change, ...]:
        if self._alarm is None:
            return ()
        rows = slice(self._first_changed, self._first_changed + _CAUSE_ROWS)
        inside = ~self._run["outside"][rows]
        z, shifts, scale = (self._run[name][rows][inside] for name in ("z", "shifts", "scale"))
        return likely_causes((z, shifts, scale), self._scorer, self.schema, self._alarm)

    @property
    def _first_changed(self) -> int:
        """The first kept row since the change; 0 without an alarm."""
        return max(self._alarm[0] - 1 - self._run.dropped, 0) if self._alarm else 0

    def _apart(self) -> FloatArray:
        """Return how far recent actions are from the controller's, shape (m, d_a)."""
        return np.asarray(np.abs(self._run["controller"] - self._run["actions"])[-_RECENT:])

    def _region(self) -> Facts | None:
        """Return where the plant has been in the last rows; None for too few."""
        if len(self._run) < _FEWEST:
            return None
        outside = float(self._run["outside"][-_RECENT:].mean())
        return {"outside": outside, "expected": None if self.shadow else self._expected}

    @cached_property
    def _expected(self) -> float:
        return predicted_outside(self.result, self._scorer)
