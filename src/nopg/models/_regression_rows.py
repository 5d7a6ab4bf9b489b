"""The rows of a log as inputs and targets of a regression, in groups that are held out together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nopg._support import FirstFeatures, embed, short_way
from nopg.data import Schema, Transitions
from nopg.data._held_out import duplicate_groups, held_out_groups, spread_rows

NUM_GROUPS = 10
"""Number of groups: statistics of any half of them, or of all but one, are sums over groups."""
# A column that varies by less than this share of its magnitude is constant up to rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class InputSpace:
    """The columns (s, a) of a regression: which are angles, and the unit of each."""

    units: Tensor  # standard deviation of each input, 1 if constant; of an angle one radian, (d,)
    periods: Tensor  # period of each angle, 0 of any other input, (d,)
    origin: Tensor  # mean of each input, 0 of an angle, (d,)

    @classmethod
    def of(cls, schema: Schema, inputs: Tensor) -> InputSpace:
        """Return the space of inputs (n, d), states first."""
        periods = torch.zeros(inputs.shape[1], dtype=torch.float64)
        for column, name in enumerate(schema.states):
            periods[column] = schema.angles.get(name, 0.0)
        varies = inputs.amax(dim=0) - inputs.amin(dim=0) > _ROUNDING * inputs.abs().amax(dim=0)
        units = torch.where(varies, inputs.std(dim=0, correction=0), 1.0)
        units = torch.where(periods > 0, periods / (2 * math.pi), units)
        return cls(units, periods, torch.where(periods > 0, 0.0, inputs.mean(dim=0)))

    def first(self, count: int) -> InputSpace:
        """Return the space of the first inputs alone."""
        return InputSpace(self.units[:count], self.periods[:count], self.origin[:count])

    def offsets(self, start: Tensor, end: Tensor) -> Tensor:
        """Return end − start (…, d) in units, angles the short way round."""
        apart = end - start
        short_way(apart, self.periods)
        return apart / self.units

    def embed(self, inputs: Tensor, metric: Tensor | None = None) -> Tensor:
        """Return inputs (m, d) as points whose distance is that of a metric (d,): an angle as a circle."""
        weights = 1.0 / self.units if metric is None else metric / self.units
        return torch.as_tensor(embed(inputs.T.numpy(), weights.numpy(), self.periods.numpy()).T.copy())

    def first_features(self, used: Tensor) -> FirstFeatures:
        """Return the features of degree 1 of the used inputs (d,), in numpy."""
        inputs = used.nonzero()[:, 0]
        columns = inputs.repeat_interleave(1 + (self.periods[inputs] > 0).long())
        return FirstFeatures(columns.numpy(), self.origin[columns].numpy(), self.units[columns].numpy())

    def features(self, inputs: Tensor, used: Tensor, degree: int) -> Tensor:
        """Return polynomials (m, q) of the used inputs (d,), an angle as its cosine and sine."""
        first, _ = self.first_features(used).at(inputs.T.numpy())
        return design(torch.as_tensor(first.T), degree)


def design(offsets: Tensor, degree: int) -> Tensor:
    """Return 1, the offsets (…, d) and, of degree 2, their products, shape (…, p)."""
    columns = [offsets.new_ones(*offsets.shape[:-1], 1), offsets]
    if degree == 2:
        columns += [offsets[..., k : k + 1] * offsets[..., k:] for k in range(offsets.shape[-1])]
    return torch.cat(columns, dim=-1)


@dataclass(frozen=True, slots=True, eq=False)
class StateCoordinates:
    """z = C s, in units of its own.

    Columns without lags are coordinates themselves. A measured column with lags gives its value and its last
    change, an action with lags the mean of these: values of states are interpolated between a few hundred
    nodes, which resolve no twenty columns.
    """

    space: InputSpace  # units and angles of z
    matrix: Tensor | None  # C, (d_z, d_s); None for the identity
    wrapped: Tensor  # period of each coordinate that is a change of an angle, else 0, (d_z,)

    @classmethod
    def of(cls, data: Transitions, space: InputSpace, sources: Sequence[str | None]) -> StateCoordinates:
        """Return the coordinates of the states of a log.

        Args:
            data: The log.
            space: Units and angles of its states.
            sources: What each derived column is a lag of, as in `DerivedColumns.lags`.
        """
        schema, eye = data.schema, torch.eye(len(data.schema.states), dtype=torch.float64)
        number = {name: k for k, name in enumerate(schema.states)}
        lags: dict[str, list[int]] = {name: [] for name in (*schema.measured, *schema.actions)}
        for k, source in enumerate(sources, start=len(schema.measured)):
            if source is not None:
                lags[source].append(k)
        taken = {k for columns in lags.values() for k in columns}
        if not taken:
            return cls(space, None, torch.zeros_like(space.units))
        rows, wrapped = list[Tensor](), list[float]()
        for name, k in number.items():
            if k not in taken:
                rows, wrapped = [*rows, eye[k]], [*wrapped, 0.0]
            if lags.get(name):
                rows, wrapped = (
                    [*rows, eye[k] - eye[lags[name][0]]],
                    [*wrapped, schema.angles.get(name, 0.0)],
                )
        for name in schema.actions:
            if lags[name]:
                rows, wrapped = [*rows, eye[lags[name]].mean(dim=0)], [*wrapped, 0.0]
        raw = cls(space, torch.stack(rows), torch.tensor(wrapped, dtype=torch.float64))
        return raw._with_units(data.states)

    def _with_units(self, states: Tensor) -> StateCoordinates:
        """Return the coordinates in the units of columns, or of their values in a log."""
        assert self.matrix is not None
        z, column = self.at(states), self.matrix.argmax(dim=1)
        spread = z.std(dim=0, correction=0)
        single = (self.matrix == 1.0).any(dim=1) & (self.matrix.abs().sum(dim=1) == 1.0)
        units = torch.where(single, self.space.units[column], torch.where(spread > 0, spread, 1.0))
        periods = torch.where(single, self.space.periods[column], 0.0)
        origin = torch.where(single, self.space.origin[column], z.mean(dim=0))
        return StateCoordinates(InputSpace(units, periods, origin), self.matrix, self.wrapped)

    def at(self, states: Tensor) -> Tensor:
        """Return z (…, d_z) of raw states (…, d_s)."""
        if self.matrix is None:
            return states
        z = states @ self.matrix.T
        short_way(z, self.wrapped)
        return z

    def steps(self, displacements: Tensor) -> Tensor:
        """Return the distance (m,) in units that displacements (m, d_s) of raw states move z."""
        distance: Tensor = (self.at(displacements) / self.space.units).norm(dim=1)
        return distance

    def slopes(self, by_z: Tensor) -> Tensor:
        """Return the derivative (…, d_s) by raw states from that by z (…, d_z)."""
        return by_z if self.matrix is None else by_z @ self.matrix


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows of a regression."""

    inputs: Tensor  # (s, a), raw, (n, d)
    targets: Tensor  # s′ − s, angles the short way round, then r, then costs, (n, t)
    weights: Tensor  # number of transitions that each row represents, (n,)
    groups: Tensor  # the group of each row, (n,)
    num_groups: int  # G

    def __len__(self) -> int:
        return len(self.inputs)

    @classmethod
    def of_log(cls, data: Transitions, groups: Tensor, num_groups: int) -> RowBatch:
        """Return the rows of a log without costs, copies included."""
        return cls(*_inputs_and_targets(data), _weights(data), groups, num_groups)

    @property
    def extremes(self) -> Tensor:
        """Least and largest values of the inputs, shape (2, d)."""
        return torch.stack([self.inputs.amin(dim=0), self.inputs.amax(dim=0)])

    def take(self, some: Tensor) -> RowBatch:
        """Return some of the rows."""
        parts = self.inputs[some], self.targets[some], self.weights[some], self.groups[some]
        return RowBatch(*parts, self.num_groups)

    def by_group(self) -> RowBatch:
        """Return the rows, group after group."""
        return self.take(self.groups.argsort(stable=True))


