"""One log written in other ways: other units and zeros, another order of its rows, copies for weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from nopg.data import Schema, Transitions

__all__ = ["ALL_AT_ONCE", "CHANGES", "CLOSE", "Change", "linear_run", "twice", "weighted"]

# Of the range of returns: rounding of numbers that were shifted by a thousand of their spreads, through a
# regression and a few hundred steps, is far below.
CLOSE = 1e-6

Law = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Change:
    """A way to write a log that changes nothing about the plant and the task.

    Attributes:
        states: Factor and offset of every state column.
        actions: Of every action column.
        reward: Of the reward, which moves returns.
        episodes: Whether the episodes come in another order, under other numbers.
        rows: Whether rows come in another order; only where they are unconnected.
    """

    states: tuple[float, float] = (1.0, 0.0)
    actions: tuple[float, float] = (1.0, 0.0)
    reward: tuple[float, float] = (1.0, 0.0)
    episodes: bool = False
    rows: bool = False

    def log(self, data: Transitions) -> Transitions:
        """Return the log as it is written now."""
        (k, c), factors = self.reward, self._factors(data.schema)
        states, after = (self._moved(one, data.schema) for one in (data.states, data.next_states))
        found = replace(
            data,
            states=states,
            next_states=after,
            actions=_along(data.actions, self.actions),
            rewards=k * data.rewards + c,
            schema=replace(
                data.schema,
                angles={name: period * factors[name] for name, period in data.schema.angles.items()},
            ),
        )
        if not (self.episodes or self.rows):
            return found
        rng = torch.Generator().manual_seed(3)
        if self.rows:
            return found.take(torch.randperm(len(data), generator=rng))
        assert data.episodes is not None
        count = int(data.episodes.max()) + 1
        numbers = torch.randperm(count, generator=rng)[data.episodes]
        order = numbers.argsort(stable=True)
        return replace(found, episodes=numbers).take(order)

    def state(self, states: torch.Tensor, schema: Schema) -> torch.Tensor:
        """Return raw states of the first log as they are written now."""
        return self._moved(states, schema)

    def law(self, law: Law, schema: Schema) -> Law:
        """Return a control law of the first log for the log as it is written now."""
        return lambda states: _along(law(self._moved(states, schema, back=True)), self.actions)

    def action(self, actions: torch.Tensor) -> torch.Tensor:
        """Return actions of this log as the first log writes them."""
        return (actions - self.actions[1]) / self.actions[0]

    def value(self, returned: float, discount: float) -> float:
        """Return a return of this log as the first log has it, for a task that never ends."""
        k, c = self.reward
        return (returned - c / (1.0 - discount)) / k

    def _factors(self, schema: Schema) -> dict[str, float]:
        return {name: self.states[0] * (1.0 + 0.5 * k) for k, name in enumerate(schema.states)}

    def _moved(self, states: torch.Tensor, schema: Schema, *, back: bool = False) -> torch.Tensor:
        """Return states in other units, a factor for each; an angle keeps its zero and its period of turn."""
        if self.states == (1.0, 0.0):
            return states
        factor = torch.tensor([*self._factors(schema).values()], dtype=torch.float64)
        offset = torch.tensor(
            [0.0 if name in schema.angles else self.states[1] for name in schema.states], dtype=torch.float64
        )
        return (states - offset) / factor if back else factor * states + offset


def _along(values: torch.Tensor, scale: tuple[float, float]) -> torch.Tensor:
    return scale[0] * values + scale[1]


CHANGES = {
    "reward + 100": Change(reward=(1.0, 100.0)),
    "reward + 1 000": Change(reward=(1.0, 1_000.0)),
    "reward × 10⁻³": Change(reward=(1e-3, 0.0)),
    "reward × 10⁶": Change(reward=(1e6, 0.0)),
    "states shifted": Change(states=(1.0, 30.0)),
    "states in other units": Change(states=(250.0, 0.0)),
    "states in small units": Change(states=(1e-3, 2e-3)),
    "actions shifted": Change(actions=(1.0, -20.0)),
    "actions in other units": Change(actions=(0.01, 0.0)),
    "episodes in another order": Change(episodes=True),
}

ALL_AT_ONCE = Change(reward=(0.1, 100.0), states=(250.0, 30.0), actions=(0.01, -20.0), episodes=True)


def weighted(data: Transitions, weights: torch.Tensor) -> Transitions:
    """Return the log with whole weights (n,) of its rows."""
    return replace(data, weights=weights.double())


def twice(data: Transitions, some: torch.Tensor, *, in_place: bool = False) -> Transitions:
    """Return the log with some rows (n,) twice: as further episodes, or each copy behind its row."""
    rows = torch.arange(len(data))
    if in_place:
        return data.take(rows.repeat_interleave(1 + some.long()))
    found = data.take(torch.cat([rows, rows[some]]))
    if data.episodes is None:
        return found
    copies = data.episodes[some] + data.episodes.max() + 1
    return replace(found, episodes=torch.cat([data.episodes, copies]))


def linear_run(
    *, sensor: float = 0.15, episodes: int = 20, steps: int = 20, follows: bool = False
) -> Transitions:
    """Return episodes of a linear plant with disturbances, noisy sensors and perhaps a set point."""
    rng = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    A = torch.tensor([[0.95, 0.1], [0.0, 0.9]], dtype=torch.float64)
    B = torch.tensor([[0.0], [0.3]], dtype=torch.float64)
    levels = torch.tensor([0.1, 0.3, 0.7], dtype=torch.float64)
    x, goal, rows = normal(episodes, 2), levels[torch.randint(3, (episodes, 1), generator=rng)], []
    seen = torch.cat([x, goal], dim=1)
    for _ in range(steps):
        a = 2 * torch.rand(episodes, 1, generator=rng, dtype=torch.float64) - 1
        x = x @ A.T + a @ B.T + 0.1 * normal(episodes, 2)
        moves = torch.rand(episodes, 1, generator=rng) < 0.2
        goal = torch.where(moves, levels[torch.randint(3, (episodes, 1), generator=rng)], goal)
        after = torch.cat([x + sensor * normal(episodes, 2), goal], dim=1)
        rows.append((seen, a, after))
        seen = after
    s, a, after = (torch.stack(part, dim=1).flatten(0, 1) for part in zip(*rows, strict=True))
    reward = -(s[:, 0] - (s[:, 2] if follows else 0.0)).square() - s[:, 1].square() - 0.1 * a[:, 0].square()
    columns = 3 if follows else 2
    return Transitions.from_arrays(
        s[:, :columns],
        a,
        reward,
        after[:, :columns],
        episodes=torch.arange(episodes).repeat_interleave(steps),
        state_names=["x", "v", "goal"][:columns],
        action_names=["u"],
        exogenous=["goal"] if follows else None,
    )
