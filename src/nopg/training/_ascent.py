"""Gradient ascent by Adam on any estimator."""

from __future__ import annotations

import math
import time

from nopg._seeding import generator
from nopg.bellman._estimate import GradientEstimator
from nopg.errors import ArgumentError, TrainingInterrupted
from nopg.policies import Policy
from nopg.policies._policy import trainable
from nopg.training._adam import Adam
from nopg.training._checkpoint import Checkpoint, interruption
from nopg.training._config import TrainingConfig
from nopg.training._reports import Update


def ascend(
    estimator: GradientEstimator,
    policy: Policy,
    config: TrainingConfig,
    *,
    checkpoint: Checkpoint | None = None,
    annealed: bool = False,
) -> tuple[Update, ...]:
    """Improve the policy in place with Adam, and return the history.

    Args:
        estimator: Of the gradient.
        policy: The policy, changed in place.
        config: With the number of updates; after a restart the stop rule also sees the updates before.
        checkpoint: Where to begin, if it has a state, and where to leave it. With a checkpoint the first
            Ctrl-C ends the ascent after an update, by `TrainingInterrupted`.
        annealed: For a stochastic estimator: every direction has length 1, and steps become smaller along a
            cosine, down to none.
    """
    if config.updates is None:
        raise ArgumentError("an ascent needs a number of updates; give TrainingConfig(updates=…)")
    updates, stop = int(config.updates), config.stop
    optimizer = Adam(trainable(policy))
    history: list[Update] = []

    def save(*, finished: bool = False) -> None:
        if checkpoint:
            checkpoint.write(policy, optimizer, estimator, history=tuple(history), finished=finished)

    ended = False
    if checkpoint and checkpoint.resumes:
        history += checkpoint.restore(policy, optimizer, estimator)
        ended = any([checkpoint.finished, *(stop(update) for update in history if stop)])
    else:
        save()
    with interruption(enabled=checkpoint is not None) as interrupted:
        for number in range(len(history) + 1, updates + 1) if not ended else ():
            first = history[0].gradient_norm if history else None
            update = _step(
                estimator, policy, optimizer, config, number=number, annealed=annealed, first=first
            )
            history.append(update)
            verdicts = [callback(update) for callback in (*config.callbacks, *([stop] if stop else []))]
            ended = any(verdicts) or number == updates
            if checkpoint:
                stopped = interrupted()
                if number % checkpoint.every == 0 or stopped or ended:
                    save(finished=ended)
                if stopped:
                    raise TrainingInterrupted(number, str(checkpoint.path))
            if ended:
                break
    return tuple(history)


def _step(
    estimator: GradientEstimator,
    policy: Policy,
    optimizer: Adam,
    config: TrainingConfig,
    *,
    number: int,
    annealed: bool,
    first: float | None,
) -> Update:
    """Make one update of the policy; `first` is the norm of the first gradient, if this is a later one."""
    began, planned = time.perf_counter(), int(config.updates or 0)
    estimate = estimator.estimate(policy, rng=generator(config.seed, "actions"))
    rate, unit = config.learning_rate, (estimate.norm if annealed or first is None else first) or 1.0
    if annealed:
        rate *= 0.5 * (1.0 + math.cos(math.pi * (number - 1) / planned))
    optimizer.step([part / unit for part in estimate.direction], rate)
    return Update(
        number=number,
        planned=planned,
        expected_return=estimate.expected_return,
        gradient_norm=estimate.norm,
        unknown_mass=estimate.diagnostics.get("unknown_mass", 0.0),
        products=int(estimate.diagnostics.get("products", 0)),
        seconds=time.perf_counter() - began,
    )
