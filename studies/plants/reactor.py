"""A stirred reactor held at an unstable operating point, from pcgym's equations."""

from __future__ import annotations

from types import MappingProxyType

import torch

from nopg.envs import ControlLaw, Environment
from studies.plants.logged import LoggedPlant, with_dither
from studies.plants.pcgym_models import ProcessPlant
from studies.plants.simulation import Noise

__all__ = ["REACTOR", "Reactor"]

# The unstable steady state of the equations at a coolant of 300 K.
_CONCENTRATION, _TEMPERATURE, _COOLANT = 0.5, 350.0, 300.0


class Reactor(ProcessPlant):
    """Hold a first-order exothermic reaction at a temperature at which it runs away by itself.

    The equations are those of Seborg, Edgar and Mellichamp as in pcgym's `cstr`: a cooling jacket at
    `coolant` K, feed at 350 K and 1 mol/l. Sampled every .1 min, the operating point has an eigenvalue of
    1.33 per step. The reward is −((T − 350)/5)² − ((c − .5)/.05)² − .01·((coolant − 300)/5)² of the state
    before the step. Episodes start within ±5 K and ±.05 mol/l of the operating point.
    """

    model = "cstr"
    constant_inputs = (350.0, 1.0)  # temperature and concentration of the feed
    state_names = ("concentration", "temperature")
    low, high = (0.0, 250.0), (1.0, 600.0)
    action_range = MappingProxyType({"coolant": (280.0, 320.0)})
    time_step, substeps, num_moving = 0.1, 10, 2

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Draw states (num_states, 2) around the operating point."""
        draws = 2 * torch.rand(num_states, 2, dtype=torch.float64, generator=rng) - 1
        centre = torch.tensor([_CONCENTRATION, _TEMPERATURE], dtype=torch.float64)
        return centre + torch.tensor([0.05, 5.0], dtype=torch.float64) * draws

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,)."""
        del next_states
        concentration = (states[:, 0] - _CONCENTRATION) / 0.05
        temperature = (states[:, 1] - _TEMPERATURE) / 5.0
        coolant = (self.applied(actions)[:, 0] - _COOLANT) / 5.0
        return -(concentration**2 + temperature**2 + 0.01 * coolant**2)


def _behaviour(plant: Environment, rng: torch.Generator) -> ControlLaw:
    """Return a PI controller of the temperature with dither of 2 K on the coolant."""
    gain, integral_time, time_step = 2.5, 2.0, Reactor.time_step
    integral = torch.zeros(0, dtype=torch.float64)

    def act(states: torch.Tensor) -> torch.Tensor:
        nonlocal integral
        error = _TEMPERATURE - states[:, 1]
        integral = (
            integral if len(integral) else torch.zeros_like(error)
        ) + time_step / integral_time * error
        return (_COOLANT + gain * (error + integral))[:, None]

    return with_dither(act, plant, (2.0,), rng)


REACTOR = LoggedPlant(
    name="reactor",
    role="report",
    make_plant=Reactor,
    discount=0.95,
    sizes=(1_000,),
    steps=100,
    episodes=100,
    noise=Noise(measurement=(0.005, 0.3)),
    make_behaviour=_behaviour,
    logged_steps=50,
)
"""20 episodes of 50 samples under a PI controller; noise of .005 mol/l and .3 K."""
