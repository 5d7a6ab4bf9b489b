"""A rotary pendulum that is swung up and held from logs of random torques and of noisy energy control."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

import torch

from nopg.envs import ControlLaw, Environment
from studies.plants.logged import LoggedPlant
from studies.plants.simulation import integrate

__all__ = ["FURUTA", "FurutaParameters", "FurutaPendulum"]

_GRAVITY = 9.81
# Random torques are held for some steps; energy control goes beyond the top and has normal noise. Torques are
# shares of the largest one, energies of the depth.
_CHANGES, _GAIN, _BEYOND, _DITHER = 0.3, 8.0, 0.2, 0.4


@dataclass(frozen=True, slots=True)
class FurutaParameters:
    """Constants of the pendulum.

    Attributes:
        arm_length: Length of the driven arm in m.
        arm_inertia: Inertia of arm and motor around the vertical axis in kg m².
        mass: Mass of the pendulum in kg.
        center: Distance from the joint to the centre of mass of the pendulum in m.
        inertia: Inertia of the pendulum around its joint in kg m².
        friction: Viscous friction of arm and joint in N m s/rad.
        max_torque: Bound on the torque in N m.
        time_step: Seconds between two actions.
        substeps: Runge-Kutta steps between two actions.
    """

    arm_length: float = 0.15
    arm_inertia: float = 4e-3
    mass: float = 0.1
    center: float = 0.14
    inertia: float = 2.6e-3
    friction: tuple[float, float] = (4e-3, 1e-4)
    max_torque: float = 0.2
    time_step: float = 0.04
    substeps: int = 4


@final
@dataclass(frozen=True, slots=True)
class FurutaPendulum(Environment):
    """Swing a pendulum up at the end of an arm that turns in a horizontal plane, and hold it there.

    The angle of the pendulum is 0 upright. The reward is −(1 − cos angle) − .05·arm² − .002·arm_speed²
    − .0005·speed² − .02·(torque/max_torque)² of the state before the step. No state is terminal.

    Attributes:
        parameters: Constants of the pendulum.
    """

    parameters: FurutaParameters = field(default_factory=FurutaParameters)

    state_names = ("arm", "angle", "arm_speed", "speed")
    action_names = ("torque",)
    angles = MappingProxyType({"angle": 2 * math.pi})

    @property
    def state_low(self) -> torch.Tensor:
        """Lower corner of the box of states."""
        return -self.state_high

    @property
    def state_high(self) -> torch.Tensor:
        """Upper corner of the box of states."""
        return torch.tensor([3.0, math.pi, 15.0, 20.0], dtype=torch.float64)

    @property
    def action_low(self) -> torch.Tensor:
        """Strongest torque clockwise."""
        return -self.action_high

    @property
    def action_high(self) -> torch.Tensor:
        """Strongest torque counter-clockwise."""
        return torch.tensor([self.parameters.max_torque], dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Draw states (num_states, 4) near hanging at rest."""
        spread = torch.tensor([0.3, 0.3, 0.3, 0.3], dtype=torch.float64)
        hanging = torch.tensor([0.0, math.pi, 0.0, 0.0], dtype=torch.float64)
        return hanging + spread * (2 * torch.rand(num_states, 4, dtype=torch.float64, generator=rng) - 1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 4) one time step later."""
        p, torque = self.parameters, self.applied(actions)[..., 0]
        return integrate(lambda now: self._rates(now, torque), states, time=p.time_step, substeps=p.substeps)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,), which depend on the state before the step and the clipped torque."""
        del next_states
        arm, angle, arm_speed, speed = states.unbind(dim=-1)
        effort = (self.applied(actions)[..., 0] / self.parameters.max_torque).square()
        falls = 1 - angle.cos() + 0.05 * arm.square() + 0.002 * arm_speed.square() + 0.0005 * speed.square()
        return -falls - 0.02 * effort

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,), all false."""
        return torch.zeros(next_states.shape[:-1], dtype=torch.bool)

    def energy(self, states: torch.Tensor) -> torch.Tensor:
        """Return the energy (m,) of the pendulum in J, 0 upright at rest."""
        p = self.parameters
        fallen = p.mass * _GRAVITY * p.center * (states[..., 1].cos() - 1)
        return 0.5 * p.inertia * states[..., 3].square() + fallen

    def _rates(self, states: torch.Tensor, torque: torch.Tensor) -> torch.Tensor:
        """Return the time derivative (m, 4) of the states, from the Lagrangian of two rigid bodies."""
        p = self.parameters
        _, angle, arm_speed, speed = states.unbind(dim=-1)
        sin, cos = angle.sin(), angle.cos()
        coupling = p.mass * p.arm_length * p.center
        mass_11 = p.arm_inertia + p.mass * p.arm_length**2 + p.inertia * sin.square()
        mass_12, mass_22 = coupling * cos, p.inertia
        turning = 2 * p.inertia * sin * cos * arm_speed * speed
        force_1 = torque - p.friction[0] * arm_speed - turning + coupling * sin * speed.square()
        pull = p.mass * _GRAVITY * p.center * sin
        force_2 = p.inertia * sin * cos * arm_speed.square() + pull - p.friction[1] * speed
        determinant = mass_11 * mass_22 - mass_12.square()
        gain_1 = (mass_22 * force_1 - mass_12 * force_2) / determinant
        gain_2 = (mass_11 * force_2 - mass_12 * force_1) / determinant
        return torch.stack([arm_speed, speed, gain_1, gain_2], dim=-1)


def _behaviour(plant: Environment, rng: torch.Generator) -> ControlLaw:
    """Return random torques in every other episode, noisy energy control in the rest."""
    assert isinstance(plant, FurutaPendulum)
    largest, held = plant.parameters.max_torque, torch.zeros(0, dtype=torch.float64)
    depth = 2 * plant.parameters.mass * _GRAVITY * plant.parameters.center

    def act(states: torch.Tensor) -> torch.Tensor:
        nonlocal held
        m = len(states)
        held = held if len(held) == m else torch.zeros(m, dtype=torch.float64)
        drawn = 2 * torch.rand(m, generator=rng, dtype=torch.float64) - 1
        changes = torch.rand(m, generator=rng, dtype=torch.float64) < _CHANGES
        held = torch.where(changes, drawn, held)
        arm, angle, arm_speed, speed = states.unbind(dim=-1)
        pumped = _GAIN * (plant.energy(states) / depth - _BEYOND) * torch.sign(speed * angle.cos())
        noise = _DITHER * torch.randn(m, generator=rng, dtype=torch.float64)
        asked = torch.where(torch.arange(m) % 2 == 0, held, pumped.clamp(-1.0, 1.0) + noise)
        share = asked - 0.3 * arm - 0.05 * arm_speed  # the arm is kept near the centre
        return plant.applied(largest * share[:, None])

    return act


FURUTA = LoggedPlant(
    name="furuta",
    role="development",
    make_plant=FurutaPendulum,
    discount=0.98,
    sizes=(2_500, 5_000),
    steps=200,
    episodes=50,
    make_behaviour=_behaviour,
    logged_steps=100,
)
"""50 episodes of 100 steps from hanging; the task is to swing up and hold within 8 s."""
