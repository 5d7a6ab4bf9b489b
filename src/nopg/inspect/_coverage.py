"""How dense the data are: neighbours of rows left out, steps over bandwidths, support of the starts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from nopg._seeding import generator
from nopg.data import Schema, Transitions
from nopg.data._transitions import StartKind
from nopg.errors import DataError
from nopg.inspect._wording import listed
from nopg.kernels import Bandwidths, select_bandwidths
from nopg.kernels._spacing import step_length
from nopg.kernels._table import RegressionTable

PERCENTILES = (5, 25, 50, 75, 95)
STICKS = 0.5
"""Median step over bandwidth below which the model mostly stays where it is."""
UNKNOWN_BEYOND = math.sqrt(2 * math.log(1e6))
"""Distance, in bandwidths, at which a lone sample weighs as much as the default prior mass of 10⁻⁶."""
REACH = 2.0
"""Distance, in bandwidths, up to which a neighbour matters."""

_ROWS, _QUERIES = 50_000, 400
_PAIRS_AT_ONCE = 1 << 20
# A bandwidth held down to two steps measures half a bandwidth per step, but for rounding.
_HELD_DOWN = 1.01 * STICKS
_WIDE_HOLES = 1.5
# Share of rows that should have a neighbour in reach.
_REACHED = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """What the kernels see, at the bandwidths given or those that `select_bandwidths` chooses.

    Attributes:
        num_rows: Rows it was measured on.
        bandwidths: Of the columns that vary.
        steps: Median step over bandwidth of every state column that varies, by name.
        neighbors: Effective number of neighbours, (Σw)²/Σw², of rows left out with their episode or their
            copies, shape (m,).
        nearest: Their distance to the nearest row that remains, in bandwidths, shape (m,).
        start_kind: What the initial states are; see `Transitions.start_kind`.
        starts_assumed: Whether every row counts as a start because nothing says where the task starts.
        starts_support: Effective sample size Σψ at each of them, shape (n₀,).
        starts_nearest: Their distance to the nearest state of the data, in bandwidths, shape (n₀,).
    """

    num_rows: int
    bandwidths: Bandwidths
    steps: Mapping[str, float]
    neighbors: torch.Tensor
    nearest: torch.Tensor
    start_kind: StartKind
    starts_assumed: bool
    starts_support: torch.Tensor
    starts_nearest: torch.Tensor

    @classmethod
    def of(cls, data: Transitions, bandwidths: Bandwidths | None = None) -> Coverage:
        """Measure the coverage; a `DataError` says why that is not possible."""
        drawn = _some_rows(data)
        constant = data.take(drawn).constant_columns
        full = _without(data, constant)
        varying = full.take(drawn)
        if bandwidths is None:
            h = select_bandwidths(varying)
        else:
            h = _without_bandwidths(bandwidths, data, constant)

        table = RegressionTable.from_data(varying)
        x = table.inputs * (table.scale / torch.cat([h.states, h.actions]))
        groups = table.held_out_with
        neighbors, _, nearest = _weigh(x, x, own=groups, groups=groups, log_counts=table.log_counts)
        queries, states = varying.schema.encode(full.starts) / h.states, varying.features / h.states
        rows, owners = full.start_rows, _owners(full)
        _, support, start_distance = _weigh(
            queries, states, own=None if rows is None else owners[rows], groups=owners[drawn]
        )

        by_column = torch.empty(len(varying.schema.states), dtype=torch.float64)
        by_column[torch.tensor(varying.schema.feature_columns)] = h.states
        ratios = (step_length(varying) / by_column).tolist()
        return cls(
            num_rows=len(varying),
            bandwidths=h,
            steps=dict(zip(varying.schema.states, ratios, strict=True)),
            neighbors=neighbors,
            nearest=nearest,
            start_kind=full.start_kind,
            starts_assumed=data.initial_states is None and data.begins is None and data.episodes is None,
            starts_support=support,
            starts_nearest=start_distance,
        )

    @property
    def holes(self) -> float:
        """How many times wider states would have to be for nine rows in ten to have a neighbour in reach."""
        return max(1.0, float(self.nearest.quantile(_REACHED)) / REACH)

    @property
    def short(self) -> Mapping[str, float]:
        """The state columns whose steps are too short for their bandwidths, with step over bandwidth.

        Bandwidths are held down to two steps. Columns at that bound are short, too, if it leaves holes.
        """
        limit = _HELD_DOWN if self.holes >= _WIDE_HOLES else STICKS**2 / _HELD_DOWN
        return {name: ratio for name, ratio in self.steps.items() if 0 < ratio < limit}

    @property
    def frame_skip(self) -> int:
        """How many steps to take as one so that the model does not stick; 1 where it does not."""
        if not self.short:
            return 1
        return max(2, math.ceil(STICKS / min(self.short.values()) * self.holes))


def percentiles(values: torch.Tensor) -> list[float]:
    """Return the `PERCENTILES` of values (m,)."""
    shares = torch.tensor(PERCENTILES, dtype=torch.float64) / 100
    return [float(value) for value in values.quantile(shares)]


def _some_rows(data: Transitions) -> torch.Tensor:
    """Return the numbers of all rows, or of 50 000, the same ones every time."""
    if len(data) <= _ROWS:
        return torch.arange(len(data))
    drawn = torch.randperm(len(data), generator=generator(0, "described rows"))[:_ROWS]
    return drawn.sort().values


def _kept(schema: Schema, constant: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the numbers of the state and of the action columns that are not constant."""
    s = [k for k, name in enumerate(schema.states) if name not in constant]
    return s, [k for k, name in enumerate(schema.actions) if name not in constant]


