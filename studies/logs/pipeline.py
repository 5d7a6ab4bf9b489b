"""A pipeline with a transport delay of 20 steps, after NeoRL-2's `Pipeline` task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from studies.calibration.plants.laws import Array, Behaviour, Law
from studies.logs.controllers import PI
from studies.logs.plant import LogPlant

__all__ = ["PIPELINE", "Pipeline"]

DELAY = 20
_TARGETS, _CHANGE = (50.0, 80.0, 110.0, 140.0), 0.003
_MOST = 200.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Pipeline(LogPlant):
    """Bring the flow at the end of a long channel to its target with a gate at its beginning.

    Delay, targets, reward and starts are those published with NeoRL-2 (Gao et al. 2025, arXiv:2503.19267,
    and the repository polixir/NeoRL2): the action, within ±1, is the change of the gate's flow in a step, and
    the water arrives 20 steps after the action. The target is 50, 80, 110 or 140, drawn anew with a
    probability of .003 a step. The reward of a step is ((200 − |flow − target|)/100)² − 3 of the state that
    it leads to. Starts are at rest between 80 and 120. The task there shows the controller 25 earlier flows
    and actions; here the log has the flow and the target only, and whoever reads it declares the lags.
    """

    def start(self, count: int, rng: np.random.Generator) -> Array:
        """Return hidden states (count, 21): the target, and the flow from the gate to the end."""
        flow = rng.uniform(80.0, 120.0, count)
        return np.column_stack([rng.choice(_TARGETS, count), np.repeat(flow[:, None], DELAY, axis=1)])

    def measure(self, hidden: Array, rng: np.random.Generator) -> Array:
        """Return flow and target (m, 2), without noise."""
        del rng
        return hidden[:, [-1, 0]]

    def advance(self, hidden: Array, actions: Array, rng: np.random.Generator) -> Array:
        """Return the hidden states one step later."""
        m, gate = len(hidden), np.clip(hidden[:, 1] + actions[:, 0], 0.0, _MOST)
        target = np.where(rng.random(m) < _CHANGE, rng.choice(_TARGETS, m), hidden[:, 0])
        return np.column_stack([target, gate, hidden[:, 1:-1]])

    def behaviour(self) -> Behaviour:
        """Return a P controller that swings, with noise of .2 on the action."""
        return PI(plant=self, columns=(0, 1), gain=0.1, noise=0.2)

    def references(self) -> Mapping[str, Behaviour]:
        """Return the P controller without its noise, and one that knows the flow at the gate."""
        return {"clean P": PI(plant=self, columns=(0, 1), gain=0.1), "knows the gate": _knows_the_gate}


def _knows_the_gate(episodes: int, rng: np.random.Generator) -> Law:
    """Return a controller that moves the gate to the target as fast as it goes; no feedback is faster."""
    del episodes, rng
    gate: Array | None = None

    def act(measured: Array) -> Array:
        nonlocal gate
        gate = measured[:, 0] if gate is None else gate
        change = np.clip(measured[:, 1] - gate, -1.0, 1.0)
        gate = gate + change
        return np.asarray(change[:, None])

    return act


PIPELINE = Pipeline(
    name="pipeline",
    role="report",
    states={"flow": "", "target": ""},
    actions={"gate_change": ("", -1.0, 1.0)},
    discount=0.99,
    sizes=(10_000,),
    logged_steps=1_000,
    steps=1_000,
    reward="((200 - abs(next(flow) - next(target))) / 100) ** 2 - 3",
    exogenous={"target": "log"},
    interval=1.0,
    lags={"gate_change": DELAY - 1},
)
"""Ten episodes of 1 000 steps under a noisy P controller."""
