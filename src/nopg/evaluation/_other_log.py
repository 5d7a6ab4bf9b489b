"""Another log of the same plant: whether it fits a controller, and bears out what was predicted of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from nopg.data import Schema, Transitions
from nopg.errors import DataError
from nopg.evaluation._assessment import Assessment
from nopg.evaluation._control_law import PolicyLaw
from nopg.evaluation._offline import OfflineEvaluator

# A log is the controller's own if so many of its actions differ by at most this share of their range.
_OWN_ROWS, _SAME_ACTION = 0.95, 0.01
# Steps in time that differ by more than this share are other steps.
_SAME_INTERVAL = 0.1
# Both halves of a log, to which models are fitted, need twice the rows of a linear law's coefficients.
_ROWS_PER_COEFFICIENT = 4

AgainstPrediction = Literal["less than predicted", "as predicted", "more than predicted"]

Trained = Any
"""A `nopg.training.TrainingResult`: the package lies above."""


@dataclass(frozen=True, slots=True)
class LogEvaluation:
    """A controller by another log of its plant, beside what was predicted of it.

    Attributes:
        assessment: What a model of this log alone predicts.
        predicted: What the model of the training predicts from the same starts; None if it was saved without
            its data.
        against_prediction: Whether the two intervals from exactly these starts overlap; None if a verdict is
            `not identifiable`, or nothing was predicted.
        own_actions: Share of the logged actions that differ from the controller's by 1 % of their range at
            most. Where nearly all do, `nopg.Monitor` compares what the log earned with the prediction.
    """

    assessment: Assessment
    predicted: Assessment | None
    against_prediction: AgainstPrediction | None
    own_actions: float

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        return {
            "assessment": self.assessment.to_dict(),
            "predicted": None if self.predicted is None else self.predicted.to_dict(),
            "against_prediction": self.against_prediction,
            "own_actions": self.own_actions,
        }

    def rows(self) -> dict[str, str]:
        """Return what it says, in words by name."""
        one, says = self.assessment, self.against_prediction or "nothing certain"
        rough = ", a rough answer" if self.against_prediction and one.verdict == "weak" else ""
        whose, more = "another", ""
        if self.own_actions >= _OWN_ROWS:
            whose, more = "this", "; see `nopg monitor` for what they earned"
        return {
            "predicted return": _in_interval(one),
            "verdict": "\n- ".join((one.verdict, *one.reasons)),
            "notes": "\n".join(one.notes),
            "leaves the data": f"{100 * one.unknown_mass:.2f} % of the time, discounted",
            "by the training": _in_interval(self.predicted) if self.predicted else "saved without its data",
            "by this log": says + rough,
            "recorded under": f"{whose} controller: {100 * self.own_actions:.0f} % of the actions are its "
            f"own{more}",
        }


def _in_interval(found: Assessment) -> str:
    return "{:.5g}, 95 % interval [{:.5g}, {:.5g}]".format(found.expected_return, *found.interval)


def evaluate_on_log(result: Trained, data: Transitions) -> LogEvaluation:
    """Evaluate a trained controller by another log of the same plant; see `match_log`.

    A model of this log alone predicts the return; beside it stands what the model of the training predicts.
    """
    data, policy, predicted = match_log(result, data), result.policy, None
    against: AgainstPrediction | None = None
    with suppress(DataError):  # saved without its data
        training = result.evaluator
        predicted = training.starting_as(training.data.with_starts(data.starts)).assess(policy)
    evaluator = OfflineEvaluator(data, result.discount)
    found = evaluator.assess(policy)
    if predicted is not None and "not identifiable" not in (found.verdict, predicted.verdict):
        # Both returns are from these starts, which are no sample in a comparison.
        low, high = evaluator.starting_as(data.starting_at(data.starts)).assess(policy).interval
        least, most = predicted.interval
        against = "less than predicted" if high < least else "as predicted"
        against = "more than predicted" if low > most else against
    own = PolicyLaw.of(policy, data.schema).mode(data.features)
    both = torch.cat([own, data.actions])
    tolerance = _SAME_ACTION * (both.amax(dim=0) - both.amin(dim=0))
    share = float(((own - data.actions).abs() <= tolerance).all(dim=1).double().mean())
    return LogEvaluation(found, predicted, against, share)


def match_log(result: Trained, data: Transitions, *, name: str = "the log") -> Transitions:
    """Return another log with the columns of a controller; refuse one that cannot be of the same plant.

    It is refused if its columns, its interval or declared units are others, if most values of a column lie
    more than a range away from the range in the first log, as in other units, or if it has too few rows.
    """
    data = with_columns(result.policy.schema, data, name)
    fewest = _ROWS_PER_COEFFICIENT * (1 + len(data.schema.states) + len(data.schema.actions))
    if len(data) < fewest:
        raise DataError(f"{name} is too short: it has {len(data)} transitions; give at least {fewest}")
    _check_ranges(result, data, name)
    return data


def with_columns(schema: Schema, data: Transitions, name: str) -> Transitions:
    """Return a log with the columns of a controller, the derived ones added; refuse one that has others."""
    data = data.derive(formulas=schema.derived)
    check_columns(data.schema, schema, name)
    return replace(data, schema=schema)


def check_columns(schema: Schema, wanted: Schema, name: str) -> None:
    """Refuse other columns than a controller's, another interval, or other units where both are declared."""
    for kind in ("states", "actions"):
        found, columns = (", ".join(getattr(one, kind)) for one in (schema, wanted))
        if found != columns:
            raise DataError(f"the {kind} of {name} are {found}, those of the controller are {columns}")
    steps = schema.interval, wanted.interval
    if steps[0] and steps[1] and abs(steps[0] - steps[1]) > _SAME_INTERVAL * steps[1]:
        raise DataError(
            f"the rows of {name} are {steps[0]:g} s apart, those of the controller {steps[1]:g} s; "
            "resample the log"
        )
    for kind, what in (("units", "unit"), ("angles", "period")):
        here, there = getattr(schema, kind), getattr(wanted, kind)
        for column in sorted(here.keys() & there.keys()):
            if here[column] != there[column]:
                raise DataError(
                    f"the {what} of {column} is {here[column]} in {name}, {there[column]} in the "
                    "controller; convert"
                )


def _check_ranges(result: Trained, data: Transitions, name: str) -> None:
    """Refuse a column most of whose values lie more than a range away from its range in the first log.

    A controller may lead the plant beyond what was logged, but hardly that far: such a column is in other
    units. Angles are left out, as they may count turns; rewards where only their log would tell.
    """
    schema = result.policy.schema
    names, values = [*schema.states, *schema.actions], torch.cat([data.states, data.actions], dim=1)
    ends = torch.as_tensor(result.support.low), torch.as_tensor(result.support.high)
    try:
        first = result.data
        names, values = [*names, "reward"], torch.cat([values, data.rewards[:, None]], dim=1)
        ends = torch.cat([first.states, first.actions, first.rewards[:, None]], dim=1).aminmax(dim=0)
    except DataError:  # saved without its data
        pass
    for column, low, high, new in zip(names, ends[0].tolist(), ends[1].tolist(), values.T, strict=True):
        far = float(((new < 2 * low - high) | (new > 2 * high - low)).double().mean())
        if column not in (*schema.angles, *schema.derived) and high > low and far > 0.5:
            raise DataError(
                f"{name}: {column} lies between {float(new.min()):.4g} and {float(new.max()):.4g}, in "
                f"the log of the controller between {low:.4g} and {high:.4g}; are the units others? "
                "Convert it"
            )
