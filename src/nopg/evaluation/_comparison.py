"""The one rule by which a controller is chosen, and what a comparison of several returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from nopg.baselines import BASELINES
from nopg.evaluation._assessment import DEVIATIONS, Assessment, Gain, Verdict, halves_error, worst_returns
from nopg.evaluation._behavior import LoggedReturns
from nopg.evaluation._paths import Paths
from nopg.inspect._wording import chance, shortened

_VERDICTS = get_args(Verdict)
LOGGED = "logged"
"""Name of the logged behaviour in a comparison."""

_WIDEST = 22  # with a longer name the table is wider than a terminal of 80 columns
# From the simplest on; all others come after them.
_SIMPLE = (LOGGED, "lqr", "mpc", "cloning")


def cautious_return(paths: Paths) -> float:
    """Return the lower end of what differs between controllers of one kind on one model.

    An interval has the whole bias on held-out rows. Of two controllers that go the same way it differs by
    chance, so here the bias counts where less is earned than predicted, as far as chance does not explain it.
    """
    error = DEVIATIONS * halves_error(paths.returns, paths.weights)
    return paths.by_start.starts.mean(worst_returns(paths.by_start)) - error - paths.held_out.shortfall


def choose(found: Sequence[Assessment], order: Sequence[int] | None = None) -> int:
    """Return the place of the controller to run.

    Only those with the best verdict of all come into question. Of these the simplest is taken, of equally
    simple ones that with the highest lower end; another replaces it only if it is better with 97.5 %
    probability, by a gain that anybody would see.

    Args:
        found: The controllers.
        order: How simple each is, the simplest 0; all alike by default.
    """
    simple = [0] * len(found) if order is None else order
    verdict = min(_VERDICTS.index(one.verdict) for one in found)
    places = [k for k, one in enumerate(found) if _VERDICTS.index(one.verdict) == verdict]
    if len(places) == 1:
        return places[0]
    places.sort(key=lambda k: (simple[k], -cautious_return(found[k].paths)))
    best = places[0]
    for k in places[1:]:
        if found[k].gain_over(found[best]).interval[0] > found[best].least_gain:
            best = k
    return best


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several policies on the same data.

    Attributes:
        evaluations: By name; `logged` is the logged behaviour, imitated.
        gains: Over the logged behaviour, by name.
        seen: Returns of the logged episodes, where these are long enough.
    """

    evaluations: Mapping[str, Assessment]
    gains: Mapping[str, Gain]
    seen: LoggedReturns | None

    @property
    def best(self) -> str:
        """The one to run, as `optimize` chooses: by the verdict, then the simplest that none surely beats.

        The logged behaviour is the simplest, then come least squares + LQR, linear MPC, behaviour cloning,
        and the rest in their order.
        """
        names = [*self.evaluations]
        order = [
            _SIMPLE.index(name) if name in _SIMPLE else len(_SIMPLE) + place
            for place, name in enumerate(names)
        ]
        return names[choose([*self.evaluations.values()], order)]

    @property
    def legend(self) -> str:
        """What the baselines among the policies are, in one line each; empty without any."""
        return "\n".join(
            f"{name}: {BASELINES[name].summary}" for name in self.evaluations if name in BASELINES
        )

    def __str__(self) -> str:
        rows = [("policy", "return", "gain over logged", "better", "verdict")]
        reasons: dict[str, list[str]] = {}
        for name, one in self.evaluations.items():
            gain = self.gains.get(name)
            rows += [
                (
                    shortened(name, _WIDEST) + " *" * (name == self.best),
                    f"{one.expected_return:.4g}",
                    f"{gain.mean:+.3g}" if gain else "",
                    chance(gain.probability_better) if gain else "",
                    one.verdict,
                ),
                (
                    "",
                    "[{:.4g}, {:.4g}]".format(*one.interval),
                    "[{:+.3g}, {:+.3g}]".format(*gain.interval) if gain else "",
                    "",
                    "",
                ),
            ]
            for reason in one.reasons:
                reasons.setdefault(reason, []).append(name)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        lines += [self.legend] if self.legend else []
        lines.append("* recommended: no other is significantly better; intervals are 95 %")
        if seen := self.seen:
            lines.append(
                f"logged episodes earned {seen.mean:.4g} ± {seen.standard_error:.2g} (n = {seen.episodes})"
            )
        return "\n".join(lines + [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()])
