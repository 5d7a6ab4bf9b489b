"""The Quanser cart-pole: a cart driven by a motor, with a pole to balance."""

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self, final

import torch

from nopg.envs._environment import Environment, check_initial, check_numbers
from nopg.errors import ArgumentError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CartPole(Environment):
    """Keep a pole upright by driving the cart under it.

    ## Description

    A cart on a track carries a pole that turns freely; a motor with a rack and pinion drives it. A voltage V
    gives the force F = K_g K_t/(R_m r_mp)·(V − K_g K_m/r_mp·velocity), and with α the angle from upright

        (m_p + J_eq)·ẍ − m_p l cos α·α̈      = F − B_eq·ẋ − m_p l sin α·α̇²
        −m_p l cos α·ẍ + (J_p + m_p l²)·α̈   = −B_p·α̇ + m_p l g sin α

    Quanser and the public simulator write θ = α + π. Each action is one semi-implicit Euler step: velocities
    first, then the positions with the new ones. That is coarse at 50 Hz; `substeps=10` integrates at the
    500 Hz of the public simulator.

    In the public simulator the last term of the first equation has the other sign, so that the energy of a
    free pole is not conserved; `corrected=False` gives that. Within the box below the term is near 0.01 N,
    against 1.7 N per volt, so the choice hardly matters there.

    ## Action Space

    One voltage, clipped to its bounds.

    | Num | Action    | Min | Max |
    |-----|-----------|-----|-----|
    | 0   | `voltage` | −24 | 24  |

    ## Observation Space

    The state itself. The angle is 0 upright and positive to the left (counter-clockwise); it has period 2π
    and is never wrapped. The bounds are the box that the collectors sample: the limits of the task, and
    velocities that a few steps can reach.

    | Num | Observation        | Min    | Max   | Unit  |
    |-----|--------------------|--------|-------|-------|
    | 0   | `position`         | −0.307 | 0.307 | m     |
    | 1   | `angle`            | −3°    | 3°    | rad   |
    | 2   | `velocity`         | −1     | 1     | m/s   |
    | 3   | `angular_velocity` | −3     | 3     | rad/s |

    ## Rewards

    r = cos(angle) of the state *before* the step: 1 upright, so that 10⁴ steps return at most 10⁴.

    ## Starting State

    At rest in the middle, the angle uniform within ±1.5°; `start_angle=0` starts upright. The public
    simulator starts within 0.1 rad (5.7°), beyond the paper's limit.

    ## Episode End

    A state is terminal when the angle leaves ±3° or the cart ±0.307 m, 10 cm before the end of the track.
    The paper evaluates for 10⁴ steps.

    ## Version History

    * v0: the constants of the public simulator of the Quanser cart, the limits of the paper.

    Attributes:
        pole_mass: m_p in kg, positive; Quanser's long pole has 0.230.
        pole_length: l, from the pivot to the centre of mass of the uniform rod, in m, positive; 0.3302 for
            the long pole.
        pole_damping: B_p, viscous friction of the pivot in N m s/rad.
        rate: Actions per second, in Hz, positive; 50 and 500 are usual.
        substeps: Number of Euler steps between two actions, at least 1.
        gravity: g in m/s².
        cart_mass: m_c in kg, positive.
        cart_damping: B_eq, viscous friction of the cart in N s/m.
        gear_ratio: K_g, positive.
        rotor_inertia: J_m, of the motor's rotor in kg m².
        pinion_radius: r_mp in m, positive.
        resistance: R_m, of the armature in Ω, positive.
        torque_constant: K_t in N m/A, positive.
        back_emf_constant: K_m in V s/rad.
        corrected: Whether the centrifugal force has its true sign; False is the public simulator's.
        max_voltage: Bound on the motor's voltage in V, positive; the paper's policies stay within 5.
        track_limit: Half the length of the track in m, positive.
        position_limit: Largest distance from the middle in m, positive, on the track.
        angle_limit: Largest angle from upright in rad, positive.
        start_angle: Largest initial angle from upright in rad, below angle_limit.

    Example:
        >>> cart_pole = CartPole()
        >>> states = torch.tensor([[0.0, 0.02, 0.0, 0.0]], dtype=torch.float64)
        >>> voltages = torch.tensor([[-1.0]], dtype=torch.float64)
        >>> [round(number, 4) for number in cart_pole.step(states, voltages)[0].tolist()]
        [-0.0013, 0.0147, -0.0637, -0.2666]
    """

    pole_mass: float = 0.127
    pole_length: float = 0.3365 / 2
    pole_damping: float = 0.0024
    rate: float = 50.0
    substeps: int = 1
    gravity: float = 9.81
    cart_mass: float = 0.37
    cart_damping: float = 5.4
    gear_ratio: float = 3.71
    rotor_inertia: float = 3.9e-7
    pinion_radius: float = 6.35e-3
    resistance: float = 2.6
    torque_constant: float = 0.00767
    back_emf_constant: float = 0.00767
    corrected: bool = True
    max_voltage: float = 24.0
    track_limit: float = 0.407
    position_limit: float = 0.307
    angle_limit: float = math.radians(3.0)
    start_angle: float = math.radians(1.5)

    state_names = ("position", "angle", "velocity", "angular_velocity")
    action_names = ("voltage",)
    angles = MappingProxyType({"angle": 2 * math.pi})

    def __post_init__(self) -> None:
        check_numbers(
            self,
            positive=(
                *("pole_mass", "pole_length", "rate", "cart_mass", "gear_ratio", "pinion_radius"),
                *("resistance", "torque_constant", "max_voltage", "track_limit", "position_limit"),
                "angle_limit",
            ),
            non_negative=(
                *("pole_damping", "gravity", "cart_damping", "rotor_inertia", "back_emf_constant"),
                "start_angle",
            ),
        )
        if self.substeps < 1:
            raise ArgumentError(f"substeps must be at least 1, got {self.substeps}; try 1")
        if self.position_limit > self.track_limit:
            raise ArgumentError(
                f"position_limit {self.position_limit} is beyond the track's {self.track_limit}"
            )
        if self.start_angle >= self.angle_limit:
            raise ArgumentError(
                f"start_angle is {self.start_angle:.4g} rad, where the episode has already ended; "
                f"give less than angle_limit, {self.angle_limit:.4g} rad"
            )

    @classmethod
    def public_simulator(cls, *, rate: float = 500.0) -> Self:
        """Return the public simulator: start within 0.1 rad, end at 0.25 rad, 500 Hz, its sign."""
        return cls(rate=rate, angle_limit=0.25, start_angle=0.1, corrected=False)

    @property
    def moving_mass(self) -> float:
        """J_eq = m_c + K_g² J_m / r_mp², the mass of the cart and the inertia of its motor, in kg."""
        return self.cart_mass + self.gear_ratio**2 * self.rotor_inertia / self.pinion_radius**2

    @property
    def force_per_volt(self) -> float:
        """K_g K_t / (R_m r_mp), in N/V."""
        return self.gear_ratio * self.torque_constant / (self.resistance * self.pinion_radius)

    @property
    def back_emf(self) -> float:
        """K_g K_m / r_mp, the back-EMF of the motor per m/s of the cart, in V s/m."""
        return self.gear_ratio * self.back_emf_constant / self.pinion_radius

    @property
    def state_high(self) -> torch.Tensor:
        """The upper corner of the box: the limits of the task, 1 m/s and 3 rad/s."""
        return torch.tensor([self.position_limit, self.angle_limit, 1.0, 3.0], dtype=torch.float64)

    @property
    def action_high(self) -> torch.Tensor:
        """The largest voltage, max_voltage; positive is to the right."""
        return torch.tensor([self.max_voltage], dtype=torch.float64)

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
        dt = 1 / (self.rate * self.substeps)
        position, angle, velocity, spin = states.unbind(-1)
        (voltage,) = self.applied(actions).unbind(-1)

        for _ in range(self.substeps):
            acceleration, angular = self._accelerations(angle, velocity, spin, voltage)
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

    def _accelerations(
        self, angle: torch.Tensor, velocity: torch.Tensor, spin: torch.Tensor, voltage: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Solve the two equations of motion for the accelerations of cart and pole, each (m,)."""
        moment = self.pole_mass * self.pole_length  # m_p l
        inertia = self.pole_length**2 * self.pole_mass / 3  # J_p, of a uniform rod about its centre
        force = self.force_per_volt * (voltage - self.back_emf * velocity)

        cart, pole = self.pole_mass + self.moving_mass, inertia + moment * self.pole_length
        coupling = -moment * torch.cos(angle)
        centrifugal = moment * torch.sin(angle) * spin**2
        push = force - self.cart_damping * velocity + (-centrifugal if self.corrected else centrifugal)
        tip = moment * self.gravity * torch.sin(angle) - self.pole_damping * spin

        determinant = cart * pole - coupling**2
        return (pole * push - coupling * tip) / determinant, (cart * tip - coupling * push) / determinant
