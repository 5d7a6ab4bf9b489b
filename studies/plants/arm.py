"""A planar arm with two links that moves its hand to a goal."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

import torch

from nopg.envs import Environment, UniformAgent
from studies.plants.logged import LoggedPlant
from studies.plants.simulation import integrate

__all__ = ["ARM", "ArmParameters", "TwoLinkArm"]


@dataclass(frozen=True, slots=True)
class ArmParameters:
    """Constants of the arm; both links are uniform rods.

    Attributes:
        lengths: Lengths of the links in m.
        masses: Masses of the links in kg.
        friction: Viscous friction of each joint in N m s/rad.
        max_torque: Bound on each torque in N m.
        time_step: Seconds between two actions.
        substeps: Runge-Kutta steps between two actions.
        effort: Cost of a squared N m, in metres of distance.
        start_low: Lowest joint angles in which an episode starts or a goal is reached, in rad.
        start_high: Highest such angles, in rad.
    """

    lengths: tuple[float, float] = (0.5, 0.5)
    masses: tuple[float, float] = (1.0, 1.0)
    friction: float = 0.2
    max_torque: float = 1.0
    time_step: float = 0.05
    substeps: int = 2
    effort: float = 0.01
    start_low: tuple[float, float] = (-1.0, 0.3)
    start_high: tuple[float, float] = (1.0, 2.3)


@final
@dataclass(frozen=True, slots=True)
class TwoLinkArm(Environment):
    """Reach a goal with two rigid links in a horizontal plane, driven by a motor in each joint.

    With the joint angles q = (q1, q2), the second measured from the first link, the rigid-body equations
    without gravity are M(q) q̈ + c(q, q̇) + b q̇ = τ. The goal is two columns of the state and constant within
    an episode. The reward is −‖hand − goal‖ − effort·‖τ‖² of the state before the step. No state is terminal.

    Attributes:
        parameters: Constants of the arm.
    """

    parameters: ArmParameters = field(default_factory=ArmParameters)

    state_names = ("q1", "q2", "speed1", "speed2", "goal_x", "goal_y")
    action_names = ("torque1", "torque2")
    angles = MappingProxyType({"q1": 2 * math.pi, "q2": 2 * math.pi})

    @property
    def state_low(self) -> torch.Tensor:
        """Lower corner of the box of states."""
        return -self.state_high

    @property
    def state_high(self) -> torch.Tensor:
        """Upper corner of the box of states."""
        reach = sum(self.parameters.lengths)
        return torch.tensor([math.pi, math.pi, 4.0, 4.0, reach, reach], dtype=torch.float64)

    @property
    def action_low(self) -> torch.Tensor:
        """Strongest torques clockwise."""
        return -self.action_high

    @property
    def action_high(self) -> torch.Tensor:
        """Strongest torques counter-clockwise."""
        return torch.full((2,), self.parameters.max_torque, dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Draw resting states (num_states, 6): joint angles, and a goal that other such angles reach."""
        low = torch.tensor(self.parameters.start_low, dtype=torch.float64)
        high = torch.tensor(self.parameters.start_high, dtype=torch.float64)
        draws = torch.rand(2, num_states, 2, dtype=torch.float64, generator=rng)
        start, goal = low + (high - low) * draws
        return torch.cat([start, torch.zeros_like(start), self.hand(goal)], dim=1)

    def hand(self, angles: torch.Tensor) -> torch.Tensor:
        """Return the positions (m, 2) of the hand in m at joint angles (m, 2)."""
        first, second = self.parameters.lengths
        shoulder, elbow = angles[..., 0], angles[..., 0] + angles[..., 1]
        x = first * torch.cos(shoulder) + second * torch.cos(elbow)
        y = first * torch.sin(shoulder) + second * torch.sin(elbow)
        return torch.stack([x, y], dim=-1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 6) one time step later; the goal stays."""
        p, torques = self.parameters, self.applied(actions)
        moved = integrate(
            lambda joints: self._rates(joints, torques),
            states[..., :4],
            time=p.time_step,
            substeps=p.substeps,
        )
        return torch.cat([moved, states[..., 4:]], dim=-1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,), which depend on the state before the step and the clipped torques."""
        del next_states
        distance: torch.Tensor = (self.hand(states[..., :2]) - states[..., 4:]).norm(dim=-1)
        return -distance - self.parameters.effort * self.applied(actions).square().sum(dim=-1)

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,), all false."""
        return torch.zeros(next_states.shape[:-1], dtype=torch.bool)

    def _rates(self, joints: torch.Tensor, torques: torch.Tensor) -> torch.Tensor:
        """Return the time derivative (m, 4) of joint angles and speeds."""
        p = self.parameters
        (l_1, l_2), (m_1, m_2) = p.lengths, p.masses
        bend, speed_1, speed_2 = joints[..., 1], joints[..., 2], joints[..., 3]

        coupling = m_2 * l_1 * l_2 / 2
        mass_22 = m_2 * l_2**2 / 3
        mass_12 = mass_22 + coupling * torch.cos(bend)
        mass_11 = m_1 * l_1**2 / 3 + m_2 * l_1**2 + mass_22 + 2 * coupling * torch.cos(bend)

        curl = coupling * torch.sin(bend)
        force_1 = torques[..., 0] + curl * (2 * speed_1 * speed_2 + speed_2**2) - p.friction * speed_1
        force_2 = torques[..., 1] - curl * speed_1**2 - p.friction * speed_2

        determinant = mass_11 * mass_22 - mass_12**2
        gain_1 = (mass_22 * force_1 - mass_12 * force_2) / determinant
        gain_2 = (mass_11 * force_2 - mass_12 * force_1) / determinant
        return torch.stack([speed_1, speed_2, gain_1, gain_2], dim=-1)


ARM = LoggedPlant(
    name="two-link-arm",
    role="development",
    make_plant=TwoLinkArm,
    discount=0.97,
    sizes=(3_000,),
    steps=100,
    episodes=100,
    make_behaviour=lambda plant, rng: UniformAgent.within(plant).controller(rng),
    logged_steps=50,
)
"""60 episodes of 50 steps under random torques, six state columns of which the goal moves nothing."""
