"""The log of a case, and true returns of controllers from its starts and from new ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from nopg import Transitions
from nopg._columns import Exogenous
from nopg._derived import DerivedColumns
from nopg.evaluation._control_law import control_law
from studies.trust.case import Case
from studies.trust.dynamics import Array
from studies.trust.faults import Flags, Sim
from studies.trust.world import Law, Runs, World

# Paths behind a truth, from each kind of starts; what is left of the discount at their end.
_PATHS, _LEFT = 400, 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """A log, and true and hidden states of its starts.

    Attributes:
        data: What the library gets.
        starts: From which truths are simulated: all episodes, or rows of a recording at equal distances.
        kicks: Number of rare disturbances in it; None where the plant has none.
    """

    data: Transitions
    starts: Sim
    kicks: int | None


@dataclass(frozen=True, slots=True)
class Truth:
    """Mean discounted returns by simulation.

    Attributes:
        mean: From the starts of the log, with their hidden states.
        error: Its standard error; over the noise alone where all starts are used.
        new: From new starts of the same distribution, met after the last row of the log.
        new_error: Its standard error over starts and noise.
        paths: Number of paths behind `mean`.
    """

    mean: float
    error: float
    new: float
    new_error: float
    paths: int


class Trial:
    """A log whose truth is known.

    Args:
        case: Seed, fault and kind of log.

    Attributes:
        world: The simulation.
    """

    def __init__(self, case: Case) -> None:
        self.world = World(case)

    @cached_property
    def log(self) -> Log:
        """The log."""
        world, recording = self.world, self.world.case.recording
        steps, rng = world.facts.steps, world.rng("rows")
        kept = np.stack([~world.fault.missing(steps, rng) for _ in range(world.facts.episodes)])
        runs = world.logged(range(steps) if recording else (world.lags,))
        data, kicks = self._data(runs, kept), runs.sims[-1].get("kicks")
        number = None if kicks is None else int(kicks.sum())
        if not recording:  # with lags an episode starts where they are known
            return Log(data, {**runs.sims[0], "states": data.starts.numpy()}, number)
        rows = np.flatnonzero(kept[0])[world.lags :]
        places = np.linspace(0, len(rows) - 1, _PATHS).astype(int)
        sims = [runs.sims[row] for row in rows[places]]
        starts = {name: np.concatenate([one[name] for one in sims]) for name in sims[0]}
        return Log(data, {**starts, "states": data.states[places].numpy()}, number)

    def truth(self, policy: Any) -> Truth:
        """Return the true return of a controller that acts without memory, such as the library evaluates."""
        law = control_law(policy, self.log.data.schema)

        def act(sim: Sim) -> Array:
            with torch.no_grad():
                return np.asarray(law(torch.as_tensor(sim["states"])), dtype=np.float64)

        return self._truth(lambda num, rng: act)

    def logged_truth(self) -> Truth:
        """Return the true return of going on with the controller that logged, its exploration included."""
        return self._truth(self.world.logger_law)

    def _truth(self, make: Callable[[int, np.random.Generator], Law]) -> Truth:
        world = self.world
        derived = DerivedColumns.of(self.log.data.schema) if world.lags else None
        steps, gamma = horizon(world.facts.discount), world.facts.discount
        means = []
        for purpose, starts in (("same starts", self.log.starts), ("new starts", self._new_starts(derived))):
            num, drawn = len(starts["true"]), purpose == "new starts" or world.case.recording
            repeats = 1 if drawn else max(math.ceil(_PATHS / num), 2)
            rng, sim = world.rng(purpose), {k: np.concatenate([v] * repeats) for k, v in starts.items()}
            runs = world.run(make(repeats * num, rng), sim, steps, rng, derived=derived)
            returns = (gamma ** np.arange(steps) @ runs.rewards).reshape(repeats, num)
            variance = returns.var(ddof=1) if drawn else returns.var(axis=0, ddof=1).mean()
            means.append((float(returns.mean()), math.sqrt(float(variance) / returns.size), returns.size))
        (mean, error, paths), (new, new_error, _) = means
        return Truth(mean, error, new, new_error, paths)

    def _new_starts(self, derived: DerivedColumns | None) -> Sim:
        rng = self.world.rng("drawn starts")
        sim = self.world.begin(rng.integers(0, 10_000, _PATHS), np.ones(_PATHS), rng)
        if self.world.case.recording:
            return self.world.settled(sim, rng, derived)
        return self.world.settled(sim, rng, derived, self.world.lags) if self.world.lags else sim

    def _data(self, runs: Runs, kept: Flags) -> Transitions:
        """Return the rows that the historian has (m, T), episode after episode."""
        world, steps = self.world, kept.shape[1]
        parts: list[tuple[Array, ...]] = []
        for k, rows in enumerate(map(np.flatnonzero, kept)):
            following = runs.seen[np.append(rows[1:], steps), k]
            parts.append((runs.seen[rows, k], runs.actions[rows, k], following, np.full(len(rows), float(k))))
        s, a, after, episodes = map(np.concatenate, zip(*parts, strict=True))
        states, actions = ([f"{letter}{k}" for k in range(x.shape[1])] for letter, x in (("s", s), ("a", a)))
        plant, recording = world.dynamics, world.case.recording
        follows: dict[str, Exogenous] = {}
        if world.facts.kind == "heat exchanger":
            follows = {"s1": "log" if recording else "hold"}
        data = Transitions.from_arrays(
            s,
            a,
            world.reward(s, a, after),
            after,
            truncated=np.append(episodes[1:] != episodes[:-1], True),
            episodes=episodes,
            state_names=states,
            action_names=actions,
            angles={states[k]: period for k, period in plant.angles.items()},
            bounds=dict(zip(actions, zip(plant.low.tolist(), plant.high.tolist(), strict=True), strict=True)),
            exogenous=follows or None,
        )
        data = data.derive(lags=dict.fromkeys(actions, world.lags)) if world.lags else data
        return data.with_reward(world.formula) if world.facts.known else data


def horizon(discount: float) -> int:
    """Return the number of steps after which little is left of the discount."""
    return math.ceil(math.log(_LEFT) / math.log(discount))
