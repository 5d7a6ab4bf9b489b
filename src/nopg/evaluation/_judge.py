"""What the data say of a controller that somebody else trained."""

from __future__ import annotations

import math
from typing import Any

import torch

from nopg._seeding import generator
from nopg._typing import as_tensor
from nopg.bandwidths import select_bandwidths
from nopg.bellman import ControlProblem
from nopg.data import Schema, Transitions
from nopg.errors import ArgumentError
from nopg.evaluation._control_law import control_law
from nopg.graph import DEFAULT_PRIOR_MASS, LocalLinear, NadarayaWatson, TransitionModel, compare_models
from nopg.policies import Deterministic
from nopg.rollouts import ControlLaw
from nopg.solvers import Solver

__all__ = ["PolicyLaw", "judge", "judged_return"]


class PolicyLaw(Deterministic):
    """A control law where the equation asks for a policy.

    What it asks for beyond the bounds that the schema declares for an action is cut off there, as the plant
    will do.

    Args:
        law: From raw states (m, d_s) to actions (m, d_a).
        schema: Of the data.
    """

    def __init__(self, law: ControlLaw, schema: Schema) -> None:
        super().__init__()
        self.law, self.schema, self.num_actions = law, schema, len(schema.actions)
        bounds = [schema.bounds.get(name, (-math.inf, math.inf)) for name in schema.actions]
        self._low, self._high = torch.tensor(bounds, dtype=torch.float64).T

    @classmethod
    def of(cls, policy: Any, schema: Schema) -> PolicyLaw:
        """Return anything that acts as a policy of the data; see `control_law`."""
        return cls(control_law(policy, schema), schema)

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        """Return the actions at features (m, d_f)."""
        with torch.no_grad():
            actions = as_tensor(self.law(self.schema.decode(features.double())))
        if actions.shape != (len(features), self.num_actions):
            raise ArgumentError(
                f"the policy returned actions of shape {tuple(actions.shape)} for {len(features)} states; it "
                f"must return {self.num_actions} numbers for each"
            )
        return actions.clamp(self._low, self._high).to(features.dtype)


def judge(data: Transitions, discount: float) -> ControlProblem:
    """Return the data's Bellman equation for any policy: bandwidths and model as the data want them."""
    h = select_bandwidths(data)
    comparison = compare_models(data, h)
    model: TransitionModel = (
        LocalLinear(data, h.state_kernel, shape=comparison.shape)
        if comparison.chosen == "local-linear"
        else NadarayaWatson(data, h, prior_mass=DEFAULT_PRIOR_MASS)
    )
    return ControlProblem.build(model, data.schema.encode(data.starts), discount=discount)


def judged_return(
    policy: Any, problem: ControlProblem, schema: Schema, *, solver: Solver | None = None
) -> float:
    """Return Ĵ of anything that acts: one solve of the Bellman equation of the data, no training.

    Args:
        policy: See `control_law`.
        problem: The data's transition model with initial states and discount, such as `judge` builds.
        schema: Of the data.
        solver: Of the linear system; `Auto` if not given.
    """
    law = PolicyLaw.of(policy, schema)
    return problem.equation(law, generator(0, "judge")).solve(solver, tolerance=1e-6).expected_return
