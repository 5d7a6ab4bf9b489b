"""Gradient ascent by Adam on any estimator."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

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
    stop: Callable[[Sequence[Update]], bool] | None = None,
) -> tuple[Update, ...]:
    """Improve the policy in place with Adam, and return the history.

    Args:
        estimator: Of the gradient.
        policy: The policy, changed in place.
        config: With the number of updates.
        checkpoint: Where to begin, if it has a state, and where to leave it. With a checkpoint the first
            Ctrl-C ends the ascent after an update, by `TrainingInterrupted`.
        annealed: For a stochastic estimator: every direction has length 1, and steps become smaller along a
            cosine, down to none.
        stop: Whether the updates so far end the ascent.
    """
    if config.updates is None:
        raise ArgumentError("an ascent needs a number of updates; give TrainingConfig(updates=…)")
    optimizer, history, ended = Adam(trainable(policy)), list[Update](), False
    if checkpoint:
        history, ended = checkpoint.restore(policy, optimizer, estimator)
    with interruption() if checkpoint else nullcontext(lambda: False) as interrupted:
        while not ended and len(history) < config.updates:
            first = history[0].gradient_norm if history else None
            number = len(history) + 1
            update = _step(
                estimator, policy, optimizer, config, number=number, annealed=annealed, first=first
            )
            history.append(update)
            stopped = [callback(update) for callback in config.callbacks]
            ended = any(stopped) or (stop is not None and stop(history)) or number == int(config.updates)
            if checkpoint and (ended or number % checkpoint.every == 0 or interrupted()):
                checkpoint.write(policy, optimizer, estimator, history=history, finished=ended)
            if checkpoint and interrupted():
                raise TrainingInterrupted(number, str(checkpoint.path))
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
