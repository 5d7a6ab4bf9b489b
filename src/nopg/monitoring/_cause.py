"""The fault that explains the errors since a change best, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from nopg._typing import FloatArray
from nopg.data import Schema

Kind = Literal["offset", "gain", "sensor", "noise"]

# Another cause is named too where it explains at least this share of what the best one does.
_AS_GOOD = 0.9
_MOST_CAUSES = 3
# Noise explains any error; what it explains counts for less.
_NOISE_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the plant.

    Attributes:
        kind: `gain` of an action, offset of a `sensor`, `offset` of a column, or `noise` of a column.
        column: Name of the action, of the state column, or "reward".
        size: Of a gain relative (−0.2: a fifth weaker), of an offset in the unit of the column (per step
            where the column itself is pushed), of noise as a multiple of that of the log.
        since: Estimated step of the change, counted from 1.
        found: Step of the alarm.
        unit: Declared unit of the column, or empty.
    """

    kind: Kind
    column: str
    size: float
    since: int
    found: int
    unit: str = ""

    @property
    def words(self) -> str:
        """What the change looks like, such as `voltage acts 20 % weaker than in the log`."""
        size, unit = f"{abs(self.size):.3g}", f" {self.unit}" if self.unit else ""
        if self.kind == "gain":
            how = "weaker" if self.size < 0 else "stronger"
            if self.size < -1:
                return f"{self.column} acts the other way round"
            return f"{self.column} acts {abs(self.size):.0%} {how} than in the log".replace("%", " %")
        if self.kind == "sensor":
            return f"the sensor of {self.column} reads {size}{unit} too {'high' if self.size > 0 else 'low'}"
        if self.kind == "noise":
            return f"{self.column} scatters {size} times as much around its prediction as in the log"
        return (
            f"{self.column} comes out {size}{unit} {'higher' if self.size > 0 else 'lower'} "
            "after each step than predicted"
        )


def likely_causes(
    z: FloatArray,
    shifts: FloatArray,
    scale: FloatArray,
    *,
    usual: FloatArray,
    typical: FloatArray,
    names: tuple[str, ...],
    schema: Schema,
    since: int,
    found: int,
) -> tuple[Change, ...]:
    """Return the faults that explain scores best, one parameter each; the best first.

    Args:
        z: Scores since the change, shape (m, c).
        shifts: Scores that faults of size 1 would cause, shape (m, families, c).
        scale: Of the scores, shape (m, c).
        usual: Standard deviation of held-out scores, shape (c,).
        typical: Median of their sizes, shape (c,).
        names: Of the tested columns.
        schema: Of the data.
        since: Estimated step of the change.
        found: Step of the alarm.
    """
    c, d_a = len(names), len(schema.actions)
    shifts = np.concatenate([np.eye(c) / scale[:, None], shifts[:, c:]], axis=1)  # offsets in raw units
    score, shift = z / usual, shifts / usual
    along = np.einsum("mc,mfc->f", score, shift)
    power = np.maximum(np.square(shift).sum(axis=(0, 2)), 1e-300)
    # By medians too: a few rows at which the model is poor do not count as noise.
    by_median = np.square(np.median(np.abs(z), axis=0) / typical)
    ratio = np.minimum(np.square(score).mean(axis=0), by_median)
    by_noise = 0.5 * _NOISE_SHARE * len(z) * (ratio - 1.0 - np.log(np.maximum(ratio, 1e-300))) * (ratio > 1.0)
    explained = np.concatenate([0.5 * along**2 / power, by_noise])
    sizes = np.concatenate([along / power, np.sqrt(ratio)])
    faults: list[tuple[Kind, str]] = [
        *(("offset", name) for name in names),
        *(("gain", name) for name in schema.actions),
        *(("sensor", name) for name in schema.states),
        *(("noise", name) for name in names),
    ]
    assert len(faults) == len(explained) == 2 * c + d_a + len(schema.states)
    order = np.argsort(-explained, kind="stable")[:_MOST_CAUSES]
    return tuple(
        Change(
            kind=faults[f][0],
            column=faults[f][1],
            size=float(sizes[f]),
            since=since,
            found=found,
            unit=schema.units.get(faults[f][1], ""),
        )
        for f in order
        if explained[f] >= _AS_GOOD * explained[order[0]]
    )
