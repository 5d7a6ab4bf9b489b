"""Findings about steps, coverage and initial states, in bandwidths.

None is a reason to stop: bandwidths are those of the paper's model, and the default model counts itself what
it does not know.
"""

from __future__ import annotations

from nopg.inspect._coverage import REACH, UNKNOWN_BEYOND, Coverage
from nopg.inspect._findings import Finding, look, ok
from nopg.inspect._wording import count_of, listed, share_of

_FEW_UNKNOWN = 0.05


def coverage_findings(coverage: Coverage) -> list[Finding]:
    """Return the findings about a coverage."""
    return [_steps(coverage), _density(coverage), _starts(coverage)]


def _steps(coverage: Coverage) -> Finding:
    """Return the finding about the length of a step against the bandwidth."""
    topic, skip, short = "steps", coverage.frame_skip, coverage.short
    if skip == 1:
        moving = {name: ratio for name, ratio in coverage.steps.items() if ratio > 0}
        if not moving:
            return look(
                topic,
                "in the median row no state column moves",
                "Check that next states are those after the action, and cut rows recorded at rest",
            )
        name = min(moving, key=lambda name: moving[name])
        return ok(topic, f"a median step is at least {moving[name]:.2g} bandwidths ({name})")

    shown = listed([f"{ratio:.2g} of a bandwidth in {name}" for name, ratio in short.items()])
    what = f"a median step is {shown}: the paper's model hardly moves"
    if coverage.holes > 1:
        what += f"; even so one row in ten lies over {REACH * coverage.holes:.2g} bandwidths from all others"
    return look(
        topic,
        what,
        f"Try a frame skip of {skip}: keep one state in {skip}, hold the action in between, sum the rewards",
    )


def _density(coverage: Coverage) -> Finding:
    """Return the finding about rows without neighbours."""
    topic = "coverage"
    beyond = float((coverage.nearest > UNKNOWN_BEYOND).double().mean())
    if beyond <= _FEW_UNKNOWN:
        middle, nearest = float(coverage.neighbors.median()), float(coverage.nearest.median())
        return ok(
            topic,
            f"the median row has {middle:.2g} effective neighbours, the nearest at {nearest:.2g} bandwidths",
        )
    advice = (
        "Record more there, or leave out columns that do not matter: the model does not know these places"
    )
    if coverage.frame_skip > 1:
        advice = "Correct the steps first: longer ones allow wider bandwidths"
    return look(
        topic,
        f"{share_of(beyond)} of rows, left out, lie over {UNKNOWN_BEYOND:.1f} bandwidths from all others",
        advice,
    )


def _starts(coverage: Coverage) -> Finding:
    """Return the finding about data near the initial states."""
    topic, distances = "initial states", coverage.starts_nearest
    worst, far = float(distances.max()), int((distances > REACH).sum())
    if coverage.starts_assumed:
        return look(
            topic,
            "none are declared, and without episodes every row counts as one",
            "Declare where the controller will start: data.starting_at(…), or --start",
        )
    if not far:
        near = f"within {worst:.2g} bandwidths of" if worst > 1e-9 else "at"
        return ok(topic, f"there are data {near} every start")

    verb = "lies" if far == 1 else "lie"
    apart = coverage.start_kind == "episodes" and len(distances) > 1
    others = "the other episodes" if apart else "other rows"
    whose = "the data" if coverage.start_kind == "declared" else others
    advice = "Record more from there, or start where there are data: every return begins in these states"
    if coverage.frame_skip > 1:
        advice = "Correct the steps first: longer ones allow wider bandwidths; then record more from there"
    return look(
        topic,
        f"{far} of {count_of(len(distances), 'start')} {verb} over {REACH:g} bandwidths "
        f"from {whose}, the farthest {worst:.2g}",
        advice,
    )
