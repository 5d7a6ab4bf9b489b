"""What is drawn for a seed: plant, reward, discount, logging, noise, numbers of rows and episodes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from studies.trust.dynamics import KINDS, Dynamics, heat_exchanger
from studies.trust.faults import FAULTS

EPISODES = (5, 40, 51, 100, 1_000)
PATTERNS = ("iid", "alternating", "periodic")
"""How starts of successive episodes differ."""
NOISES: Mapping[str, float] = MappingProxyType({"none": 0.0, "small": 0.02, "moderate": 0.1})
"""Standard deviation of the process noise, in typical deviations of the states."""
_REWARDS = ("quadratic", "absolute", "quadratic + action", "saturating")
_RECORDINGS = (700, 1_400, 2_800, 5_600)
_FEWEST, _MOST = 150, 2_400
# Rows of an episode at least; where there are many episodes; where lags drop the first rows.
_LEAST, _LEAST_OF_MANY, _LEAST_WITH_LAGS = 10, 2, 20


@dataclass(frozen=True, slots=True)
class Case:
    """A seed with a fault; cases of one seed differ by their fault alone, as far as that allows.

    Attributes:
        seed: Of everything.
        fault: One of `FAULTS`.
        episodes: Number of episodes; 0 draws it.
        recording: Whether the log is one recording without episodes, in which every row is a start.
        pattern: One of `PATTERNS`; empty draws it.
    """

    seed: int
    fault: str = "none"
    episodes: int = 0
    recording: bool = False
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was drawn for a case.

    Attributes:
        kind: Kind of plant.
        discount: γ.
        reward: Kind of reward.
        constant: Constant of the reward.
        of_next: Whether the reward is of the state that a step leads to.
        known: Whether the library is given the formula of the reward.
        logging: Kind of logging.
        noise: Process noise, one of `NOISES`.
        sensor_noise: Whether the sensors are noisy.
        pattern: Pattern of the starts.
        episodes: Number of episodes; 1 for a recording.
        steps: Rows of an episode before any are lost.
        lags: Rows by which actions are late, with declared lags; 0 for none.
    """

    kind: str
    discount: float
    reward: str
    constant: float
    of_next: bool
    known: bool
    logging: str
    noise: str
    sensor_noise: bool
    pattern: str
    episodes: int
    steps: int
    lags: int

    @classmethod
    def draw(cls, case: Case) -> Facts:
        """Return the facts of a case."""
        rng, needs = random_generator(case.seed, "setting"), FAULTS[case.fault]
        kind, logging = str(rng.choice(list(KINDS))), str(rng.choice(["random", "feedback", "mixture"]))
        drawn_episodes, drawn_rows = int(rng.choice([5, 10, 20, 40, 51, 100])), rng.random()
        discount, reward = round(float(rng.uniform(0.9, 0.98)), 3), str(rng.choice(_REWARDS))
        constant, flags = float(rng.normal(0.0, 3.0)), rng.random(4)
        noise, pattern = str(rng.choice(list(NOISES))), str(rng.choice(PATTERNS, p=[0.6, 0.2, 0.2]))
        recording_rows, lags = int(rng.choice(_RECORDINGS)), int(rng.choice([0, 0, 1, 2, 4]))
        if needs.episodes:
            drawn_episodes = int(rng.choice(needs.episodes))
        episodes = 1 if case.recording else case.episodes or drawn_episodes
        least = _LEAST_WITH_LAGS if needs.kinds == ("heat exchanger",) else _LEAST
        rows = recording_rows if case.recording else round(_FEWEST * (_MOST / _FEWEST) ** drawn_rows)
        return cls(
            kind=kind if kind in needs.kinds else needs.kinds[0],
            discount=discount,
            reward=reward,
            constant=round(constant, 3) if flags[0] < 0.25 else 0.0,
            of_next=bool(flags[1] < 0.5),
            known=bool(flags[2] < 0.5) and not needs.reward_is_learned,
            logging=needs.logging if needs.logging and logging == "random" else logging,
            noise=noise,
            sensor_noise=bool(flags[3] < 0.4),
            pattern=case.pattern or needs.pattern or pattern,
            episodes=episodes,
            steps=max(rows // episodes, _LEAST_OF_MANY if episodes >= 1_000 else least),
            lags=lags if case.recording and case.fault == "none" else 0,
        )

    def dynamics(self, seed: int) -> Dynamics:
        """Return the plant of a seed."""
        every = {**KINDS, "heat exchanger": heat_exchanger}
        return every[self.kind](random_generator(seed, "plant"))


def reward_formula(facts: Facts, plant: Dynamics, rng: np.random.Generator) -> str:
    """Return the reward without the part of a fault; columns are s0, s1, … and a0, a1, …."""
    errors = []
    for k, (target, scale) in enumerate(zip(plant.target.tolist(), plant.scale.tolist(), strict=True)):
        column = f"next(s{k})" if facts.of_next else f"s{k}"
        # Of a chord where the column is an angle, whose turns count alike.
        error = f"2 * sin(({column} - {target!r}) / 2)" if k in plant.angles else f"({column} - {target!r})"
        errors.append(f"({error} / {scale!r})")
    if facts.kind == "heat exchanger":
        errors = [f"((s0 - s1) / {float(plant.scale[0])!r})"]
    prices = np.round(np.append(1.0, rng.uniform(0.1, 1.0, len(errors))), 3).tolist()
    priced = list(zip(prices, errors, strict=False))
    squares = " + ".join(f"{price!r} * {error} ** 2" for price, error in priced)
    if facts.reward == "absolute":
        found = f"-({' + '.join(f'{price!r} * abs({error})' for price, error in priced)})"
    elif facts.reward == "saturating":
        found = f"exp(-0.5 * ({squares}))"
    else:
        found = f"-({squares})"
    if facts.reward == "quadratic + action":
        price, half = round(float(rng.uniform(0.05, 1.0)), 3), (plant.high - plant.low) / 2
        for k, (trim, one) in enumerate(zip(plant.trim.tolist(), half.tolist(), strict=True)):
            found += f" - {price!r} * ((a{k} - {trim!r}) / {one!r}) ** 2"
    return found + (f" + {facts.constant!r}" if facts.constant else "")


def random_generator(seed: int, purpose: str) -> np.random.Generator:
    """Return a generator for one purpose; the same seed and purpose give the same stream."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])