@dataclass(frozen=True, slots=True)
class RegressionRows(RowBatch):
    """Distinct rows of a log."""

    space: InputSpace  # units and angles of the inputs
    spread: Tensor  # standard deviation of each target; 0 if it is constant up to rounding, (t,)
    sample: Tensor  # the rows in a random order that depends on their values only
    first: Tensor  # the first of the rows of the log that each row stands for, in their order, (n,)
    copies: Tensor  # the row that each row of the log is a copy of, (N,)
    units: int  # number of episodes, blocks or single rows that form the groups

    @classmethod
    def of(
        cls, data: Transitions, costs: Tensor | None = None, groups: Tensor | None = None
    ) -> RegressionRows:
        """Return the distinct rows of a log, weighted by their number of copies.

        Args:
            data: The log.
            costs: Further targets, one column each, shape (n, k).
            groups: The group of each row, shape (n,); chosen from the data if not given.
        """
        copies = duplicate_groups(data)
        owners = held_out_groups(data, duplicates=copies)
        count = int(copies.max()) + 1
        first = torch.full((count,), len(data)).scatter_reduce_(0, copies, torch.arange(len(data)), "amin")
        weights = torch.zeros(count, dtype=torch.float64).index_add_(0, copies, _weights(data))
        few = data.take(first)
        inputs, targets = _inputs_and_targets(few)
        targets = targets if costs is None else torch.cat([targets, costs[first]], dim=1)
        space = InputSpace.of(data.schema, inputs)
        spread = targets.std(dim=0, correction=0)
        size = torch.maximum(few.states.abs(), few.next_states.abs()).amax(dim=0)
        size = torch.cat([size, targets[:, len(size) :].abs().amax(dim=0)])
        order = spread_rows(few, count, purpose="rows of a regression")
        owned, units = _split_episodes(owners[first])
        if groups is None:
            groups, num_groups = _balanced_groups(owned, order)
        else:
            groups, num_groups = groups[first], NUM_GROUPS
        return cls(
            inputs,
            targets,
            weights,
            groups,
            num_groups,
            space,
            torch.where(spread > _ROUNDING * size, spread, 0.0),
            order,
            first,
            copies,
            units,
        )

    def filtered(self, data: Transitions, states: Tensor) -> RegressionRows:
        """Return the rows with other states (n, d_s) and the steps from them; the log has no copies."""
        d_s = states.shape[1]
        inputs = torch.cat([states, self.inputs[:, d_s:]], dim=1)
        steps = data.schema.difference(states, data.next_states)
        targets = torch.cat([steps, self.targets[:, d_s:]], dim=1)
        spread = torch.where(self.spread > 0, targets.std(dim=0, correction=0), 0.0)
        space = InputSpace.of(data.schema, inputs)
        return replace(self, inputs=inputs, targets=targets, space=space, spread=spread)

    def rows_of_group(self, group: int) -> Tensor:
        """Return the indices of the rows of the log that belong to a group."""
        return (self.groups[self.copies] == group).nonzero()[:, 0]


