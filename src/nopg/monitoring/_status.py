"""The verdict on a run with its reasons, and the fault that explains the errors since a change best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nopg._typing import FloatArray
from nopg.data import Schema
from nopg.inspect._wording import share_of
from nopg.monitoring._run import Facts
from nopg.monitoring._scores import Scorer

Verdict = Literal["ok", "check", "retrain", "revert"]
Kind = Literal["offset", "gain", "sensor", "noise"]

# Another cause is named too where it explains at least this share of what the best one does.
_AS_GOOD, _MOST_CAUSES = 0.9, 3
# Share of recent rows outside the log, beyond the predicted one, at which to look, and to act.
_SOME, _MOST = 0.2, 0.5
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
        size, up = f"{abs(self.size):.3g}", self.size > 0
        amount = f"{size} {self.unit}".rstrip()
        if self.kind == "gain" and self.size < -1:
            return f"{self.column} acts the other way round"
        what = {
            "gain": f"acts {100 * abs(self.size):.0f} % {'stronger' if up else 'weaker'} than in the log",
            "sensor": f"is measured {amount} too {'high' if up else 'low'}",
            "noise": f"scatters {size} times as much around its prediction as in the log",
            "offset": f"comes out {amount} {'higher' if up else 'lower'} after each step than predicted",
        }
        return f"{self.column} {what[self.kind]}"


def likely_causes(
    rows: tuple[FloatArray, FloatArray, FloatArray], scorer: Scorer, schema: Schema, alarm: tuple[int, int]
) -> tuple[Change, ...]:
    """Return the faults that explain scores best, one parameter each; the best first.

    `rows` are z, shifts and scale since the change, see `Scores`; `alarm` is its step and that of the alarm.
    """
    (z, shifts, scale), names = rows, scorer.names
    c = z.shape[1]
    shifts = np.concatenate([np.eye(c) / scale[:, None], shifts[:, c:]], axis=1)  # offsets in raw units
    score, shift = z / scorer.usual, shifts / scorer.usual
    along = np.einsum("mc,mfc->f", score, shift)
    power = np.maximum(np.square(shift).sum(axis=(0, 2)), 1e-300)
    # By medians too: a few rows at which the model is poor do not count as noise.
    by_median = np.square(np.median(np.abs(z), axis=0) / scorer.typical)
    ratio = np.minimum(np.square(score).mean(axis=0), by_median)
    by_noise = 0.5 * _NOISE_SHARE * len(z) * (ratio - 1.0 - np.log(np.maximum(ratio, 1e-300))) * (ratio > 1.0)
    explained = np.concatenate([0.5 * along**2 / power, by_noise])
    sizes = np.concatenate([along / power, np.sqrt(ratio)])
    kinds: tuple[tuple[Kind, Sequence[str]], ...] = (
        ("offset", names),
        ("gain", schema.actions),
        ("sensor", schema.states),
        ("noise", names),
    )
    faults = [(kind, name) for kind, columns in kinds for name in columns]
    order = np.argsort(-explained, kind="stable")[:_MOST_CAUSES]
    return tuple(
        Change(kind, column, float(sizes[f]), *alarm, schema.units.get(column, ""))
        for f in order.tolist()
        for kind, column in [faults[f]]
        if explained[f] >= _AS_GOOD * explained[order[0]]
    )


@dataclass(frozen=True, slots=True)
class Status:
    """What is known of a run after some steps.

    Attributes:
        step: Number of steps so far.
        verdict: `ok`: nothing unusual. `check`: something to look at. `retrain`: the plant has changed, or is
            mostly outside the log, and returns what was predicted, or does not run under the controller yet.
            `revert`: the same, and it returns less than predicted: go back to the old controller.
        reasons: Why, in sentences.
        evidence: Against an unchanged plant: mean of the Shiryaev-Roberts statistics.
        threshold: The evidence at which there is an alarm, horizon/false_alarms.
        change: The change of the plant, after an alarm.
        others: Other causes that explain the errors nearly as well.
        operating_region: Of the last 200 rows: the share `outside` the log, and the `expected` one, None in
            shadow mode. None before 50 rows.
        return_check: Mean discounted return over at most the last 20 `stretches` of the run: `measured`, and
            `predicted` from the same states with the `interval` of three standard errors. None while the run
            is too short or was not asked for.
        shadow: In shadow mode: the mean `difference` of the last 200 actions by name; the return `measured`
            under the acting controller, and `predicted` for the other one from the same states, as in
            `return_check`, which is then None.
    """

    step: int
    verdict: Verdict
    reasons: tuple[str, ...]
    evidence: float
    threshold: float
    change: Change | None = None
    others: tuple[Change, ...] = ()
    operating_region: Facts | None = None
    return_check: Facts | None = None
    shadow: Facts | None = None

    def __str__(self) -> str:
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"{self.verdict} after {self.step} steps{why}"


def judge(
    causes: tuple[Change, ...], region: Facts | None, returns: Facts | None, *, shadow: bool
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict and its reasons."""
    outside, expected = (0.0, None) if region is None else (region["outside"], region["expected"])
    unexpected, reasons = outside - (expected or 0.0), list[str]()
    if causes:
        best, others = causes[0], "".join(f", or {one.words}" for one in causes[1:])
        found = f"the plant has changed since about step {best.since} (found at step {best.found})"
        reasons.append(f"{found}: {best.words}{others}")
    if unexpected > _SOME:
        predicted = "" if expected is None else f" (predicted: {share_of(expected)})"
        reasons.append(
            f"{share_of(outside)} of the last rows are outside the log{predicted}: no such states, or other "
            "actions than those that followed them; there the model neither predicts nor tests"
        )
    below = returns is not None and returns["measured"] < returns["interval"][0]
    if returns is not None and below:
        low, high = returns["interval"]
        found = f"measured return {returns['measured']:.4g}, below the predicted interval"
        reasons.append(f"{found} [{low:.4g}, {high:.4g}] from the same states")
    if not causes and unexpected <= _MOST:
        return ("check" if reasons else "ok"), tuple(reasons)
    if shadow or returns is not None:
        return ("revert" if below and not shadow else "retrain"), tuple(reasons)
    return "check", (*reasons, "whether it costs return is not known yet")
