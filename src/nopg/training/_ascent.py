"""Gradient ascent by Adam on any estimator."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from nopg._seeding import generator
from nopg.bellman._problem import GradientEstimator
from nopg.bellman._sampled import SampledGradient
from nopg.errors import ArgumentError, TrainingInterrupted
from nopg.policies import Policy
from nopg.policies._policy import trainable
from nopg.training._checkpoint import Checkpoint, interruption
from nopg.training._config import TrainingConfig
from nopg.training._reports import Update

_FIRST, _SECOND, _LEAST = 0.9, 0.999, 1e-8


class Adam:
    """Adam (Kingma and Ba, 2015) that climbs, in place; `torch.optim` takes two seconds to import."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters, self._count = parameters, 0
        self._means = [torch.zeros_like(one) for one in parameters]
        self._squares = [torch.zeros_like(one) for one in parameters]

    @torch.no_grad()
    def step(self, gradient: Sequence[torch.Tensor], rate: float) -> None:
        """Make one step of θ ← θ + rate · m̂ / (√v̂ + 10⁻⁸)."""
        self._count += 1
        first, second = 1.0 - _FIRST**self._count, 1.0 - _SECOND**self._count
        for theta, g, m, v in zip(self._parameters, gradient, self._means, self._squares, strict=True):
            m.mul_(_FIRST).add_((1.0 - _FIRST) * g)
            v.mul_(_SECOND).add_((1.0 - _SECOND) * g.square())
            theta.add_(rate * (m / first) / ((v / second).sqrt() + _LEAST))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return both moments and the number of steps."""
        moments = {f"mean.{k}": one for k, one in enumerate(self._means)}
        moments |= {f"square.{k}": one for k, one in enumerate(self._squares)}
        return {**moments, "count": torch.tensor(self._count)}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from what `state_dict` returned."""
        for k, (mean, square) in enumerate(zip(self._means, self._squares, strict=True)):
            mean.copy_(state[f"mean.{k}"])
            square.copy_(state[f"square.{k}"])
        self._count = int(state["count"])


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

    It begins from the checkpoint, if that has a state; with one, the first Ctrl-C ends the ascent after an
    update, by `TrainingInterrupted`. `annealed` is for a stochastic estimator: every direction has length 1,
    and steps become smaller along a cosine. `stop` tells of the updates so far whether they end the ascent.
    """
    if config.updates is None:
        raise ArgumentError("an ascent needs a number of updates; give TrainingConfig(updates=…)")
    optimizer, history, ended = Adam(trainable(policy)), list[Update](), False
    parts: dict[str, Any] = {"policy": policy, "adam": optimizer}
    if isinstance(estimator, SampledGradient):
        parts["estimator"] = estimator
    if checkpoint:
        history, ended = checkpoint.restore(parts)
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
                checkpoint.write(parts, history=history, finished=ended)
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
