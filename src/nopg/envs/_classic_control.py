"""Pendulum, cart-pole, mountain car and the linear quadratic regulator: the paper's tasks."""

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, final, get_args

import numpy as np
import torch

from nopg.envs._environment import Environment, check_initial, check_positive, corner
from nopg.errors import ArgumentError

Start = Literal["hanging", "upright", "random"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pendulum(Environment):
    """Swing a rod up with a motor too weak to lift it, and keep it up.

    The angular acceleration of the uniform rod is 3g/(2l)·sin(angle) + 3/(ml²)·torque, integrated by one
    semi-implicit Euler step of 0.05 s, as in Gymnasium's `Pendulum-v1`.

    - State: `angle` in rad, 0 upright and ±π hanging; its period is 2π, and it is never wrapped, so it counts
      turns. `velocity` in rad/s, within ±8.
    - Action: `torque` in N m, clipped to ±2.
    - Reward: −(angle² + 0.1·velocity² + 0.001·torque²), between −16.28 and 0, with the state *before* the
      step, its angle wrapped to [−π, π), and the clipped torque.
    - End: no state is terminal.

    Attributes:
        start: Initial state of an episode: "hanging" is (π, 0), the paper's task; "upright" is (0, 0);
            "random" is Gymnasium's, the angle uniform in [−π, π] and the velocity in [−1, 1].

    Example:
        >>> torque = torch.tensor([[5.0]], dtype=torch.float64)  # clipped to 2
        >>> [round(number, 4) for number in Pendulum().step(Pendulum().initial(1), torque)[0].tolist()]
        [3.1566, 0.3]
    """

    start: Start = "hanging"

    gravity, mass, length, time_step, max_speed = 10.0, 1.0, 1.0, 0.05, 8.0
    state_names = ("angle", "velocity")
    action_names = ("torque",)
    angles = MappingProxyType({"angle": 2 * math.pi})
    state_high, action_high = corner(math.pi, max_speed), corner(2.0)

    def __post_init__(self) -> None:
        if self.start not in get_args(Start):
            raise ArgumentError(f"start must be one of {', '.join(get_args(Start))}; got {self.start!r}")

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return initial states (num_states, 2); random ones need a generator."""
        check_initial(num_states, rng, random=self.start == "random")
        if self.start != "random":
            angle = math.pi if self.start == "hanging" else 0.0
            return torch.tensor([[angle, 0.0]], dtype=torch.float64).repeat(num_states, 1)
        high = torch.tensor([math.pi, 1.0], dtype=torch.float64)
        return high * (2 * torch.rand(num_states, 2, dtype=torch.float64, generator=rng) - 1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 2) one time step later: velocity first, then the angle with the new one."""
        angle, velocity = states.unbind(-1)
        (torque,) = self.applied(actions).unbind(-1)
        inertia = self.mass * self.length**2
        acceleration = 3 * self.gravity / (2 * self.length) * torch.sin(angle) + 3 / inertia * torque
        velocity = (velocity + acceleration * self.time_step).clamp(-self.max_speed, self.max_speed)
        return torch.stack([angle + velocity * self.time_step, velocity], dim=-1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,), which depend on the state before the step and the clipped torque."""
        del next_states  # required by the interface
        angle, velocity = states.unbind(-1)
        (torque,) = self.applied(actions).unbind(-1)
        angle = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
        return -(angle**2 + 0.1 * velocity**2 + 0.001 * torque**2)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CartPole(Environment):
    """Keep a pole upright by driving the cart under it.

    Quanser's cart on a track carries a pole that turns freely; a motor with a rack and pinion drives it. A
    voltage V gives the force F = K_g K_t/(R_m r_mp)·(V − K_g K_m/r_mp·velocity), and with α the angle from
    upright

        (m_p + J_eq)·ẍ − m_p l cos α·α̈      = F − B_eq·ẋ − m_p l sin α·α̇²
        −m_p l cos α·ẍ + (J_p + m_p l²)·α̈   = −B_p·α̇ + m_p l g sin α

    with the constants of the public simulator; there the last term of the first equation has the other sign,
    so that a free pole gains energy. Each action is one semi-implicit Euler step.

    - State: `position` in m, `angle` in rad, 0 upright, positive to the left, with period 2π and never
      wrapped, `velocity` in m/s, `angular_velocity` in rad/s.
    - Action: `voltage`, clipped.
    - Reward: cos(angle) of the state *before* the step.
    - Start: at rest in the middle, with a random angle. The public simulator starts within 0.1 rad.
    - End: the angle beyond its limit (0.25 rad in the public simulator), or the cart beyond ±0.307 m, 10 cm
      before the end of the track.

    Attributes:
        rate: Actions per second, in Hz, positive; 50 and 500 are usual.
        max_voltage: Bound on the motor's voltage in V, positive; the paper's policies stay within 5.
        angle_limit: Largest angle from upright in rad, positive.
        start_angle: Largest initial angle from upright in rad, at least 0, below angle_limit.
    """

    rate: float = 50.0
    max_voltage: float = 24.0
    angle_limit: float = math.radians(3.0)
    start_angle: float = math.radians(1.5)

    gravity = 9.81
    pole_mass, pole_length, pole_damping = 0.127, 0.3365 / 2, 0.0024  # m_p, l, B_p
    cart_mass, cart_damping = 0.37, 5.4  # m_c, B_eq
    gear_ratio, rotor_inertia, pinion_radius = 3.71, 3.9e-7, 6.35e-3  # K_g, J_m, r_mp
    resistance, motor_constant = 2.6, 0.00767  # R_m; K_t in N m/A and K_m in V s/rad
    position_limit = 0.307
    # J_eq = m_c + K_g² J_m / r_mp² in kg, K_g K_t / (R_m r_mp) in N/V, K_g K_m / r_mp in V s/m
    moving_mass = cart_mass + gear_ratio**2 * rotor_inertia / pinion_radius**2
    force_per_volt = gear_ratio * motor_constant / (resistance * pinion_radius)
    back_emf = gear_ratio * motor_constant / pinion_radius
    state_names = ("position", "angle", "velocity", "angular_velocity")
    action_names = ("voltage",)
    state_high, action_high = corner(position_limit, "angle_limit", 1.0, 3.0), corner("max_voltage")
    angles = MappingProxyType({"angle": 2 * math.pi})

    def __post_init__(self) -> None:
        check_positive(self, "rate", "max_voltage", "angle_limit")
        if not 0 <= self.start_angle < self.angle_limit:
            raise ArgumentError(
                f"start_angle is {self.start_angle:.4g} rad; give 0 or more, and less than angle_limit, "
                f"{self.angle_limit:.4g} rad, where the episode ends"
            )

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return states at rest (num_states, 4) near upright; needs a generator unless start_angle is 0."""
        check_initial(num_states, rng, random=self.start_angle > 0)
        states = torch.zeros(num_states, 4, dtype=torch.float64)
        if self.start_angle > 0:
            draws = torch.rand(num_states, dtype=torch.float64, generator=rng)
            states[:, 1] = self.start_angle * (2 * draws - 1)
        return states

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 4) at the next action."""
        position, angle, velocity, spin = states.unbind(-1)
        (voltage,) = self.applied(actions).unbind(-1)
        moment = self.pole_mass * self.pole_length  # m_p l
        inertia = self.pole_length**2 * self.pole_mass / 3  # J_p, of a uniform rod about its centre
        force = self.force_per_volt * (voltage - self.back_emf * velocity)

        cart, pole = self.pole_mass + self.moving_mass, inertia + moment * self.pole_length
        coupling = -moment * torch.cos(angle)
        push = force - self.cart_damping * velocity - moment * torch.sin(angle) * spin**2
        tip = moment * self.gravity * torch.sin(angle) - self.pole_damping * spin

        determinant = cart * pole - coupling**2
        acceleration = (pole * push - coupling * tip) / determinant
        angular, dt = (cart * tip - coupling * push) / determinant, 1 / self.rate
        velocity, spin = velocity + dt * acceleration, spin + dt * angular
        position, angle = position + dt * velocity, angle + dt * spin
        return torch.stack([position, angle, velocity, spin], dim=-1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,), the cosine of the angle before the step."""
        del actions, next_states  # required by the interface
        return torch.cos(states[..., 1])

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,): where the pole or the cart is beyond its limit."""
        position, angle = next_states[..., 0], next_states[..., 1]
        return (position.abs() > self.position_limit) | (angle.abs() > self.angle_limit)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MountainCar(Environment):
    """Drive a car out of a valley with an engine too weak for the slope.

    In each step the velocity changes by 0.0015·throttle − 0.0025·cos(3·position), then the position by the
    new velocity; both are clipped to their bounds, and the velocity is 0 after the car hits the wall on the
    left. Gymnasium's `MountainCarContinuous-v0` rounds its state to float32 after every step; this does not.

    - State: `position` within [−1.2, 0.6] and `velocity` within ±0.07.
    - Action: `throttle`, clipped to ±1.
    - Reward: −1 for every step, the last one included.
    - Start: at rest, with the position uniform in [−0.6, −0.4], around the bottom of the valley.
    - End: the goal, position at least 0.45 with a velocity of at least 0.
    """

    power, gravity, max_speed = 0.0015, 0.0025, 0.07
    min_position, max_position = -1.2, 0.6
    goal_position, goal_velocity = 0.45, 0.0
    state_names = ("position", "velocity")
    action_names = ("throttle",)
    state_low, state_high = corner(min_position, -max_speed), corner(max_position, max_speed)
    action_high = corner(1.0)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return states at rest (num_states, 2) around the bottom of the valley; needs a generator."""
        check_initial(num_states, rng, random=True)
        position = -0.6 + 0.2 * torch.rand(num_states, dtype=torch.float64, generator=rng)
        return torch.stack([position, torch.zeros_like(position)], dim=-1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 2) one step later: velocity first, then the position with the new one."""
        position, velocity = states.unbind(-1)
        (throttle,) = self.applied(actions).unbind(-1)
        velocity = velocity + (throttle * self.power - self.gravity * torch.cos(3 * position))
        velocity = velocity.clamp(-self.max_speed, self.max_speed)
        position = (position + velocity).clamp(self.min_position, self.max_position)
        hits_wall = (position == self.min_position) & (velocity < 0)
        return torch.stack([position, torch.where(hits_wall, 0.0, velocity)], dim=-1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return −1 for each transition, shape (m,)."""
        del actions, next_states  # required by the interface
        return -torch.ones(states.shape[:-1], dtype=torch.float64)

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,): which states have reached the goal."""
        position, velocity = next_states.unbind(-1)
        return (position >= self.goal_position) & (velocity >= self.goal_velocity)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LQR(Environment):
    """Bring the linear system x′ = Ax + Bu to rest and maximise ½ Σₜ γᵗ (xᵀQx + uᵀRu).

    Two decoupled, unstable coordinates, x₁′ = 1.2 x₁ + 0.1 u₁ and x₂′ = 1.1 x₂ + 0.2 u₂, each with its own
    action, from (1, 1). Actions are never clipped, so that a linear controller stays linear. The reward takes
    the state *before* the step, with Q = −diag(.5, .25), R = −.01 I and γ = .9. No state is terminal.

    Attributes:
        control: B, shape (2, 2).
        state_bound: Half the width of the box of states that the collectors sample, positive.
        action_bound: Half the width of the box of actions that the collectors sample, positive.
    """

    control: tuple[tuple[float, float], tuple[float, float]] = ((0.1, 0.0), (0.0, 0.2))
    state_bound: float = 2.0
    action_bound: float = 15.0

    dynamics = ((1.2, 0.0), (0.0, 1.1))  # A
    state_reward = ((-0.5, 0.0), (0.0, -0.25))  # Q
    action_reward = ((-0.01, 0.0), (0.0, -0.01))  # R
    initial_state, discount = (1.0, 1.0), 0.9
    state_names = ("x1", "x2")
    action_names = ("u1", "u2")
    state_high = corner("state_bound", "state_bound")
    action_high = corner("action_bound", "action_bound")

    def __post_init__(self) -> None:
        B = np.array(self.control, dtype=float)
        if B.shape != (2, 2) or not np.isfinite(B).all():
            raise ArgumentError(f"control is {self.control}; give finite numbers of shape (2, 2)")
        check_positive(self, "state_bound", "action_bound")

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return x₀ repeated, shape (num_states, 2); the generator is not used."""
        check_initial(num_states, rng, random=False)
        return torch.tensor([self.initial_state], dtype=torch.float64).repeat(num_states, 1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return Ax + Bu for every row, shape (m, 2)."""
        A, B = (torch.tensor(rows, dtype=torch.float64) for rows in (self.dynamics, self.control))
        return states @ A.T + self.applied(actions) @ B.T

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return ½(xᵀQx + uᵀRu) for every row, shape (m,)."""
        del next_states  # required by the interface
        Q, R = (torch.tensor(rows, dtype=torch.float64) for rows in (self.state_reward, self.action_reward))
        u = self.applied(actions)
        return 0.5 * ((states @ Q * states).sum(-1) + (u @ R * u).sum(-1))

    def applied(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the actions unchanged."""
        return actions