def _without(data: Transitions, constant: Sequence[str]) -> Transitions:
    """Return the data without constant columns."""
    if not constant:
        return data
    schema, (s, a) = data.schema, _kept(data.schema, constant)
    if not s or not a:
        raise DataError(f"{listed(constant)} never vary, and without them there is nothing to compare")
    details = {
        detail: {name: one for name, one in getattr(schema, detail).items() if name not in constant}
        for detail in ("angles", "units", "bounds")
    }
    return replace(
        data,
        states=data.states[:, s],
        actions=data.actions[:, a],
        next_states=data.next_states[:, s],
        schema=Schema(
            tuple(schema.states[k] for k in s),
            tuple(schema.actions[k] for k in a),
            details["angles"],
            details["units"],
            details["bounds"],
        ),
        initial_states=None if data.initial_states is None else data.initial_states[:, s],
    )


def _without_bandwidths(h: Bandwidths, data: Transitions, constant: Sequence[str]) -> Bandwidths:
    """Return the bandwidths without those of constant columns."""
    s, a = _kept(data.schema, constant)
    features = [k for k, column in enumerate(data.schema.feature_columns) if column in s]
    return Bandwidths(h.states[features], h.actions[a], h.next_states[features], h.source)


def _owners(data: Transitions) -> torch.Tensor:
    """Return what is left out with each row, shape (n,): its episode if there are several, else itself."""
    if data.episodes is None or bool((data.episodes == data.episodes[0]).all()):
        return torch.arange(len(data))
    return data.episodes


def _weigh(
    queries: torch.Tensor,
    points: torch.Tensor,
    *,
    own: torch.Tensor | None,
    groups: torch.Tensor | None,
    log_counts: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (Σw)²/Σw², Σw and the least distance for at most 400 queries (m, d) among points (n, d).

    Distances are in bandwidths. Points of a query's own group are left out; a query without any point has no
    neighbours, at an infinite distance.
    """
    spread = torch.linspace(0, len(queries) - 1, min(len(queries), _QUERIES), dtype=torch.float64)
    found = []
    for rows in spread.round().long().split(max(1, _PAIRS_AT_ONCE // len(points))):
        # Differences, not inner products: those lose the digits of what lies close together.
        squared = torch.cdist(queries[rows], points, compute_mode="donot_use_mm_for_euclid_dist").square_()
        if own is not None and groups is not None:
            squared.masked_fill_(own[rows][:, None] == groups, math.inf)
        nearest = squared.amin(dim=1)
        floor = torch.where(nearest.isinf(), 0.0, nearest)

        # Relative to the nearest, so that far queries do not underflow.
        w = squared.sub_(floor[:, None]).mul_(-0.5)
        w = (w if log_counts is None else w.add_(log_counts)).exp_()
        total = w.sum(dim=1)
        effective = (total.square() / w.square_().sum(dim=1)).nan_to_num(nan=0.0)
        found.append((effective, total * (-0.5 * floor).exp(), nearest.sqrt()))
    neighbors, support, distance = (torch.cat(parts) for parts in zip(*found, strict=True))
    return neighbors, support, distance
