"""Four coupled tanks and two pumps, from pcgym's equations."""

from __future__ import annotations

from types import MappingProxyType

import torch

from nopg.envs import ControlLaw, Environment
from studies.plants.logged import LoggedPlant, with_dither
from studies.plants.pcgym_models import ProcessPlant
from studies.plants.simulation import Noise

__all__ = ["FOUR_TANKS", "FourTanks"]

# pcgym's constants: outlets in m², pump gains in m³/(V s), share of each pump that goes to its lower tank.
_OUTLETS = (0.0035, 0.0030, 0.0020, 0.0025)
_PUMPS = (0.00085, 0.00095)
_SHARE, _GRAVITY = 0.2, 9.81


class FourTanks(ProcessPlant):
    """Bring the two lower tanks to their set points with two pumps that mostly fill the upper ones.

    The equations are those of Johansson (2000) as in pcgym's `four_tank`. Only a fifth of each pump goes
    straight to a lower tank, so the plant has a zero in the right half plane and the pairing of pumps and
    tanks is crossed. Sampled every 10 s. The reward is −(e1² + e2²)/.02² − .001·(v1² + v2²) of the state
    before the step, with e the deviations of the lower levels in m. Episodes start at rest at voltages
    uniform in [4, 6] V, with set points that other such voltages hold.
    """

    model = "four_tank"
    state_names = ("level1", "level2", "level3", "level4", "set_point1", "set_point2")
    low, high = (0.0,) * 6, (0.6,) * 6
    action_range = MappingProxyType({"voltage1": (0.1, 10.0), "voltage2": (0.1, 10.0)})
    time_step, substeps, num_moving = 10.0, 10, 4

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Draw states (num_states, 6) at rest, with other set points."""
        start, goal = 4 + 2 * torch.rand(2, num_states, 2, dtype=torch.float64, generator=rng)
        return torch.cat([resting_levels(start), resting_levels(goal)[:, :2]], dim=1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,)."""
        del next_states
        error = (states[:, 4:] - states[:, :2]) / 0.02
        return -error.square().sum(dim=1) - 0.001 * self.applied(actions).square().sum(dim=1)


def resting_levels(voltages: torch.Tensor) -> torch.Tensor:
    """Return the four levels (m, 4) in m that two voltages (m, 2) hold."""
    straight = _SHARE * voltages * torch.tensor(_PUMPS, dtype=torch.float64)
    crossed = (1 - _SHARE) * voltages * torch.tensor(_PUMPS, dtype=torch.float64)
    flows = torch.cat([straight + crossed.flip(1), crossed.flip(1)], dim=1)  # out of tanks 1 to 4
    return (flows / torch.tensor(_OUTLETS, dtype=torch.float64)).square() / (2 * _GRAVITY)


def resting_voltages(levels: torch.Tensor) -> torch.Tensor:
    """Return the voltages (m, 2) that hold the upper two of four levels (m, 4) in m."""
    upper = (
        torch.tensor(_OUTLETS[2:], dtype=torch.float64) * (2 * _GRAVITY * levels[:, 2:].clamp(min=0)).sqrt()
    )
    return upper.flip(1) / ((1 - _SHARE) * torch.tensor(_PUMPS, dtype=torch.float64))


def _behaviour(plant: Environment, rng: torch.Generator) -> ControlLaw:
    """Return two crossed PI controllers with dither of .3 V; their integrals begin as at rest."""
    gain, integral_time, time_step = 15.0, 100.0, FourTanks.time_step
    integral = torch.zeros(0, 2, dtype=torch.float64)

    def act(states: torch.Tensor) -> torch.Tensor:
        nonlocal integral
        if len(integral) == 0:
            integral = resting_voltages(states[:, :4])
        error = (states[:, 4:6] - states[:, :2]).flip(1)  # pump 1 serves tank 2, pump 2 tank 1
        integral = integral + gain * time_step / integral_time * error
        return gain * error + integral

    return with_dither(act, plant, (0.3, 0.3), rng)


FOUR_TANKS = LoggedPlant(
    name="four-tanks",
    role="report",
    make_plant=FourTanks,
    discount=0.95,
    sizes=(1_000,),
    steps=100,
    episodes=100,
    noise=Noise(measurement=(0.001, 0.001, 0.001, 0.001, 0.0, 0.0)),
    make_behaviour=_behaviour,
    logged_steps=50,
)
"""20 episodes of 50 samples under two PI controllers with changing set points; noise of 1 mm."""