def _inputs_and_targets(data: Transitions) -> tuple[Tensor, Tensor]:
    """Return (s, a), and s′ − s with r, of every row."""
    steps = data.schema.difference(data.states, data.next_states)
    return torch.cat([data.states, data.actions], dim=1), torch.cat([steps, data.rewards[:, None]], dim=1)


def _weights(data: Transitions) -> Tensor:
    return torch.ones(len(data), dtype=torch.float64) if data.weights is None else data.weights


def _split_episodes(owners: Tensor) -> tuple[Tensor, int]:
    """Return the owner of each row, few episodes cut into blocks, and the number of owners before."""
    _, owner, counts = torch.unique(owners, return_inverse=True, return_counts=True)
    blocks = -(-NUM_GROUPS // len(counts))
    if blocks == 1:
        return owner, len(counts)
    order = owner.argsort(stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order)) - (counts.cumsum(0) - counts)[owner[order]]
    return owner * blocks + place * blocks // counts[owner], len(counts)


def _balanced_groups(owners: Tensor, order: Tensor) -> tuple[Tensor, int]:
    """Return groups of similar size: the largest owners first, ties by the order of their rows."""
    _, first, owner, counts = np.unique(
        owners.numpy()[order.numpy()], return_index=True, return_inverse=True, return_counts=True
    )
    num_groups = min(NUM_GROUPS, len(counts))
    group_of = np.empty(len(counts), dtype=np.int64)
    group_of[np.lexsort((first, -counts))] = np.arange(len(counts)) % num_groups
    groups = np.empty(len(owners), dtype=np.int64)
    groups[order.numpy()] = group_of[owner]
    return torch.as_tensor(groups), num_groups
