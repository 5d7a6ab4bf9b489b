"""The one rule by which a controller is chosen, and what a comparison of several returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from nopg.evaluation._assessment import DEVIATIONS, Assessment, Gain, Verdict, halves_error
from nopg.evaluation._behavior import LoggedReturns
from nopg.evaluation._paths import Paths
from nopg.inspect._wording import chance, shortened

_VERDICTS = get_args(Verdict)
LOGGED = "logged"
"""Name of the logged behaviour in a comparison."""

# Probability of being better with which a controller replaces one that comes before it.
_BETTER = 0.9
_WIDEST = 22  # with a longer name the table is wider than a terminal of 80 columns
# From the simplest on; all others come after them.
_SIMPLE = (LOGGED, "lqr", "mpc", "cloning")


def cautious_return(paths: Paths) -> float:
    """Return the lower end of what differs between controllers of one kind on one model.

    An interval has the whole bias on held-out rows. Of two controllers that go the same way it differs by
    chance, so here the bias counts where less is earned than predicted, as far as chance does not explain it.
    """
    error = DEVIATIONS * halves_error(paths.returns, paths.weights)
    return paths.by_start.starts.mean(paths.by_start.worst) - error + min(paths.held_out.certain, 0.0)


def choose(found: Sequence[Assessment], logged: Assessment, order: Sequence[int] | None = None) -> int:
    """Return the place of the controller to run.

    What is surely worse than the logged behaviour is left out, unless all are, and what is not identifiable
    where something else is. If some are surely better than the log, only these come into question. Of
    them the best verdict is taken, then the simplest, of equally simple ones the highest lower end; another
    replaces it if it is better with 90 % probability, by a gain that anybody would see.

    Args:
        found: The controllers.
        logged: The logged behaviour, followed through as many parts of the model.
        order: How simple each is, the simplest 0; all alike by default.
    """
    simple, every = order or [0] * len(found), range(len(found))
    gains = [(0.0, 0.0) if one is logged else one.gain_over(logged).interval for one in found]
    places = [k for k in every if gains[k][1] >= 0.0] or [*every]
    places = [k for k in places if found[k].verdict != _VERDICTS[-1]] or places
    places = [k for k in places if gains[k][0] > found[k].least_gain] or places
    if len(places) > 1:
        verdicts = {k: _VERDICTS.index(found[k].verdict) for k in places}
        places.sort(key=lambda k: (verdicts[k], simple[k], -cautious_return(found[k].paths)))
    best = places[0]
    for k in places[1:]:
        gain = found[k].gain_over(found[best])
        if gain.mean > found[best].least_gain and gain.probability_better > _BETTER:
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
        order = [_SIMPLE.index(name) if name in _SIMPLE else len(_SIMPLE) for name in names]
        order = [place if place < len(_SIMPLE) else place + k for k, place in enumerate(order)]
        return names[choose([*self.evaluations.values()], self.evaluations[LOGGED], order)]

    def __str__(self) -> str:
        rows, best = [("policy", "return", "gain over logged", "better", "verdict")], self.best
        for name, one in self.evaluations.items():
            gain, interval = self.gains.get(name), "[{:.4g}, {:.4g}]".format(*one.interval)
            mean, better, between = "", "", ""
            if gain:
                mean, better = f"{gain.mean:+.3g}", chance(gain.probability_better)
                between = "[{:+.3g}, {:+.3g}]".format(*gain.interval)
            marked = shortened(name, _WIDEST) + " *" * (name == best)
            rows.append((marked, f"{one.expected_return:.4g}", mean, better, one.verdict))
            rows.append(("", interval, between, "", ""))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        lines.append("* recommended: no other is better with 90 % probability; intervals are 95 %")
        if seen := self.seen:
            lines.append(
                f"logged episodes earned {seen.mean:.4g} ± {seen.standard_error:.2g} (n = {seen.episodes})"
            )
        reasons = dict.fromkeys(reason for one in self.evaluations.values() for reason in one.reasons)
        for reason in reasons:
            who = [name for name, one in self.evaluations.items() if reason in one.reasons]
            lines.append(f"{', '.join(who)}: {reason}")
        return "\n".join(lines)
